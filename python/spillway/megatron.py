"""Makes an installed Megatron-Core, and with it Megatron Bridge, use Spillway's optimizer."""

from __future__ import annotations

import importlib
import inspect
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spillway.optimizer import EngineOptions

_HOME = "megatron.core.optimizer.cpu_offloading.hybrid_optimizer"
_CLASS = "HybridDeviceOptimizer"

# The versions whose optimizer was read; what is required of it below held in all of them.
_FIRST_VERSION = (0, 12)
_LAST_VERSION = (0, 20)

_ARGUMENTS = {
    "params",
    "offload_fraction",
    "cpu_optimizer_cls",
    "gpu_optimizer_cls",
    "param_update_in_fp32",
    "pin_cpu_grads",
    "pin_cpu_params",
    "overlap_cpu_optimizer_d2h_h2d",
}
_METHODS = {
    "dummy_step",
    "load_state_dict",
    "state_dict",
    "step",
    "sub_optimizers",
    "update_fp32_param_by_new_param",
    "zero_grad",
}

_replaced: dict[str, Any] = {}


class UnknownMegatron(ImportError):
    """Megatron-Core is missing, or its optimizer is not the one that Spillway can stand in for."""


def enable(engine: EngineOptions | None = None, *, any_version: bool = False) -> None:
    """From now on Megatron-Core builds :class:`spillway.HybridDeviceOptimizer` where its own would
    be built, that is, with ``optimizer.optimizer_cpu_offload=True``.

    Call it before the optimizer is built. ``engine``: Spillway's own settings for all of them.
    ``any_version``: accept versions of Megatron-Core newer or older than those known, if their
    optimizer has the same interface. Raises :class:`UnknownMegatron` and changes nothing if
    Megatron-Core is not there or does not fit.
    """
    disable()
    original = _checked_original(any_version)
    replacement = _with_engine(engine)
    for module in _modules_with(original):
        setattr(module, _CLASS, replacement)
        _replaced[module.__name__] = original


def disable() -> None:
    """Gives Megatron-Core its own optimizer back."""
    for name, original in _replaced.items():
        setattr(sys.modules[name], _CLASS, original)
    _replaced.clear()


def enabled() -> bool:
    return bool(_replaced)


def _checked_original(any_version: bool) -> type:
    try:
        core = importlib.import_module("megatron.core")
        home = importlib.import_module(_HOME)
        importlib.import_module("megatron.core.optimizer")
    except ImportError as error:
        raise UnknownMegatron(
            f"Megatron-Core's {_CLASS} cannot be imported ({error}). Install megatron-core "
            f"{_text(_FIRST_VERSION)} to {_text(_LAST_VERSION)}."
        ) from error
    if not any_version:
        _check_version(str(core.__version__))
    original: type = getattr(home, _CLASS)
    _check_interface(original)
    return original


def _check_version(version: str) -> None:
    numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit())
    if not _FIRST_VERSION <= numbers <= _LAST_VERSION:
        raise UnknownMegatron(
            f"Megatron-Core {version} is not known to Spillway, which knows "
            f"{_text(_FIRST_VERSION)} to {_text(_LAST_VERSION)}. Use one of those, or "
            "enable(any_version=True) to rely on the interface alone."
        )


def _check_interface(original: type) -> None:
    arguments = set(inspect.signature(original).parameters)
    missing = {name for name in _METHODS if not hasattr(original, name)}
    missing |= _ARGUMENTS - arguments
    new = arguments - _ARGUMENTS - {"kwargs"}
    if missing or new:
        raise UnknownMegatron(
            f"Megatron-Core's {_CLASS} has changed: it lacks {sorted(missing)} and has the new "
            f"arguments {sorted(new)}, which Spillway's does not understand."
        )


def _with_engine(engine: EngineOptions | None) -> type:
    from spillway.optimizer import HybridDeviceOptimizer

    if engine is None:
        return HybridDeviceOptimizer

    class Configured(HybridDeviceOptimizer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            # Megatron-Core builds an optimizer anew from another's arguments.
            kwargs["engine"] = kwargs.get("engine") or engine
            super().__init__(*args, **kwargs)

    Configured.__name__ = Configured.__qualname__ = HybridDeviceOptimizer.__name__
    return Configured


def _modules_with(original: type) -> list[ModuleType]:
    """Every imported module of Megatron's that has the class under its name."""
    return [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("megatron.") and vars(module).get(_CLASS) is original
    ]


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
