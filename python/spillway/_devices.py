"""Which engine device serves which torch device: one each, for the life of the process."""

from __future__ import annotations

import torch

from spillway import _core

_opened: dict[tuple[str, int], _core.Device] = {}


def device_for(device: torch.device) -> _core.Device:
    """The engine's device for tensors on ``device``.

    CUDA memory comes from PyTorch's caching allocator, so that ``torch.cuda.memory_allocated()``
    counts it. CPU tensors are served by the emulated device.
    """
    index = (device.index or 0) if device.type == "cuda" else 0
    key = (device.type, index)
    if key not in _opened:
        _opened[key] = _open(device, index)
    return _opened[key]


def _open(device: torch.device, index: int) -> _core.Device:
    if device.type == "cpu":
        return _core.open_device("emulated")
    if device.type != "cuda":
        raise _core.DeviceError(
            f"Parameters on {device} cannot be served: Spillway knows CUDA and CPU tensors."
        )
    if not _core.cuda_available():
        raise _core.DeviceError(
            "Parameters are on CUDA, but this build of Spillway has no CUDA backend or finds no "
            "GPU. Build it where nvcc is on the PATH (cmake --preset cuda)."
        )
    opened = _core.open_device("cuda", index=index)
    opened.set_allocator(
        lambda size: torch.cuda.caching_allocator_alloc(max(size, 1), device=index),
        torch.cuda.caching_allocator_delete,
    )
    return opened


def current_stream(device: torch.device) -> int:
    """The handle of the stream that PyTorch computes on in this thread; 0 for CPU tensors."""
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
