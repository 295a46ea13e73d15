"""Which tensors can be given, and what may happen to them between steps."""

import pytest
import torch

from support import Placed, assert_same_bits, small_model, step_with, train, weight


def test_weights_loaded_after_construction_count_once_reloaded(placed: Placed) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        param = weight(1.0, dtype=dtype)
        optimizer = placed.optimizer([param], torch.optim.Adam, lr=0.1)
        optimizer.placement()  # everything is allocated, with the first value
        with torch.no_grad():
            param.fill_(5.0)
        optimizer.reload_model_params()
        assert step_with(optimizer, param, [0.5]) == pytest.approx([4.9], abs=0.02)


def test_weights_loaded_between_steps_keep_the_moments(placed: Placed) -> None:
    param = weight(1.0, dtype=torch.bfloat16)
    optimizer = placed.optimizer([param], torch.optim.Adam, lr=0.1)
    step_with(optimizer, param, [1.0])
    with torch.no_grad():
        param.fill_(5.0)
    optimizer.update_fp32_param_by_new_param()
    assert optimizer.param_to_fp32_param[param].item() == 5.0
    assert optimizer.state[param]["step"].item() == 1
    assert optimizer.state[param]["exp_avg"].item() == pytest.approx(0.1, abs=1e-7)


def test_a_parameter_replaced_in_its_group_is_trained(placed: Placed) -> None:
    param = weight(1.0, dtype=torch.bfloat16)
    optimizer = placed.optimizer([param], torch.optim.Adam, lr=0.1)
    clone = torch.nn.Parameter(param.detach().clone())
    optimizer.param_groups[0]["params"][0] = clone
    assert step_with(optimizer, clone, [0.5]) == pytest.approx([0.9], abs=4e-3)
    assert param.item() == 1.0


def test_a_replaced_parameter_takes_over_the_moments(placed: Placed) -> None:
    param = weight(1.0)
    optimizer = placed.optimizer([param], torch.optim.Adam, lr=0.1)
    step_with(optimizer, param, [1.0, 0.1])
    clone = torch.nn.Parameter(param.detach().clone())
    optimizer.param_groups[0]["params"][0] = clone
    expected = pytest.approx([0.803137, 0.772274], abs=1e-6)
    assert step_with(optimizer, clone, [-0.5, 0.25]) == expected


def test_a_parameter_whose_memory_moved_is_followed(placed: Placed) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        param = weight(1.0, dtype=dtype)
        optimizer = placed.optimizer([param], torch.optim.Adam, lr=0.1)
        step_with(optimizer, param, [1.0, 0.1])
        old = param.data
        param.data = param.data.clone()
        kept = old.clone()
        values = step_with(optimizer, param, [-0.5, 0.25])
        assert values == pytest.approx([0.803137, 0.772274], abs=4e-3)
        assert torch.equal(old, kept)


def test_slices_of_a_weight_are_updated_in_place_and_alone(placed: Placed) -> None:
    whole = torch.nn.Parameter(torch.ones(4, 2))
    shard = whole.view(-1)[2:6]
    optimizer = placed.optimizer([shard], torch.optim.Adam, lr=0.1)
    shard.grad = torch.full((4,), 0.5)
    optimizer.step()
    expected = torch.ones(8)
    expected[2:6] = 0.9
    torch.testing.assert_close(whole.detach().view(-1), expected, rtol=0, atol=1e-6)


def test_detached_shards_without_requires_grad_are_trained(placed: Placed) -> None:
    shard = torch.ones(8, dtype=torch.bfloat16)[2:6]
    optimizer = placed.optimizer([shard], torch.optim.Adam, lr=0.1)
    optimizer.dummy_step()
    assert len(optimizer.state) == 1
    assert step_with(optimizer, shard, [0.5]) == pytest.approx([0.9], abs=4e-3)


def test_frozen_parameters_are_ignored_and_take_no_memory(placed: Placed) -> None:
    frozen = torch.nn.Parameter(torch.ones(1000), requires_grad=False)
    trained = torch.nn.Parameter(torch.ones(10))
    optimizer = placed.optimizer([frozen, trained], torch.optim.Adam, lr=0.1)
    assert optimizer.placement().num_elements == 10
    trained.grad = torch.ones(10)
    optimizer.step()
    assert torch.equal(frozen, torch.ones(1000))
    assert list(optimizer.state) == [trained]


def test_a_parameter_unfrozen_later_is_trained_from_then_on(placed: Placed) -> None:
    late = torch.nn.Parameter(torch.ones(1), requires_grad=False)
    param = weight(1.0)
    optimizer = placed.optimizer([late, param], torch.optim.Adam, lr=0.1)
    step_with(optimizer, param, [1.0])
    late.requires_grad_()
    late.grad = torch.ones(1)
    param.grad = torch.tensor([0.1])
    optimizer.step()
    assert late.item() == pytest.approx(0.9, abs=1e-6)
    assert param.item() == pytest.approx(0.825919, abs=1e-6)


