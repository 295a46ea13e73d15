"""Optimizers and models for the tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, Sequence

import torch

from spillway import EngineOptions, HybridDeviceOptimizer


@dataclass(frozen=True)
class Placed:
    """Where states are and how offloaded ones are updated."""

    fraction: float
    update: str

    def __str__(self) -> str:
        return f"{self.fraction:g}-{self.update}"

    def optimizer(
        self,
        params: Iterable[Any],
        cls: type[torch.optim.Optimizer] = torch.optim.AdamW,
        **kwargs: Any,
    ) -> HybridDeviceOptimizer:
        # Chunks of a few elements, so that small tensors cross their borders.
        engine = EngineOptions(offload_update=self.update, chunk_bytes=4096)
        return HybridDeviceOptimizer(
            params, self.fraction, cls, cls, param_update_in_fp32=True, engine=engine, **kwargs
        )


PLACEMENTS = [
    Placed(0.0, "auto"),
    Placed(0.25, "host"),
    Placed(0.5, "stream"),
    Placed(0.75, "auto"),
    Placed(1.0, "host"),
    Placed(1.0, "stream"),
    Placed(1.0, "auto"),
]


def weight(*values: float, dtype: torch.dtype = torch.float32) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(values, dtype=dtype))


def step_with(
    optimizer: torch.optim.Optimizer, param: torch.Tensor, gradients: Sequence[float]
) -> list[float]:
    """One step for each gradient; the parameter's first element after each."""
    seen = []
    for gradient in gradients:
        param.grad = torch.full_like(param, gradient)
        optimizer.step()
        seen.append(param.detach().flatten()[0].item())
    return seen


def small_model(seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(13, 31), torch.nn.Tanh(), torch.nn.Linear(31, 7), torch.nn.Linear(7, 1)
    ).to(dtype)


def train(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int, seed: int = 1
) -> list[torch.Tensor]:
    """Trains on fixed data; the parameters afterwards."""
    generator = torch.Generator().manual_seed(seed)
    dtype = next(model.parameters()).dtype
    for _ in range(steps):
        optimizer.zero_grad()
        inputs = torch.randn(8, 13, generator=generator).to(dtype)
        model(inputs).float().pow(2).mean().backward()
        optimizer.step()
    return [param.detach().clone() for param in model.parameters()]


def assert_same_bits(left: Iterable[torch.Tensor], right: Iterable[torch.Tensor]) -> None:
    for one, other in zip(left, right):
        assert torch.equal(one, other), (one - other).abs().max()
