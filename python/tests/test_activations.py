"""Activations that leave during forward and come back for backward."""

from __future__ import annotations

import copy
import gc
from typing import Any, Callable

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import spillway


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Model(torch.nn.Module):
    def __init__(self, widths: Any = (16,) * 6, recompute: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(Block(width) for width in widths)
        self.recompute = recompute

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        return x


def gradients(model: torch.nn.Module) -> list[torch.Tensor]:
    return [p.grad for p in model.parameters() if p.grad is not None]


def compare(
    model: torch.nn.Module,
    run: Callable[[torch.nn.Module], None],
    iterations: int = 3,
    **options: Any,
) -> spillway.ActivationOffload:
    """Runs with and without offloading; the gradients must have the same bits."""
    plain = copy.deepcopy(model)
    options.setdefault("min_tensor_bytes", 256)
    offload = spillway.offload_activations(model, **options)
    for _ in range(iterations):
        for one in (model, plain):
            one.zero_grad(set_to_none=True)
            run(one)
        pairs = list(zip(gradients(model), gradients(plain)))
        assert pairs and all(torch.equal(ours, theirs) for ours, theirs in pairs)
    return offload


def inputs(seed: int = 1, width: int = 16) -> torch.Tensor:
    return torch.randn(32, width, generator=torch.Generator().manual_seed(seed))


def forward_backward(model: torch.nn.Module) -> None:
    model(inputs()).pow(2).mean().backward()


@pytest.mark.parametrize("double_buffering", [False, True])
@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("num_layers", [1, 3, 5, None])
def test_gradients_have_the_same_bits(
    double_buffering: bool, retain: bool, num_layers: int | None
) -> None:
    offload = compare(
        Model(),
        forward_backward,
        num_layers=num_layers,
        double_buffering=double_buffering,
        retain_pinned_buffers=retain,
    )
    stats = offload.stats()
    assert stats["moved_out_bytes"] == stats["moved_in_bytes"] > 0
    assert stats["num_open_tickets"] == 0
    assert stats["host_in_use_bytes"] == 0


def test_exactly_the_layers_asked_for_are_offloaded() -> None:
    moved = []
    for num_layers in (1, 2, 4):
        offload = compare(Model(), forward_backward, iterations=1, num_layers=num_layers)
        moved.append(offload.stats()["moved_out_bytes"])
    assert moved == [moved[0], 2 * moved[0], 4 * moved[0]]


def test_no_layers_means_off() -> None:
    assert compare(Model(), forward_backward, num_layers=0).stats() == {}


@pytest.mark.parametrize("num_layers", [-1, 6, 7])
def test_a_number_of_layers_outside_its_range_is_refused(num_layers: int) -> None:
    with pytest.raises(ValueError, match="0 to 5"):
        spillway.offload_activations(Model(), num_layers)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_several_micro_batches_are_alive_at_once(order: tuple) -> None:
    def run(model: torch.nn.Module) -> None:
        losses = [model(inputs(seed)).pow(2).mean() for seed in (1, 2)]
        for index in order:
            losses[index].backward()

    assert compare(Model(), run).stats()["num_open_tickets"] == 0


def test_layers_of_different_widths_share_buffers_safely() -> None:
    class Uneven(Model):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                width = layer.norm.normalized_shape[0]
                x = layer(x[:, :1].expand(-1, width) + 0.1)
            return x

    compare(Uneven((16, 32, 8, 24, 8)), forward_backward, double_buffering=True)


def test_frozen_layers_and_adapters_train() -> None:
    model = Model()
    for layer in model.layers:
        layer.up.requires_grad_(False)
        layer.norm.requires_grad_(False)
    compare(model, forward_backward)


@pytest.mark.parametrize("retain_graph", [False, True])
def test_a_graph_can_be_used_twice(retain_graph: bool) -> None:
    def run(model: torch.nn.Module) -> None:
        loss = model(inputs()).pow(2).mean()
        if retain_graph:
            loss.backward(retain_graph=True)
        loss.backward()

    compare(Model(), run)


def test_checkpointed_layers_are_recomputed_without_moving_them_again() -> None:
    compare(Model(recompute=True), forward_backward)


def test_reentrant_checkpointing_gives_the_same_bits() -> None:
    class Reentrant(Model):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x.requires_grad_()
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=True)
            return x

    compare(Reentrant(), forward_backward)


