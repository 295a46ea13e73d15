"""To and from PyTorch's format of optimizer states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from spillway.optimizer.tensors import check_fits, is_trained

if TYPE_CHECKING:
    from spillway.optimizer.hybrid import HybridDeviceOptimizer

# Values of Megatron-Core's groups that are arguments of the optimizer, not of the group.
_NOT_LOADED = ("params", "cpu_optimizer_cls", "gpu_optimizer_cls")


def pack(optimizer: HybridDeviceOptimizer) -> dict[str, Any]:
    """Parameters become numbers, in the order of the groups."""
    _call_hooks(optimizer, "_optimizer_state_dict_pre_hooks")
    numbers: dict[torch.Tensor, int] = {}
    groups = []
    for group in optimizer.param_groups:
        packed = {key: value for key, value in group.items() if key != "params"}
        packed["params"] = [numbers.setdefault(p, len(numbers)) for p in group["params"]]
        groups.append(packed)
    states = optimizer.state
    result = {
        "state": {numbers[param]: states[param] for param in states},
        "param_groups": groups,
    }
    return _call_hooks(optimizer, "_optimizer_state_dict_post_hooks", result) or result


def unpack(optimizer: HybridDeviceOptimizer, state_dict: Mapping[str, Any]) -> None:
    """Checks everything first, then takes it over."""
    hooked = _call_hooks(optimizer, "_optimizer_load_state_dict_pre_hooks", dict(state_dict))
    given = hooked if hooked is not None else state_dict
    saved_groups = given["param_groups"]
    _check_groups(optimizer.param_groups, saved_groups)
    states = _states_by_parameter(optimizer.param_groups, saved_groups, given["state"])
    for group, saved in zip(optimizer.param_groups, saved_groups):
        group.update({key: value for key, value in saved.items() if key not in _NOT_LOADED})
    _take_over(optimizer, states)
    _call_hooks(optimizer, "_optimizer_load_state_dict_post_hooks")


def _call_hooks(optimizer: HybridDeviceOptimizer, name: str, *args: Any) -> Any:
    """Hooks registered with PyTorch's own functions, where this PyTorch has them."""
    result = None
    for hook in getattr(optimizer, name, {}).values():
        returned = hook(optimizer, *args)
        if returned is not None:
            result, args = returned, (returned,)
    return result


def _check_groups(groups: list[dict[str, Any]], saved: list[dict[str, Any]]) -> None:
    sizes = [len(group["params"]) for group in groups]
    saved_sizes = [len(group["params"]) for group in saved]
    if sizes != saved_sizes:
        raise ValueError(
            f"The state has groups of {saved_sizes} parameters, the optimizer of {sizes}. "
            "Build the optimizer with the groups that the state was saved with."
        )


def _states_by_parameter(
    groups: list[dict[str, Any]], saved: list[dict[str, Any]], states: Mapping[int, Any]
) -> dict[torch.Tensor, dict[str, Any]]:
    result: dict[torch.Tensor, dict[str, Any]] = {}
    known: set[int] = set()
    for group, saved_group in zip(groups, saved):
        for param, number in zip(group["params"], saved_group["params"]):
            known.add(number)
            if number not in states:
                continue
            state = dict(states[number])
            if "step" in saved_group:  # fused optimizers count per group
                state.setdefault("step", saved_group["step"])
            _check_state(param, state, number)
            result[param] = state
    strangers = set(states) - known
    if strangers:
        raise ValueError(
            f"The state has entries for parameters {sorted(strangers, key=str)}, which are in none "
            "of its groups. The file is damaged or was put together by hand."
        )
    return result


def _check_state(param: torch.Tensor, state: Mapping[str, Any], number: int) -> None:
    if state and not is_trained(param):
        raise ValueError(
            f"The state has an entry for parameter {number} of shape {tuple(param.shape)}, which "
            "is frozen here. Set requires_grad, or leave its state out."
        )
    for key, value in state.items():
        if key != "step" and isinstance(value, torch.Tensor):
            check_fits(value, param, f"State '{key}' of parameter {number}")


def _take_over(
    optimizer: HybridDeviceOptimizer, states: Mapping[torch.Tensor, dict[str, Any]]
) -> None:
    if not states and not optimizer._lazy.built:
        return
    store = optimizer._lazy()
    for param in store.parameters_with_state():
        if param not in states:
            store.clear_state(param)
    for param, state in states.items():
        store.write_state(param, state)
    optimizer._ledger.forget()
