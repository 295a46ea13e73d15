"""States in Spillway's engine: one engine for each device that parameters are on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from spillway import _core
from spillway._devices import current_stream, device_for
from spillway.optimizer import rules
from spillway.optimizer.options import Placement
from spillway.optimizer.rules import UpdateRule
from spillway.optimizer.store import Group, LayoutChanged, State
from spillway.optimizer.tensors import (
    DTYPE_NAMES,
    as_host_fp32,
    distribute_like,
    gradient_like,
    host_copy_like,
    is_distributed,
    is_trained,
    local_of,
)

# What PyTorch calls a state, and what the engine calls it.
_STATE_KINDS = {
    rules.ADAM: {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"},
    rules.SGD: {"momentum_buffer": "momentum"},
}
_FROZEN = -1
_ELSEWHERE = -2


@dataclass(frozen=True)
class StoreOptions:
    """What an EngineStore is built with."""

    rule: UpdateRule
    offload_fraction: float
    master_always: bool
    """States show a ``master_param`` for fp32 parameters too, as Megatron-Core's do."""
    engine: dict[str, Any]
    """For the engine as they are."""
    layers: dict[torch.Tensor, int]
    """Order of first use in forward; empty if the model is not known."""


class EngineStore:
    """Keeps an engine in step with PyTorch's parameter groups."""

    def __init__(self, groups: Callable[[], list[Group]], options: StoreOptions) -> None:
        self._groups = groups
        self._options = options
        self._created: set[torch.Tensor] = set()
        self.positions = [list(group["params"]) for group in groups()]
        trained: dict[torch.device, dict[torch.Tensor, int]] = {}
        for index, params in enumerate(self.positions):
            for param in filter(is_trained, params):
                trained.setdefault(local_of(param).device, {}).setdefault(param, index)
        self._parts = [
            _Part(device, rows, self.positions, options) for device, rows in trained.items()
        ]
        self._part_of = {param: part for part in self._parts for param in part.slots}

    # Stepping.

    def step(self) -> None:
        groups = self._groups()
        lists = [group["params"] for group in groups]
        if len(lists) != len(self.positions):
            raise LayoutChanged
        for part in self._parts:
            if not part.reader.read(lists):
                raise LayoutChanged
        settings = [self._options.rule.settings(group) for group in groups]
        for part in self._parts:
            part.engine.step(part.reader, settings, 1.0, current_stream(part.device))

    def wait_for_layer(self, layer: int) -> None:
        """Orders PyTorch's current stream after the update of a layer's parameters."""
        for part in self._parts:
            part.engine.wait_for_layer(layer, current_stream(part.device))
            part.reader.release(layer)

    def synchronize(self) -> None:
        for part in self._parts:
            part.engine.synchronize(current_stream(part.device))
            part.reader.release_all()

    # States.

    def parameters_with_state(self) -> list[torch.Tensor]:
        trained = (p for params in self.positions for p in params if p in self._part_of)
        return [p for p in dict.fromkeys(trained) if self._has_state(p, self._part_of[p])]

    def _has_state(self, param: torch.Tensor, part: _Part) -> bool:
        stepped = param in self._created or part.engine.num_steps(part.slots[param]) > 0
        return stepped and (bool(self._kinds(param)) or self._shows_master(param))

    def _kinds(self, param: torch.Tensor) -> dict[str, str]:
        kinds = _STATE_KINDS[self._options.rule.algorithm]
        if self._options.rule.algorithm == rules.SGD and not self._group_of(param).get("momentum"):
            return {}
        return kinds

    def _shows_master(self, param: torch.Tensor) -> bool:
        return self._options.master_always or param.dtype is not torch.float32

    def _group_of(self, param: torch.Tensor) -> Group:
        return self._groups()[self._part_of[param].group_of[param]]

    def read_state(self, param: torch.Tensor) -> State:
        part = self._part_of.get(param)
        if part is None or not self._has_state(param, part):
            return {}
        state: State = {}
        if self._options.rule.algorithm == rules.ADAM:
            state["step"] = torch.tensor(float(part.engine.num_steps(part.slots[param])))
        for name, kind in self._kinds(param).items():
            state[name] = part.read(param, kind)
        if self._shows_master(param):
            state["master_param"] = self.read_master(param)
        return state

    def write_state(self, param: torch.Tensor, state: Mapping[str, Any]) -> None:
        """Missing arrays become zero; a missing master is made from the parameter's value."""
        part = self._part_of.get(param)
        if part is None:
            if state:
                raise ValueError(
                    f"There is a state for a parameter of shape {tuple(param.shape)} that is not "
                    "trained. Set requires_grad, or leave its state out."
                )
            return
        for name, kind in self._kinds(param).items():
            value = state.get(name)
            if value is None:
                value = torch.zeros(local_of(param).shape)
            part.write(param, kind, value, name)
        if param.dtype is not torch.float32:
            master = state.get("master_param")
            self.write_master(param, param if master is None else master)
        step = state.get("step", 0)
        part.engine.set_num_steps(part.slots[param], int(step))
        (self._created.add if state else self._created.discard)(param)

    def clear_state(self, param: torch.Tensor) -> None:
        self.write_state(param, {})

    def read_master(self, param: torch.Tensor) -> torch.Tensor:
        part = self._part_of[param]
        if param.dtype is not torch.float32:
            return part.read(param, "master")
        return part.place(param, as_host_fp32(param, param, "master_param"))

    def write_master(self, param: torch.Tensor, master: torch.Tensor) -> None:
        self._part_of[param].write(param, "master", master, "master_param")

    def create_states(self) -> None:
        self._created.update(self._part_of)

    def reload_masters(self) -> None:
        for part in self._parts:
            part.engine.reload_model_params(current_stream(part.device))

    # Reports.

    def on_host(self, param: torch.Tensor) -> bool:
        part = self._part_of.get(param)
        return part is not None and part.on_host(param)

    def placement(self) -> Placement:
        reports = [part.engine.report() for part in self._parts]

        def total(key: str) -> int:
            return sum(report[key] for report in reports)

        return Placement(
            engine="spillway",
            num_elements=total("num_elements"),
            num_offloaded_elements=total("num_offloaded_elements"),
            device_state_bytes=total("device_state_bytes"),
            host_state_bytes=total("host_state_bytes"),
            device_staging_bytes=total("device_staging_bytes"),
            host_staging_bytes=total("host_staging_bytes"),
            update=reports[0]["update"] if reports else "none",
            host_isa=reports[0]["host_isa"] if reports else "none",
            host_threads=reports[0]["host_threads"] if reports else 0,
        )


