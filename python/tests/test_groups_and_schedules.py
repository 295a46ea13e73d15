"""Hyper-parameters that live in groups and change between steps."""

import pytest
import torch

from support import Placed, step_with, weight


def test_a_scheduler_reaches_both_parts_before_each_step(placed: Placed) -> None:
    params = [weight(1.0), weight(1.0)]
    optimizer = placed.optimizer(params, lr=0.1, weight_decay=0.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.1**epoch)
    seen = []
    for _ in range(3):
        for param in params:
            param.grad = torch.full_like(param, 0.5)
        optimizer.step()
        scheduler.step()
        seen.append([param.item() for param in params])
    for values, expected in zip(seen, [0.900, 0.890, 0.889]):
        assert values == pytest.approx([expected] * 2, abs=1e-6)


def test_one_cycle_changes_betas_as_well(placed: Placed) -> None:
    def run(make: object) -> list[float]:
        param = weight(1.0)
        optimizer = make([param])  # type: ignore[operator]
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=6)
        seen = []
        for gradient in [1.0, -0.5, 0.25, 2.0]:
            seen += step_with(optimizer, param, [gradient])
            scheduler.step()
        return seen

    ours = run(lambda params: placed.optimizer(params, torch.optim.Adam, lr=0.1))
    theirs = run(lambda params: torch.optim.Adam(params, lr=0.1))
    assert ours == pytest.approx(theirs, abs=1e-5)


def test_groups_have_their_own_settings(placed: Placed) -> None:
    def groups(params: list) -> list:
        return [
            {"params": [params[0]], "lr": 0.1, "weight_decay": 0.5},
            {"params": [params[1]], "betas": (0.5, 0.9), "eps": 1e-2},
        ]

    ours, theirs = [weight(1.0), weight(2.0)], [weight(1.0), weight(2.0)]
    optimizers = (
        placed.optimizer(groups(ours), lr=0.01),
        torch.optim.AdamW(groups(theirs), lr=0.01),
    )
    for gradient in (1.0, -0.25):
        for params, optimizer in zip((ours, theirs), optimizers):
            for param in params:
                param.grad = torch.full_like(param, gradient)
            optimizer.step()
    for one, other in zip(ours, theirs):
        assert one.item() == pytest.approx(other.item(), abs=1e-6)


def test_every_hyperparameter_is_in_the_groups_for_schedulers() -> None:
    optimizer = Placed(1.0, "auto").optimizer([weight(1.0)])
    assert {"lr", "betas", "eps", "weight_decay"} <= set(optimizer.param_groups[0])
    assert optimizer.param_groups[0]["weight_decay"] == 0.01  # AdamW's own default


def test_a_group_added_later_is_trained_and_the_first_keeps_its_moments(placed: Placed) -> None:
    first, second = weight(1.0), weight(1.0)
    optimizer = placed.optimizer([first], torch.optim.Adam, lr=0.1)
    step_with(optimizer, first, [1.0, 0.1])
    optimizer.add_param_group({"params": [second]})
    first.grad, second.grad = torch.tensor([-0.5]), torch.tensor([1.0])
    optimizer.step()
    assert first.item() == pytest.approx(0.803137, abs=1e-6)
    assert second.item() == pytest.approx(0.9, abs=1e-6)


def test_adam_and_adamw_together_are_refused_where_their_decay_differs() -> None:
    from spillway import HybridDeviceOptimizer

    classes = (torch.optim.Adam, torch.optim.AdamW)
    HybridDeviceOptimizer([weight(1.0)], 0.5, *classes, weight_decay=0.0)
    with pytest.raises(ValueError, match="weight_decay"):
        HybridDeviceOptimizer([weight(1.0)], 0.5, *classes, weight_decay=0.1)


def test_a_closure_is_called_with_gradients_enabled_and_its_loss_returned() -> None:
    param = weight(1.0)
    optimizer = Placed(1.0, "auto").optimizer([param], lr=0.1, weight_decay=0.0)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (param * 2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2.0
    assert param.item() == pytest.approx(0.9, abs=1e-6)
