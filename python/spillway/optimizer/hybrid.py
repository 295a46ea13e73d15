"""The drop-in for Megatron-Core's HybridDeviceOptimizer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, overload

import torch

from spillway.optimizer import state_dicts
from spillway.optimizer.engine_store import EngineStore, StoreOptions
from spillway.optimizer.options import EngineOptions, Placement
from spillway.optimizer.overlap import ForwardOverlap
from spillway.optimizer.rules import rule_of, why_as_given
from spillway.optimizer.states import MasterMapping, StateLedger, StateMapping
from spillway.optimizer.store import LayoutChanged, LazyStore, StateStore
from spillway.optimizer.sub_optimizers import make_sub_optimizer
from spillway.optimizer.tensors import is_trained
from spillway.optimizer.torch_store import TorchStore

# Of the arguments, those that have no place in a saved group: a checkpoint holds plain values only.
_NOT_IN_GROUPS = ("cpu_optimizer_cls", "gpu_optimizer_cls", "engine")


class HybridDeviceOptimizer(torch.optim.Optimizer):
    """Adam or SGD whose states are in host memory for a chosen share of the parameters.

    The parameters after each step have the same bits for every ``offload_fraction`` and every
    option of ``engine``. States are fp32 unless ``engine`` says otherwise, bf16 parameters have an
    fp32 master. The share is exact to the element; the first parameters of the groups are the ones
    offloaded. Nothing is allocated before the first step, or the first look at the states.

    ``state`` and ``state_dict()`` have PyTorch's format with Megatron-Core's ``master_param``;
    checkpoints of either class load into the other. What they return are copies: a later step does
    not change them, and changes made to them are taken over at the next step (or at once by
    ``load_state_dict``).

    Args:
        params: parameters or groups, as for every ``torch.optim.Optimizer``. Frozen ones are
            ignored until they have a gradient. CPU tensors are served by the emulated device.
        offload_fraction: share of the elements whose states are in host memory, in [0, 1].
        cpu_optimizer_cls: ``torch.optim.Adam`` (weight decay is added to the gradient), ``AdamW``
            (decoupled) or ``SGD``; default AdamW. Another class is used as given, with a warning.
        gpu_optimizer_cls: the same for the part on the GPU; default: ``cpu_optimizer_cls``.
        param_update_in_fp32: shows masters as ``param_to_fp32_param`` and in the states. The engine
            always updates in fp32.
        pin_cpu_grads, pin_cpu_params: page-lock staging memory and states.
        overlap_cpu_optimizer_d2h_h2d: with :meth:`overlap_with_forward`, the update goes on under
            the next forward. Without it, the current stream is ordered after the whole update.
        engine: Spillway's own settings.
        **kwargs: hyper-parameters, as ``lr``, ``betas``, ``eps``, ``weight_decay``, ``momentum``.
    """

    def __init__(
        self,
        params: Iterable[Any],
        offload_fraction: float = 0.5,
        cpu_optimizer_cls: type[torch.optim.Optimizer] | None = None,
        gpu_optimizer_cls: type[torch.optim.Optimizer] | None = None,
        param_update_in_fp32: bool = False,
        pin_cpu_grads: bool = True,
        pin_cpu_params: bool = True,
        overlap_cpu_optimizer_d2h_h2d: bool = True,
        engine: EngineOptions | None = None,
        **kwargs: Any,
    ) -> None:
        _check_fraction(offload_fraction)
        self.offload_fraction = offload_fraction
        self.cpu_optimizer_cls = cpu_optimizer_cls or gpu_optimizer_cls or torch.optim.AdamW
        self.gpu_optimizer_cls = gpu_optimizer_cls or self.cpu_optimizer_cls
        self.param_update_in_fp32 = param_update_in_fp32
        self.pin_cpu_grads = pin_cpu_grads
        self.pin_cpu_params = pin_cpu_params
        self.overlap_cpu_optimizer_d2h_h2d = overlap_cpu_optimizer_d2h_h2d
        self.engine_options = engine or EngineOptions()
        self.sub_optimizer_kwargs = kwargs
        self._overlap: ForwardOverlap | None = None
        self._lazy = LazyStore(self._build_store)
        self._ledger = StateLedger(self._lazy)
        defaults = {
            "offload_fraction": offload_fraction,
            "cpu_optimizer_cls": cpu_optimizer_cls,
            "gpu_optimizer_cls": gpu_optimizer_cls,
            "param_update_in_fp32": param_update_in_fp32,
            "pin_cpu_grads": pin_cpu_grads,
            "pin_cpu_params": pin_cpu_params,
            "overlap_cpu_optimizer_d2h_h2d": overlap_cpu_optimizer_d2h_h2d,
            "engine": engine,
            **_class_defaults(self.cpu_optimizer_cls, kwargs),
        }
        super().__init__(params, defaults)
        self._refuse_conflicting_decay()

    # Building.

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        # A shard of an fp32 parameter may be a view of it. PyTorch refuses those unless the
        # optimizer is differentiable.
        differentiable = self.defaults.get("differentiable", False)
        self.defaults["differentiable"] = True
        param_group.setdefault("differentiable", differentiable)
        try:
            super().add_param_group(param_group)
        finally:
            self.defaults["differentiable"] = differentiable
        for key in _NOT_IN_GROUPS:
            self.param_groups[-1].pop(key, None)

    def _build_store(self) -> StateStore:
        reason = why_as_given(self.cpu_optimizer_cls, self.param_groups)
        reason = reason or why_as_given(self.gpu_optimizer_cls, self.param_groups)
        if self.engine_options.use_torch_optimizer:
            reason = "use_torch_optimizer is set"
        if reason is not None:
            return self._build_torch_store(reason)
        if self.offload_fraction == 0.0:
            warnings.warn(
                "offload_fraction is 0: no optimizer state is offloaded. 1.0 offloads all.",
                stacklevel=4,
            )
        return EngineStore(lambda: self.param_groups, self._store_options())

    def _store_options(self) -> StoreOptions:
        rule = rule_of(self.cpu_optimizer_cls)
        assert rule is not None
        own = self.engine_options
        return StoreOptions(
            rule=rule,
            offload_fraction=self.offload_fraction,
            master_always=self.param_update_in_fp32,
            engine={
                "algorithm": rule.algorithm,
                "overlap": self._overlap is not None and self.overlap_cpu_optimizer_d2h_h2d,
                "pin_cpu_grads": self.pin_cpu_grads,
                "pin_cpu_params": self.pin_cpu_params,
                "offload_update": own.offload_update,
                "master_format": own.master_format,
                "exp_avg_dtype": own.exp_avg_dtype,
                "exp_avg_sq_dtype": own.exp_avg_sq_dtype,
                "host_threads": own.host_threads,
                "host_isa": own.host_isa,
                "chunk_bytes": own.chunk_bytes,
                "ring_slots": own.ring_slots,
            },
            layers=self._overlap.layers if self._overlap is not None else {},
        )

    def _build_torch_store(self, reason: str) -> TorchStore:
        warnings.warn(
            f"{self.cpu_optimizer_cls.__name__} runs as given, slower than Spillway's engine and "
            f"in whole parameters: {reason}.",
            stacklevel=5,
        )
        return TorchStore(
            lambda: self.param_groups,
            offload_fraction=self.offload_fraction,
            host_cls=self.cpu_optimizer_cls,
            device_cls=self.gpu_optimizer_cls,
            update_in_fp32=self.param_update_in_fp32,
            pin=self.pin_cpu_params,
            master_always=self.param_update_in_fp32,
        )

    def _refuse_conflicting_decay(self) -> None:
        """The parts on host and device must follow one rule, or the result depends on the share."""
        host, device = rule_of(self.cpu_optimizer_cls), rule_of(self.gpu_optimizer_cls)
        if host is None or device is None:
            return
        for index, group in enumerate(self.param_groups):
            if group.get("weight_decay") and host.decoupled(group) != device.decoupled(group):
                raise ValueError(
                    f"Group {index} has weight_decay={group['weight_decay']}, which "
                    f"{self.cpu_optimizer_cls.__name__} (cpu_optimizer_cls) and "
                    f"{self.gpu_optimizer_cls.__name__} (gpu_optimizer_cls) apply differently. "
                    "Use AdamW for both (decoupled), or Adam for both (added to the gradient)."
                )

    # Stepping.

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Updates every parameter that has a gradient; the others and their states stay."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._overlap is not None:
            self._overlap.wait_for_all()
        self._ledger.recall()
        try:
            self._lazy().step()
        except LayoutChanged:
            self._lazy.rebuild(self.param_groups).step()
        if self._overlap is not None:
            self._overlap.begin()
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears ``grad`` and ``decoupled_grad`` of all parameters."""
        if not set_to_none and self._overlap is not None:
            self.synchronize()  # the update may still read the gradients
        super().zero_grad(set_to_none)
        for group in self.param_groups:
            for param in group["params"]:
                gradient = getattr(param, "decoupled_grad", None)
                if gradient is None:
                    continue
                if set_to_none:
                    param.decoupled_grad = None
                else:
                    gradient.zero_()

    def synchronize(self) -> None:
        """Waits for the whole update. For readers of parameters between steps, where
        :meth:`overlap_with_forward` is used."""
        self._lazy().synchronize()
        if self._overlap is not None:
            self._overlap.wait_for_all()

    def overlap_with_forward(self, model: torch.nn.Module) -> HybridDeviceOptimizer:
        """Lets ``step()`` return at once: the update goes on under the next forward of ``model``,
        and each of its layers waits only for its own parameters.

        Call it before the first step. Parameters read other than by ``model``'s forward or
        ``state_dict()`` need :meth:`synchronize` first. Returns the optimizer.
        """
        if self._lazy.built:
            raise RuntimeError("overlap_with_forward() must be called before the first step.")
        if self.overlap_cpu_optimizer_d2h_h2d:
            self._overlap = ForwardOverlap(model, self._lazy)
        return self

    def dummy_step(self) -> None:
        """Creates states of zero, into which a checkpoint can be loaded in place. Parameters and
        gradients stay as they are."""
        self._lazy().create_states()
        self._ledger.forget()

    def update_fp32_param_by_new_param(self) -> None:
        """Makes the masters anew from the parameters' values, after weights were loaded."""
        self._lazy().reload_masters()
        self._ledger.forget()

    reload_model_params = update_fp32_param_by_new_param

    # States and checkpoints.

    @property
    def state(self) -> StateMapping:  # type: ignore[override]
        """Parameter to its states; see the class."""
        return StateMapping(self._lazy, self._ledger)

    @state.setter
    def state(self, new: Mapping[torch.Tensor, dict[str, Any]]) -> None:
        if not new and not self._lazy.built:
            return  # torch.optim.Optimizer starts with an empty one
        for param in self._lazy().parameters_with_state():
            if param not in new:
                del self.state[param]
        for param, state in new.items():
            self.state[param] = state

    def state_dict(self) -> dict[str, Any]:
        """Plain tensors, numbers, strings, lists and dicts; a snapshot (see the class)."""
        return state_dicts.pack(self)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes over a state of this class, of Megatron-Core's, or of the plain optimizer.

        Group keys that this class does not know are kept. A state without ``master_param`` gets its
        master from the parameter's value. Raises ValueError if groups or shapes do not fit; nothing
        is changed then.
        """
        state_dicts.unpack(self, state_dict)

    def _sync_hdo_state_to_sub_optimizers(self) -> None:
        """Takes over what was changed in ``state``; Megatron-Core calls it after loading."""
        self._ledger.write_back()

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("A HybridDeviceOptimizer cannot be pickled or copied; use state_dict().")

    # The rest of Megatron-Core's interface.

    @property
    def param_to_fp32_param(self) -> MasterMapping:
        """The fp32 masters of parameters that are not fp32, if ``param_update_in_fp32``."""
        return MasterMapping(self._master_parameters, self._ledger)

    def _master_parameters(self) -> list[torch.Tensor]:
        if not self.param_update_in_fp32:
            return []
        params = (param for group in self.param_groups for param in group["params"])
        return [p for p in params if is_trained(p) and p.dtype is not torch.float32]

    @property
    def cpu_optimizers(self) -> list[torch.optim.Optimizer]:
        """The part on the host as an optimizer of ``cpu_optimizer_cls``, for its states."""
        return self._part(on_host=True)

    @property
    def gpu_optimizer(self) -> torch.optim.Optimizer | None:
        """The part on the GPU, likewise; None if there is none."""
        return next(iter(self._part(on_host=False)), None)

    @property
    def sub_optimizers(self) -> list[torch.optim.Optimizer]:
        """Both parts, the host's first. Only their states and groups may be used."""
        return self._part(on_host=True) + self._part(on_host=False)

    def _part(self, *, on_host: bool) -> list[torch.optim.Optimizer]:
        store = self._lazy()
        if isinstance(store, TorchStore):
            part = store.host_optimizer if on_host else store.device_optimizer
            return [] if part is None else [part]
        cls = self.cpu_optimizer_cls if on_host else self.gpu_optimizer_cls
        states = StateMapping(
            self._lazy, self._ledger, only=lambda param: store.on_host(param) == on_host
        )
        part = make_sub_optimizer(
            cls if cls.__module__.startswith("torch.") else self.cpu_optimizer_cls,
            self.param_groups,
            lambda param: store.on_host(param) == on_host,
            states,
        )
        return [] if part is None else [part]

    # Reports.

    def placement(self) -> Placement:
        """Where the states are, in bytes, and what is in force."""
        return self._lazy().placement()

    def describe(self) -> str:
        """One line for the log."""
        p = self.placement()
        return (
            f"{p.engine}: {p.num_offloaded_elements:,} of {p.num_elements:,} elements offloaded "
            f"({p.offload_fraction:.1%}), states {p.host_state_bytes / 1e9:.3f} GB on the host and "
            f"{p.device_state_bytes / 1e9:.3f} GB on the device, update {p.update}, "
            f"{p.host_threads} threads, {p.host_isa}, "
            f"page-locked gradients {self.pin_cpu_grads} and states {self.pin_cpu_params}, "
            f"under forward {self._overlap is not None}"
        )


def _check_fraction(fraction: float) -> None:
    if not 0.0 <= fraction <= 1.0:
        raise ValueError(
            f"offload_fraction is {fraction}, outside [0, 1]; 1.0 keeps all states on the host."
        )


def _class_defaults(cls: type[torch.optim.Optimizer], given: Mapping[str, Any]) -> dict[str, Any]:
    """All hyper-parameters of a class, with those given; so that schedulers find each of them."""
    parameter = torch.nn.Parameter(torch.empty(0))
    group = cls([{"params": [parameter], **given}]).param_groups[0]
    return {key: value for key, value in group.items() if key != "params"}
