"""The given optimizer classes as they are, on host and device copies of the parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from spillway.optimizer.options import Placement
from spillway.optimizer.store import Group, LayoutChanged, State
from spillway.optimizer.tensors import is_trained, local_of


class TorchStore:
    """For classes that the engine does not know. Offloads whole parameters, the first ones of the
    groups, until the fraction is reached; parameters on the host belong to the host part anyway.
    """

    def __init__(
        self,
        groups: Callable[[], list[Group]],
        *,
        offload_fraction: float,
        host_cls: type[torch.optim.Optimizer],
        device_cls: type[torch.optim.Optimizer],
        update_in_fp32: bool,
        pin: bool,
        master_always: bool,
    ) -> None:
        self._groups = groups
        self.positions = [list(group["params"]) for group in groups()]
        self._master_always = master_always
        self._inner: dict[torch.Tensor, torch.Tensor] = {}
        self._original: dict[torch.Tensor, torch.Tensor] = {}
        self._host: set[torch.Tensor] = set()
        self._choose_host_part(offload_fraction)
        for param in self._trained():
            inner = self._make_inner(param, update_in_fp32, pin)
            self._inner[param] = inner
            self._original[inner] = param
        self.host_optimizer = self._make_optimizer(host_cls, on_host=True)
        self.device_optimizer = self._make_optimizer(device_cls, on_host=False)

    def _trained(self) -> list[torch.Tensor]:
        return [param for params in self.positions for param in params if is_trained(param)]

    def _choose_host_part(self, fraction: float) -> None:
        params = self._trained()
        wanted = fraction * sum(p.numel() for p in params if p.is_cuda)
        taken = 0
        for param in params:
            if not param.is_cuda:
                self._host.add(param)
            elif taken < wanted:
                self._host.add(param)
                taken += param.numel()

    def _make_inner(self, param: torch.Tensor, update_in_fp32: bool, pin: bool) -> torch.Tensor:
        """What is stepped for ``param``: itself, an fp32 master, or a host copy."""
        wider = update_in_fp32 and param.dtype is not torch.float32
        moves = param in self._host and param.is_cuda
        if not wider and not moves:
            return param
        inner = param.detach().to(
            dtype=torch.float32 if wider else param.dtype,
            device="cpu" if moves else param.device,
            copy=True,
        )
        if moves and pin:
            inner = inner.pin_memory()
        return inner.requires_grad_()

    def _make_optimizer(
        self, cls: type[torch.optim.Optimizer], *, on_host: bool
    ) -> torch.optim.Optimizer | None:
        groups = []
        for index, group in enumerate(self._groups()):
            params = [
                self._inner[p]
                for p in group["params"]
                if p in self._inner and (p in self._host) == on_host
            ]
            if params:
                groups.append({**group, "params": params, "_index": index})
        return cls(groups) if groups else None

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """The host's part first."""
        both = (self.host_optimizer, self.device_optimizer)
        return [optimizer for optimizer in both if optimizer is not None]

    # Stepping.

    def step(self) -> None:
        now = [list(map(id, group["params"])) for group in self._groups()]
        if now != [list(map(id, params)) for params in self.positions]:
            raise LayoutChanged
        self._pass_hyperparameters()
        with torch.no_grad():
            for param, inner in self._inner.items():
                self._pass_gradient(param, inner)
        if any(param.is_cuda for param in self._host):
            torch.cuda.current_stream().synchronize()  # the host part reads what was just copied
        for optimizer in self.optimizers:
            optimizer.step()
        with torch.no_grad():
            for param, inner in self._inner.items():
                if inner is not param:
                    param.copy_(inner, non_blocking=True)

    def _pass_hyperparameters(self) -> None:
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                current = self._groups()[group["_index"]]
                group.update({key: value for key, value in current.items() if key != "params"})

    def _pass_gradient(self, param: torch.Tensor, inner: torch.Tensor) -> None:
        gradient = getattr(param, "decoupled_grad", None)
        if gradient is None:
            gradient = param.grad
        elif param.grad is not None:
            raise RuntimeError(
                f"A parameter of shape {tuple(param.shape)} has both .grad and .decoupled_grad. "
                "Set the one that is not meant to None."
            )
        if inner is param:
            inner.grad = gradient
        elif gradient is None:
            inner.grad = None
        elif inner.grad is not None:
            inner.grad.copy_(gradient, non_blocking=True)
        else:
            inner.grad = gradient.to(device=inner.device, dtype=inner.dtype, copy=True)

    def wait_for_layer(self, layer: int) -> None:
        """Nothing: step() returns after the update."""

    def synchronize(self) -> None:
        if any(param.is_cuda for param in self._inner):
            torch.cuda.current_stream().synchronize()

    # States.

    def _optimizer_of(self, param: torch.Tensor) -> torch.optim.Optimizer | None:
        return self.host_optimizer if param in self._host else self.device_optimizer

    def parameters_with_state(self) -> list[torch.Tensor]:
        return [param for param in self._inner if self._state_of(param)]

    def _state_of(self, param: torch.Tensor) -> Mapping[str, Any]:
        optimizer = self._optimizer_of(param)
        if optimizer is None or param not in self._inner:
            return {}
        state: Mapping[str, Any] = optimizer.state.get(self._inner[param], {})
        return state

    def read_state(self, param: torch.Tensor) -> State:
        state = {key: _copy(value) for key, value in self._state_of(param).items()}
        if state and (self._master_always or self._inner[param] is not param):
            state["master_param"] = self.read_master(param)
        return state

    def write_state(self, param: torch.Tensor, state: Mapping[str, Any]) -> None:
        optimizer = self._optimizer_of(param)
        if optimizer is None or param not in self._inner:
            raise ValueError(
                f"There is a state for a parameter of shape {tuple(param.shape)} that is not "
                "trained. Set requires_grad, or leave its state out."
            )
        inner = self._inner[param]
        kept = {}
        for key, value in state.items():
            if key == "master_param":
                self.write_master(param, value)
            elif isinstance(value, torch.Tensor):
                kept[key] = value.to("cpu" if key == "step" else inner.device, copy=True)
            else:
                kept[key] = value
        if kept:
            optimizer.state[inner] = kept
        else:
            optimizer.state.pop(inner, None)

    def clear_state(self, param: torch.Tensor) -> None:
        self.write_state(param, {})

    def read_master(self, param: torch.Tensor) -> torch.Tensor:
        return self._inner[param].detach().clone()

    def write_master(self, param: torch.Tensor, master: torch.Tensor) -> None:
        inner = self._inner[param]
        if inner is not param:
            with torch.no_grad():
                inner.copy_(master)

    def create_states(self) -> None:
        """One step with gradients and rates of zero, after which the parameters are put back."""
        saved = {inner: inner.detach().clone() for inner in self._original}
        for optimizer in self.optimizers:
            rates = [group["lr"] for group in optimizer.param_groups]
            for group in optimizer.param_groups:
                group["lr"] = 0.0
                for inner in group["params"]:
                    inner.grad = torch.zeros_like(inner)
            optimizer.step()
            optimizer.zero_grad()
            for group, rate in zip(optimizer.param_groups, rates):
                group["lr"] = rate
        with torch.no_grad():
            for inner, value in saved.items():
                inner.copy_(value)

    def reload_masters(self) -> None:
        with torch.no_grad():
            for param, inner in self._inner.items():
                if inner is not param:
                    inner.copy_(param)

    # Reports.

    def on_host(self, param: torch.Tensor) -> bool:
        return param in self._host

    def placement(self) -> Placement:
        sizes = {True: 0, False: 0}
        for param, inner in self._inner.items():
            tensors = [v for v in self._state_of(param).values() if isinstance(v, torch.Tensor)]
            if inner is not param:
                tensors.append(inner)
            bytes_of_states = sum(t.numel() * t.element_size() for t in tensors)
            sizes[param in self._host] += bytes_of_states
        return Placement(
            engine=" and ".join(type(optimizer).__name__ for optimizer in self.optimizers),
            num_elements=sum(local_of(p).numel() for p in self._inner),
            num_offloaded_elements=sum(local_of(p).numel() for p in self._inner if p in self._host),
            device_state_bytes=sizes[False],
            host_state_bytes=sizes[True],
            device_staging_bytes=0,
            host_staging_bytes=0,
            update="host" if self._host else "none",
            host_isa="torch",
            host_threads=torch.get_num_threads(),
        )


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value
