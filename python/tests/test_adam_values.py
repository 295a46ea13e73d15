"""Steps against values of a plain double-precision Adam."""

import pytest
import torch

from support import Placed, assert_same_bits, small_model, step_with, train, weight

# p = 1, lr 0.1, betas 0.9 and 0.999, eps 1e-8, no decay.
VARYING = ([1.0, 0.1, -0.5, 0.25], [0.900000, 0.825919, 0.803137, 0.772274])


def test_varying_gradients_give_the_published_steps(placed: Placed) -> None:
    param = weight(1.0)
    optimizer = placed.optimizer([param], torch.optim.Adam, lr=0.1)
    assert step_with(optimizer, param, VARYING[0]) == pytest.approx(VARYING[1], abs=1e-6)


def test_a_constant_gradient_moves_by_the_learning_rate(placed: Placed) -> None:
    param = weight(1.0)
    optimizer = placed.optimizer([param], torch.optim.Adam, lr=0.1)
    assert step_with(optimizer, param, [0.5] * 4) == pytest.approx([0.9, 0.8, 0.7, 0.6], abs=1e-5)


@pytest.mark.parametrize(
    ("cls", "decay", "expected"),
    [
        (torch.optim.AdamW, 0.1, 0.89),
        (torch.optim.Adam, 0.1, 0.9),
        (torch.optim.AdamW, 0.01, 0.899),
    ],
)
def test_adam_adds_the_decay_to_the_gradient_and_adamw_does_not(
    placed: Placed, cls: type, decay: float, expected: float
) -> None:
    param = weight(1.0)
    optimizer = placed.optimizer([param], cls, lr=0.1, weight_decay=decay)
    assert step_with(optimizer, param, [0.5]) == pytest.approx([expected], abs=1e-6)


def test_eps_is_outside_the_corrected_root(placed: Placed) -> None:
    param = weight(1.0)
    optimizer = placed.optimizer([param], torch.optim.Adam, lr=0.1)
    assert step_with(optimizer, param, [1e-8]) == pytest.approx([0.95], abs=1e-6)


def test_sgd_with_momentum_matches_torch(placed: Placed) -> None:
    param, reference = weight(1.0), weight(1.0)
    ours = placed.optimizer([param], torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.1)
    theirs = torch.optim.SGD([reference], lr=0.1, momentum=0.9, weight_decay=0.1)
    gradients = [1.0, -0.25, 0.5]
    expected = step_with(theirs, reference, gradients)
    assert step_with(ours, param, gradients) == pytest.approx(expected, abs=1e-6)
    assert len(set(expected)) == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("cls", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
def test_a_trained_model_has_the_same_bits_for_every_placement(
    placed: Placed, dtype: torch.dtype, cls: type
) -> None:
    kwargs = {"lr": 0.01, "weight_decay": 0.1}
    if cls is torch.optim.SGD:
        kwargs["momentum"] = 0.9
    resident = small_model(dtype=dtype)
    start = [p.detach().clone() for p in resident.parameters()]
    reference = Placed(0.0, "auto").optimizer(resident.parameters(), cls, **kwargs)
    expected = train(resident, reference, 5)
    model = small_model(dtype=dtype)
    trained = train(model, placed.optimizer(model.parameters(), cls, **kwargs), 5)
    assert_same_bits(trained, expected)
    assert not any(torch.equal(before, after) for before, after in zip(start, trained))


@pytest.mark.parametrize("cls", [torch.optim.Adam, torch.optim.AdamW])
def test_fp32_training_follows_torch_much_closer_than_a_step(placed: Placed, cls: type) -> None:
    ours, theirs = small_model(), small_model()
    trained = train(ours, placed.optimizer(ours.parameters(), cls, lr=1e-3, weight_decay=0.1), 10)
    expected = train(theirs, cls(theirs.parameters(), lr=1e-3, weight_decay=0.1), 10)
    for one, other in zip(trained, expected):
        torch.testing.assert_close(one, other, rtol=0, atol=2e-6)


def test_a_bf16_parameter_keeps_changes_below_its_resolution(placed: Placed) -> None:
    param = weight(1.0, dtype=torch.bfloat16)
    optimizer = placed.optimizer([param], lr=1e-4, weight_decay=0.0)
    for _ in range(30):
        param.grad = torch.ones_like(param)
        optimizer.step()
    master = optimizer.param_to_fp32_param[param].item()
    assert master == pytest.approx(1.0 - 30e-4, abs=1e-6)
    assert param.item() == torch.tensor(master).to(torch.bfloat16).item() != 1.0
