"""The parts of a HybridDeviceOptimizer as optimizers of the classes given."""

from __future__ import annotations

from typing import Any, Callable

import torch

from spillway.optimizer.states import StateMapping
from spillway.optimizer.store import Group


def make_sub_optimizer(
    cls: type[torch.optim.Optimizer],
    groups: list[Group],
    belongs: Callable[[torch.Tensor], bool],
    states: StateMapping,
) -> torch.optim.Optimizer | None:
    """An instance of ``cls`` that shows the groups and states of some parameters; None if there are
    none. The engine does its work: its ``step`` raises."""
    shown = []
    for group in groups:
        params = [param for param in group["params"] if belongs(param)]
        if params:
            shown.append({**group, "params": params})
    if not shown:
        return None
    part: Any = cls(shown)
    part.state = states
    part.step = _refuse
    return part


def _refuse(*_args: Any, **_kwargs: Any) -> None:
    raise RuntimeError(
        "A part of a HybridDeviceOptimizer shows states and groups only; call step() on the whole."
    )
