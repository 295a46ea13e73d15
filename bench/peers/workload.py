"""What every contender updates: parameters shaped as in Llama layers, and one set of gradients."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Workload:
    """`layers` decoder layers of width `hidden` with a gated MLP of width `ffn`; bf16."""

    layers: int
    hidden: int
    ffn: int
    device: torch.device
    lr: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.1

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        attention = [(self.hidden, self.hidden)] * 4
        mlp = [(self.ffn, self.hidden)] * 2 + [(self.hidden, self.ffn)]
        norms = [(self.hidden,)] * 2
        return (attention + mlp + norms) * self.layers

    @property
    def num_elements(self) -> int:
        return sum(torch.Size(shape).numel() for shape in self.shapes)

    @property
    def hyperparameters(self) -> dict[str, object]:
        return {
            "lr": self.lr,
            "betas": self.betas,
            "eps": self.eps,
            "weight_decay": self.weight_decay,
        }

    def make_parameters(self) -> list[torch.nn.Parameter]:
        """The same values at each call."""
        generator = torch.Generator(self.device).manual_seed(0)
        return [
            torch.nn.Parameter(self._random(shape, generator, 0.02)) for shape in self.shapes
        ]

    def make_gradients(self) -> list[torch.Tensor]:
        generator = torch.Generator(self.device).manual_seed(1)
        return [self._random(shape, generator, 1e-3) for shape in self.shapes]

    def _random(
        self, shape: tuple[int, ...], generator: torch.Generator, scale: float
    ) -> torch.Tensor:
        values = torch.randn(
            shape, generator=generator, device=self.device, dtype=torch.bfloat16
        )
        return values.mul_(scale)