class _Part:
    """The parameters of one device and their engine.

    The engine offloads the last elements of its list. It is given the parameters in reverse, so
    that the first ones of the groups are offloaded, as Megatron-Core does.
    """

    def __init__(
        self,
        device: torch.device,
        group_of: dict[torch.Tensor, int],
        positions: list[list[torch.Tensor]],
        options: StoreOptions,
    ) -> None:
        self.device = device
        self.group_of = group_of
        ordered = list(reversed(group_of))
        self.slots = {param: slot for slot, param in enumerate(ordered)}
        self.engine = _core.Engine(
            device=device_for(device),
            parameters=[self._describe(param, options) for param in ordered],
            num_groups=len(positions),
            options={**options.engine, "offload_fraction": options.offload_fraction},
            stream=current_stream(device),
        )
        self.reader = self._make_reader(positions, options)
        self._first_on_host = self._find_first_on_host(ordered)

    def _describe(
        self, param: torch.Tensor, options: StoreOptions
    ) -> tuple[str, int, str, int, int, int]:
        local = local_of(param)
        name = f"parameter {len(self.slots) - 1 - self.slots[param]} {tuple(param.shape)}"
        dtype = DTYPE_NAMES[local.dtype]
        layer = options.layers.get(param, 0)
        return name, local.data_ptr(), dtype, local.numel(), self.group_of[param], layer

    def _make_reader(
        self, positions: list[list[torch.Tensor]], options: StoreOptions
    ) -> _core.GradientReader:
        tensors = [param for params in positions for param in params]
        watched = []
        for param in tensors:
            here = local_of(param).device == self.device
            slot = self.slots.get(param, _FROZEN) if here else _ELSEWHERE
            layer = options.layers.get(param, 0)
            watched.append(_core.Watched(slot, layer, is_distributed(param)))
        return _core.GradientReader(
            tensors, watched, torch.bfloat16, torch.float32, gradient_like
        )

    def _find_first_on_host(self, ordered: list[torch.Tensor]) -> int:
        """The slot from which on states are, at least partly, in host memory."""
        report = self.engine.report()
        resident = report["num_elements"] - report["num_offloaded_elements"]
        for slot, param in enumerate(ordered):
            resident -= local_of(param).numel()
            if resident < 0:
                return slot
        return len(ordered)

    def on_host(self, param: torch.Tensor) -> bool:
        return self.slots[param] >= self._first_on_host

    def place(self, param: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """``value`` where the parameter's states are."""
        local = value if self.on_host(param) else value.to(self.device)
        return distribute_like(local, param)

    def read(self, param: torch.Tensor, kind: str) -> torch.Tensor:
        out = host_copy_like(param)
        self.engine.read_state(
            self.slots[param], kind, out.data_ptr(), current_stream(self.device)
        )
        return self.place(param, out)

    def write(self, param: torch.Tensor, kind: str, value: torch.Tensor, what: str) -> None:
        source = as_host_fp32(value, param, what)
        self.engine.write_state(
            self.slots[param], kind, source.data_ptr(), current_stream(self.device)
        )

