"""Where gradients come from: accumulation, clipping, scaling, absence."""

import pytest
import torch

from support import Placed, step_with, weight


@pytest.mark.parametrize("set_to_none", [True, False])
def test_every_micro_batch_counts_in_every_step(placed: Placed, set_to_none: bool) -> None:
    ours, theirs = weight(1.0), weight(1.0)
    pairs = [
        (ours, placed.optimizer([ours], torch.optim.Adam, lr=0.1)),
        (theirs, torch.optim.Adam([theirs], lr=0.1)),
    ]
    for _ in range(3):
        for param, optimizer in pairs:
            optimizer.zero_grad(set_to_none=set_to_none)
            for scale in (1.0, 3.0):
                (param * scale / 2).sum().backward()
            assert param.grad.item() == 2.0
            optimizer.step()
    state = pairs[0][1].state[ours]
    expected = pairs[1][1].state[theirs]
    assert state["exp_avg"].item() == pytest.approx(expected["exp_avg"].item(), rel=1e-6)
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-6)


def test_the_first_step_of_two_micro_batches_has_their_mean(placed: Placed) -> None:
    param = weight(1.0)
    optimizer = placed.optimizer([param], torch.optim.Adam, lr=0.1)
    for scale in (1.0, 3.0):
        (param * scale / 2).sum().backward()
    optimizer.step()
    assert optimizer.state[param]["exp_avg"].item() == pytest.approx(0.2, abs=1e-7)
    assert optimizer.state[param]["exp_avg_sq"].item() == pytest.approx(0.004, abs=1e-8)


def test_clipping_sees_both_parts(placed: Placed) -> None:
    params = [weight(1.0), weight(1.0)]
    optimizer = placed.optimizer(params, torch.optim.Adam, lr=0.1)
    params[0].grad, params[1].grad = torch.tensor([3.0]), torch.tensor([4.0])
    norm = torch.nn.utils.clip_grad_norm_(params, 1.0)
    optimizer.step()
    assert norm.item() == pytest.approx(5.0, abs=1e-6)
    moments = [optimizer.state[param]["exp_avg"].item() for param in params]
    assert moments == pytest.approx([0.06, 0.08], abs=1e-6)


def test_a_parameter_without_gradient_is_left_alone(placed: Placed) -> None:
    param, other = weight(1.0), weight(1.0)
    optimizer = placed.optimizer([param, other], torch.optim.Adam, lr=0.01)
    param.grad, other.grad = torch.tensor([1.0]), torch.tensor([1.0])
    optimizer.step()
    assert param.item() == pytest.approx(0.99, abs=1e-6)
    before = (param.detach().clone(), optimizer.state[param]["exp_avg"].clone())
    param.grad = None
    optimizer.step()
    assert torch.equal(param.detach(), before[0])
    assert torch.equal(optimizer.state[param]["exp_avg"], before[1])
    assert optimizer.state[param]["step"].item() == 1
    assert optimizer.state[other]["step"].item() == 2


def test_a_leftover_empty_decoupled_grad_hides_nothing(placed: Placed) -> None:
    param = weight(1.0)
    param.decoupled_grad = None
    optimizer = placed.optimizer([param], torch.optim.Adam, lr=0.01)
    assert step_with(optimizer, param, [1.0]) == pytest.approx([0.99], abs=1e-6)


def test_a_decoupled_grad_of_another_dtype_is_used(placed: Placed) -> None:
    param = weight(1.0, dtype=torch.bfloat16)
    param.decoupled_grad = torch.tensor([1.0])  # fp32, which .grad of a bf16 parameter cannot be
    optimizer = placed.optimizer([param], torch.optim.Adam, lr=0.01)
    optimizer.step()
    assert optimizer.param_to_fp32_param[param].item() == pytest.approx(0.99, abs=1e-6)
    optimizer.zero_grad()
    assert param.decoupled_grad is None


def test_both_kinds_of_gradient_at_once_are_refused(placed: Placed) -> None:
    param = weight(1.0)
    optimizer = placed.optimizer([param])
    param.grad = torch.ones(1)
    param.decoupled_grad = torch.ones(1)
    with pytest.raises(RuntimeError, match="decoupled_grad"):
        optimizer.step()
    assert param.item() == 1.0


def test_gradients_in_another_memory_order_are_put_right(placed: Placed) -> None:
    ours = torch.nn.Parameter(torch.arange(6.0).view(2, 3))
    theirs = torch.nn.Parameter(torch.arange(6.0).view(2, 3))
    gradient = torch.tensor([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.25]]).t()
    ours.grad, theirs.grad = gradient, gradient.contiguous()
    placed.optimizer([ours], torch.optim.SGD, lr=0.1).step()
    torch.optim.SGD([theirs], lr=0.1).step()
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_parameters_in_channels_last_order_are_updated_in_place(placed: Placed) -> None:
    ours = torch.nn.Conv2d(3, 4, 2).to(memory_format=torch.channels_last)
    theirs = torch.nn.Conv2d(3, 4, 2)
    theirs.load_state_dict(ours.state_dict())
    assert not ours.weight.is_contiguous()
    optimizers = (
        placed.optimizer(ours.parameters(), torch.optim.Adam, lr=0.1),
        torch.optim.Adam(theirs.parameters(), lr=0.1),
    )
    inputs = torch.randn(2, 3, 5, 5)
    for model, optimizer in zip((ours, theirs), optimizers):
        model(inputs).pow(2).sum().backward()
        optimizer.step()
    torch.testing.assert_close(ours.weight, theirs.weight, rtol=0, atol=1e-5)
    exp_avg = optimizers[0].state[ours.weight]["exp_avg"]
    torch.testing.assert_close(exp_avg, ours.weight.grad * 0.1, rtol=1e-5, atol=1e-7)


def test_a_disabled_grad_scaler_passes_through(placed: Placed) -> None:
    param = weight(1.0)
    optimizer = placed.optimizer([param], torch.optim.Adam, lr=0.1)
    scaler = torch.cuda.amp.GradScaler(enabled=False)
    scaler.scale((param * 0.5).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert param.item() == pytest.approx(0.9, abs=1e-6)


def test_infinite_gradients_reach_the_parameters_as_in_torch(placed: Placed) -> None:
    param = weight(1.0)
    step_with(placed.optimizer([param], torch.optim.SGD, lr=0.1), param, [float("inf")])
    assert param.item() == float("-inf")


def test_a_sparse_gradient_is_refused_by_name(placed: Placed) -> None:
    embedding = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = placed.optimizer(embedding.parameters())
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises((TypeError, RuntimeError), match="sparse"):
        optimizer.step()


def test_gradients_are_let_go_after_the_step(placed: Placed) -> None:
    import weakref

    param = weight(1.0)
    optimizer = placed.optimizer([param])
    param.grad = torch.ones(1)
    watch = weakref.ref(param.grad)
    optimizer.step()
    optimizer.zero_grad()
    assert watch() is None
