"""Who has the states and updates the parameters; built when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch

from spillway.optimizer.options import Placement

Group = dict[str, Any]
State = dict[str, Any]


class LayoutChanged(Exception):
    """The groups hold other parameters than those that the store was built for."""


class StateStore(Protocol):
    """Who has the states and updates the parameters."""

    positions: list[list[torch.Tensor]]
    """The parameters of each group that the store was built for."""

    def step(self) -> None:
        """Raises LayoutChanged, and has changed nothing then."""

    def wait_for_layer(self, layer: int) -> None:
        """Orders PyTorch's current stream after the update of a layer's parameters."""

    def synchronize(self) -> None:
        """Waits for everything that is still under way."""

    def placement(self) -> Placement: ...

    def on_host(self, param: torch.Tensor) -> bool:
        """True if some or all of a parameter's states are in host memory."""

    def create_states(self) -> None:
        """Gives each trainable parameter states of zero; changes no parameter."""

    def reload_masters(self) -> None:
        """Makes the masters anew from the parameters' values."""

    def parameters_with_state(self) -> list[torch.Tensor]: ...

    def read_state(self, param: torch.Tensor) -> State:
        """Copies of a parameter's states in PyTorch's names; empty if it has none."""

    def write_state(self, param: torch.Tensor, state: Mapping[str, Any]) -> None: ...

    def clear_state(self, param: torch.Tensor) -> None: ...

    def read_master(self, param: torch.Tensor) -> torch.Tensor: ...

    def write_master(self, param: torch.Tensor, master: torch.Tensor) -> None: ...


class LazyStore:
    """Calling it gives the store, built at the first call.

    Frameworks build an optimizer before they know which shard of the parameters is theirs, and
    build it again then; nothing should be allocated for the first.
    """

    def __init__(self, build: Callable[[], StateStore]) -> None:
        self._build = build
        self._store: StateStore | None = None

    def __call__(self) -> StateStore:
        if self._store is None:
            self._store = self._build()
        return self._store

    @property
    def built(self) -> bool:
        return self._store is not None

    def parameters_with_state(self) -> list[torch.Tensor]:
        """None before the store is built."""
        return self._store.parameters_with_state() if self._store is not None else []

    def rebuild(self, groups: list[Group]) -> StateStore:
        """Builds the store again for ``groups`` as they are now. A state follows its parameter; one
        that was replaced by a tensor of its shape hands its state to that."""
        old = self()
        states = {param: old.read_state(param) for param in old.parameters_with_state()}
        for before, group in zip(old.positions, groups):
            for was, now in zip(before, group["params"]):
                if was in states and now.shape == was.shape:
                    states.setdefault(now, states[was])
        present = {param for group in groups for param in group["params"]}
        del old
        self._store = None  # its memory is needed for the new one
        new = self()
        for param, state in states.items():
            if param in present:
                new.write_state(param, state)
        return new