def test_adapters_train_beside_frozen_weights(placed: Placed) -> None:
    torch.manual_seed(0)
    base = torch.nn.Linear(8, 8)
    base.requires_grad_(False)
    down, up = torch.nn.Linear(8, 2, bias=False), torch.nn.Linear(2, 8, bias=False)
    params = [*base.parameters(), *down.parameters(), *up.parameters()]
    before = [param.detach().clone() for param in params]
    optimizer = placed.optimizer(params, lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        inputs = torch.randn(4, 8)
        (base(inputs) + up(down(inputs))).pow(2).mean().backward()
        norm = torch.nn.utils.clip_grad_norm_(params, 1.0)
        assert norm > 0
        optimizer.step()
    changed = [not torch.equal(old, new) for old, new in zip(before, params)]
    assert changed == [False, False, True, True]


def test_a_rank_without_trainable_weights_steps_and_saves(placed: Placed) -> None:
    frozen = torch.nn.Parameter(torch.ones(4), requires_grad=False)
    optimizer = placed.optimizer([frozen])
    for _ in range(3):
        optimizer.step()
        optimizer.zero_grad()
    assert optimizer.state_dict()["state"] == {}
    assert optimizer.placement().num_elements == 0


def test_the_same_tensor_given_twice_has_one_state_and_one_update(placed: Placed) -> None:
    param = weight(1.0)
    with pytest.warns(UserWarning):
        optimizer = placed.optimizer([param, param], torch.optim.Adam, lr=0.1)
    assert step_with(optimizer, param, [0.5]) == pytest.approx([0.9], abs=1e-6)
    assert optimizer.placement().num_elements == 1


def test_tied_modules_stay_tied(placed: Placed) -> None:
    embedding, head = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5, bias=False)
    head.weight = embedding.weight
    model = torch.nn.ModuleList([embedding, head])
    optimizer = placed.optimizer(model.parameters(), lr=0.1)
    head(embedding(torch.arange(5))).sum().backward()
    optimizer.step()
    optimizer.reload_model_params()
    assert head.weight is embedding.weight
    assert head.weight.data_ptr() == embedding.weight.data_ptr()


def test_empty_parameters_are_harmless(placed: Placed) -> None:
    empty, param = torch.nn.Parameter(torch.empty(0)), weight(1.0)
    optimizer = placed.optimizer([empty, param], torch.optim.Adam, lr=0.1)
    empty.grad = torch.empty(0)
    assert step_with(optimizer, param, [0.5]) == pytest.approx([0.9], abs=1e-6)
    assert list(optimizer.state_dict()["state"]) == [1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
def test_other_dtypes_are_refused_by_name(placed: Placed, dtype: torch.dtype) -> None:
    optimizer = placed.optimizer([torch.nn.Parameter(torch.ones(2, dtype=dtype))])
    with pytest.raises(TypeError, match=str(dtype)):
        optimizer.step()


def test_integers_are_refused_by_name(placed: Placed) -> None:
    optimizer = placed.optimizer([torch.ones(2, dtype=torch.int64)])
    with pytest.raises(TypeError, match="torch.int64"):
        optimizer.step()


@pytest.mark.parametrize("shape", [(1,), (7,), (8,), (9,), (33,), (999,), (3, 5, 7), (1557,)])
def test_any_size_and_shape_is_updated_and_its_neighbours_are_not(
    placed: Placed, shape: tuple
) -> None:
    size = torch.Size(shape).numel()
    memory = torch.full((size + 2,), 7.0)
    param = torch.nn.Parameter(memory[1:-1].view(shape))
    gradient = torch.linspace(-1, 1, size).view(shape)
    reference = torch.nn.Parameter(torch.full(shape, 7.0))
    theirs = torch.optim.Adam([reference], lr=0.1)
    ours = placed.optimizer([param], torch.optim.Adam, lr=0.1)
    for _ in range(2):
        param.grad, reference.grad = gradient.clone(), gradient.clone()
        ours.step()
        theirs.step()
    torch.testing.assert_close(param, reference, rtol=0, atol=2e-6)
    assert memory[0].item() == memory[-1].item() == 7.0


def test_many_small_parameters_give_the_bits_of_a_resident_run(placed: Placed) -> None:
    def build(where: Placed) -> tuple[list[torch.nn.Parameter], torch.optim.Optimizer]:
        generator = torch.Generator().manual_seed(0)
        sizes = [(i * 37) % 91 + 1 for i in range(60)]
        params = [torch.nn.Parameter(torch.randn(n, generator=generator)) for n in sizes]
        return params, where.optimizer(params, lr=0.01)

    results = []
    for where in (placed, Placed(0.0, "auto")):
        params, optimizer = build(where)
        generator = torch.Generator().manual_seed(1)
        for _ in range(3):
            for param in params:
                param.grad = torch.randn(param.shape, generator=generator)
            optimizer.step()
        results.append(params)
    assert_same_bits(*results)


def test_a_model_moved_to_bf16_before_the_first_step_is_taken_as_it_is(placed: Placed) -> None:
    model = small_model()
    optimizer = placed.optimizer(model.parameters(), lr=0.01)
    model.to(torch.bfloat16)
    train(model, optimizer, 2)
    assert all(param.dtype is torch.bfloat16 for param in optimizer.param_to_fp32_param)
