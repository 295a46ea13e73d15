"""Which update rule an optimizer class stands for, and whether the engine can do it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

import torch

from spillway import _core
from spillway.optimizer.tensors import is_trained, local_of

ADAM = "adam"
SGD = "sgd"

# Fused classes of other packages with the same rule; they decouple the decay unless told not to.
_FUSED_MODULES = ("transformer_engine.", "apex.", "megatron.")
_FUSED_NAMES = {"FusedAdam": ADAM, "FusedSGD": SGD}
_KNOWN_CLASSES: dict[type[torch.optim.Optimizer], str] = {
    torch.optim.Adam: ADAM,
    torch.optim.AdamW: ADAM,
    torch.optim.SGD: SGD,
}

# Group keys that the engine has no counterpart for, with the value that needs none.
_PLAIN_VALUES: dict[str, Any] = {
    "amsgrad": False,
    "maximize": False,
    "nesterov": False,
    "dampening": 0,
    "differentiable": False,
    "bias_correction": True,
}

_DTYPES = (torch.bfloat16, torch.float32)


@dataclass(frozen=True)
class UpdateRule:
    """What the engine does in place of a class."""

    algorithm: str
    decoupled_by_default: bool

    def decoupled(self, group: Mapping[str, Any]) -> bool:
        """Whether weight decay is decoupled (AdamW) in this group, or added to the gradient."""
        for key in ("decoupled_weight_decay", "adam_w_mode"):
            if key in group:
                return bool(group[key])
        return self.decoupled_by_default

    def settings(self, group: Mapping[str, Any]) -> _core.GroupSettings:
        """The group's hyper-parameters of this step."""
        beta1, beta2 = group["betas"] if self.algorithm == ADAM else (0.0, 0.0)
        return _core.GroupSettings(
            lr=float(group["lr"]),
            weight_decay=float(group.get("weight_decay", 0.0)),
            beta1=float(beta1),
            beta2=float(beta2),
            eps=float(group.get("eps", 0.0)),
            momentum=float(group.get("momentum", 0.0)),
            decoupled=self.decoupled(group),
        )


def rule_of(optimizer_cls: type) -> UpdateRule | None:
    """The rule of a class; None if it is not Adam, AdamW or SGD or changes how they step."""
    for cls in optimizer_cls.__mro__:
        if cls in _KNOWN_CLASSES:
            return UpdateRule(_KNOWN_CLASSES[cls], cls is torch.optim.AdamW)
        if cls.__module__.startswith(_FUSED_MODULES) and cls.__name__ in _FUSED_NAMES:
            algorithm = _FUSED_NAMES[cls.__name__]
            return UpdateRule(algorithm, algorithm == ADAM)
        if "step" in vars(cls) and not _is_inherited(vars(cls)["step"]):
            return None
    return None


def _is_inherited(step: Any) -> bool:
    """PyTorch wraps an inherited step() for profiling and puts it into the class itself."""
    return any(inspect.unwrap(step) is inspect.unwrap(known.step) for known in _KNOWN_CLASSES)


def why_as_given(cls: type, groups: Sequence[Mapping[str, Any]]) -> str | None:
    """Why the engine cannot stand in for ``cls``, or None if it can.

    Raises TypeError for parameters that no optimizer here can update.
    """
    if rule_of(cls) is None:
        return f"the engine knows Adam, AdamW and SGD, not {cls.__name__}"
    for group in groups:
        for key, plain in _PLAIN_VALUES.items():
            if group.get(key) not in (None, plain):
                return f"the engine has no {key}={group[key]!r}"
        for param in group["params"]:
            reason = _why_parameter_as_given(param)
            if reason is not None:
                return reason
    return None


def _why_parameter_as_given(param: torch.Tensor) -> str | None:
    if not is_trained(param):
        return None
    if param.dtype in _DTYPES:
        return None if _is_dense(param) else "a parameter's elements do not fill their memory"
    if param.dtype is torch.float16:
        return "the engine updates bf16 and fp32 parameters, and one is fp16"
    raise TypeError(
        f"A parameter of shape {tuple(param.shape)} on {param.device} has dtype {param.dtype}; "
        "bf16 and fp32 can be updated (fp16 with the classes as given). Convert it, or leave it "
        "out of the optimizer."
    )


def _is_dense(param: torch.Tensor) -> bool:
    """True if the elements are a permutation of a gapless block of memory."""
    local = local_of(param)
    if local.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted(zip(local.stride(), local.shape)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True
