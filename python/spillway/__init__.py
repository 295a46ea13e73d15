"""Trains transformers whose states do not fit the GPU, at next to no cost in time.

Optimizer states, activations and weights live in host memory; the result does not change by a bit.

* :class:`HybridDeviceOptimizer`: a ``torch.optim.Optimizer`` whose states are partly or wholly in
  host memory, with the interface of Megatron-Core's class of that name.
* :func:`offload_activations`: moves what layers save for backward out of the GPU and back in time.
* :mod:`spillway.megatron`: ``enable()`` makes an installed Megatron-Core use them.
* :class:`ConfigContainer` and :func:`check`: Megatron Bridge's configuration and its rules.

Importing this package needs neither a GPU nor PyTorch; what works on tensors imports PyTorch when
it is first named.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from spillway import megatron
from spillway._core import (
    ConfigError,
    DeviceError,
    Error,
    OutOfMemory,
    UsageError,
    __version__,
    cuda_available,
)
from spillway.config import ConfigContainer, Finding, check

if TYPE_CHECKING:
    from spillway.activations import ActivationOffload, offload_activations
    from spillway.optimizer import EngineOptions, HybridDeviceOptimizer, Placement

_NEED_TORCH = {
    "ActivationOffload": "spillway.activations",
    "offload_activations": "spillway.activations",
    "EngineOptions": "spillway.optimizer",
    "HybridDeviceOptimizer": "spillway.optimizer",
    "Placement": "spillway.optimizer",
}

__all__ = [
    "ActivationOffload",
    "ConfigContainer",
    "ConfigError",
    "DeviceError",
    "EngineOptions",
    "Error",
    "Finding",
    "HybridDeviceOptimizer",
    "OutOfMemory",
    "Placement",
    "UsageError",
    "__version__",
    "check",
    "cuda_available",
    "megatron",
    "offload_activations",
]


def __getattr__(name: str) -> object:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module 'spillway' has no attribute '{name}'")
    return getattr(importlib.import_module(_NEED_TORCH[name]), name)