def test_other_kinds_of_tensors_pass_through_unchanged() -> None:
    seen = []

    class Probe(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x, *others)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> Any:
            seen.append(ctx.saved_tensors)
            return (gradient, *[None] * (len(ctx.saved_tensors) - 1))

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Probe.apply(x * self.weight, *others)

    others = (
        torch.arange(100),
        torch.arange(100) % 2 == 0,
        torch.empty(0, 4),
        torch.randn(40, 40).t(),
        torch.randn(100)[1:],
        torch.randn(64, dtype=torch.complex64).conj(),
    )
    layers = [Layer(), Layer()]
    offload = spillway.offload_activations(layers, min_tensor_bytes=1)
    x = torch.randn(8, 64, requires_grad=True)
    layers[1](layers[0](x)).sum().backward()
    assert offload.stats()["moved_out_bytes"] > 0
    assert len(seen) == 2
    for saved in seen:
        for value, original in zip(saved[1:], others):
            assert value.dtype == original.dtype
            assert value.device == original.device
            assert value.stride() == original.stride()
            assert torch.equal(value, original)


def test_parameters_and_small_tensors_stay() -> None:
    model = Model()
    offload = spillway.offload_activations(model, min_tensor_bytes=1 << 20)
    forward_backward(model)
    assert offload.stats()["moved_out_bytes"] == 0


def test_views_of_one_storage_move_once() -> None:
    class Layer(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x.exp()
            return (y * y.view(-1, 64).view_as(y)).sum(0) + y[2:].pow(2).sum(0)

    layer = Layer()
    offload = spillway.offload_activations([layer, torch.nn.Identity()], 1, min_tensor_bytes=1)
    layer(torch.randn(8, 64, requires_grad=True)).sum().backward()
    stats = offload.stats()
    assert stats["num_deduplicated"] > 0
    assert stats["moved_out_bytes"] <= 3 * 8 * 64 * 4


def test_an_in_place_change_after_saving_is_reported() -> None:
    class Layer(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            z = y * y
            y.add_(1)
            return z

    layer = Layer()
    spillway.offload_activations([layer, torch.nn.Identity()], 1, min_tensor_bytes=1)
    with pytest.raises(RuntimeError, match="in-place"):
        layer(torch.randn(64, requires_grad=True))


def test_a_layer_that_raises_leaves_the_engine_usable() -> None:
    class Fragile(Block):
        fails = False

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = super().forward(x)
            if self.fails:
                raise ValueError("no")
            return y

    layers = torch.nn.ModuleList([Fragile(16), Block(16), Block(16)])
    model = Model()
    model.layers = layers
    model.layers[0].fails = True
    plain = copy.deepcopy(model)
    plain.layers[0].fails = False
    offload = spillway.offload_activations(model, min_tensor_bytes=256)
    with pytest.raises(ValueError, match="no"):
        forward_backward(model)
    model.layers[0].fails = False
    forward_backward(model)
    forward_backward(plain)
    assert all(torch.equal(a, b) for a, b in zip(gradients(model), gradients(plain)))
    assert offload.stats()["num_open_tickets"] == 0


def test_graphs_dropped_without_backward_leave_nothing_behind() -> None:
    model = Model()
    offload = spillway.offload_activations(model, min_tensor_bytes=256)
    for _ in range(5):
        model(inputs())
        gc.collect()
        forward_backward(model)
        assert offload.stats()["num_open_tickets"] == 0
        assert offload.stats()["host_in_use_bytes"] == 0


def test_evaluation_moves_nothing() -> None:
    model = Model()
    offload = spillway.offload_activations(model, min_tensor_bytes=256)
    with torch.no_grad():
        model(inputs())
    assert offload.stats().get("moved_out_bytes", 0) == 0


def test_leaving_the_context_restores_the_layers_and_keeps_graphs_usable() -> None:
    model, plain = Model(), Model()
    with spillway.offload_activations(model, min_tensor_bytes=256) as offload:
        loss = model(inputs()).pow(2).mean()
    assert "forward" not in vars(model.layers[0])
    loss.backward()
    forward_backward(plain)
    assert all(torch.equal(a, b) for a, b in zip(gradients(model), gradients(plain)))
    moved = offload.stats()["moved_out_bytes"]
    forward_backward(model)
    assert offload.stats()["moved_out_bytes"] == moved


def test_retained_buffers_are_not_allocated_again() -> None:
    model = Model()
    offload = spillway.offload_activations(
        model, min_tensor_bytes=256, retain_pinned_buffers=True
    )
    counts = []
    for _ in range(6):
        forward_backward(model)
        counts.append(offload.stats()["num_host_allocations"])
    assert counts[2:] == [counts[2]] * 4
    assert counts[0] > 0


def test_activation_and_optimizer_offloading_work_together() -> None:
    def run(offloaded: bool) -> list[torch.Tensor]:
        model = Model()
        if offloaded:
            spillway.offload_activations(model, min_tensor_bytes=256)
        optimizer = spillway.HybridDeviceOptimizer(
            model.parameters(), 1.0 if offloaded else 0.5, torch.optim.AdamW, lr=0.01
        )
        for seed in range(3):
            optimizer.zero_grad()
            model(inputs(seed)).pow(2).mean().backward()
            optimizer.step()
        return list(model.parameters())

    assert all(torch.equal(a, b) for a, b in zip(run(True), run(False)))
