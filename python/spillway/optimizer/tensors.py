"""Tensors as the engine sees them: one gapless block of memory each."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

DTYPE_NAMES = {torch.bfloat16: "bf16", torch.float32: "fp32"}


def is_distributed(tensor: torch.Tensor) -> bool:
    """True for a DTensor, of which this rank holds a shard."""
    return hasattr(tensor, "_local_tensor")


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of this rank: a DTensor's shard, or the tensor itself."""
    local: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return local


def is_trained(param: torch.Tensor) -> bool:
    """False for a frozen parameter. A plain tensor without ``requires_grad`` is trained: Megatron's
    shards are like that, and get their gradients from elsewhere."""
    if param.requires_grad or not isinstance(param, torch.nn.Parameter):
        return True
    return param.grad is not None or getattr(param, "decoupled_grad", None) is not None


def host_copy_like(tensor: torch.Tensor) -> torch.Tensor:
    """An uninitialised fp32 host tensor whose memory order is that of ``tensor``'s shard."""
    return torch.empty_like(
        local_of(tensor).detach(),
        dtype=torch.float32,
        device="cpu",
        memory_format=torch.preserve_format,
    )


def as_host_fp32(value: torch.Tensor, like: torch.Tensor, what: str) -> torch.Tensor:
    """``value`` as fp32 on the host, in the memory order of ``like``'s shard."""
    check_fits(value, like, what)
    result = host_copy_like(like)
    result.copy_(local_of(value.detach()))
    return result


def check_fits(value: torch.Tensor, param: torch.Tensor, what: str) -> None:
    """Raises ValueError if ``value`` cannot be a state of ``param``."""
    if local_of(value).shape != local_of(param).shape:
        raise ValueError(
            f"{what} has shape {tuple(value.shape)}, its parameter {tuple(param.shape)}. The state "
            "belongs to another parameter, or to a model of another size."
        )


def distribute_like(local: torch.Tensor, param: torch.Tensor) -> torch.Tensor:
    """``local`` as the shard of a DTensor placed as ``param``; itself for an ordinary parameter.

    Built from the parameter's own placement, because ``DTensor.from_local`` would move a host
    tensor to the mesh's device.
    """
    if not is_distributed(param):
        return local
    dtensor: Any = param
    spec = dtensor._spec
    meta = spec.tensor_meta
    if meta is not None:
        spec = dataclasses.replace(spec, tensor_meta=meta._replace(dtype=local.dtype))
    base = next(cls for cls in type(param).__mro__ if cls.__name__ == "DTensor")
    result: torch.Tensor = base(local, spec, requires_grad=False)
    return result


def gradient_like(tensor: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """``gradient`` in bf16 or fp32 and in the memory order of ``tensor``.

    Called only for gradients that are not like that already.
    """
    if gradient.layout is not torch.strided:
        raise TypeError(
            f"A gradient of shape {tuple(gradient.shape)} is {gradient.layout}; dense gradients "
            "are wanted. Build the embedding with sparse=False."
        )
    if gradient.shape != tensor.shape:
        raise ValueError(
            f"A gradient has shape {tuple(gradient.shape)}, its parameter {tuple(tensor.shape)}."
        )
    if gradient.dtype in DTYPE_NAMES and gradient.stride() == tensor.stride():
        return gradient
    dtype = gradient.dtype if gradient.dtype in DTYPE_NAMES else torch.float32
    return torch.empty_like(
        tensor.detach(), dtype=dtype, memory_format=torch.preserve_format
    ).copy_(gradient)
