"""States saved, loaded, exchanged."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from support import Placed, assert_same_bits, small_model, step_with, train, weight

from spillway import EngineOptions, HybridDeviceOptimizer

FIRST, SECOND = [1.0, 0.1], [-0.5, 0.25]
AFTER_RESUME = [0.803137, 0.772274]


def saved_and_loaded(state: Any) -> Any:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file)


def test_a_resumed_run_continues_with_the_same_bits(placed: Placed) -> None:
    param = weight(1.0)
    optimizer = placed.optimizer([param], torch.optim.Adam, lr=0.1)
    step_with(optimizer, param, FIRST)
    state = optimizer.state_dict()
    assert state["state"][0]["step"].item() == 2
    assert state["state"][0]["exp_avg"].item() == pytest.approx(0.1, abs=1e-7)
    assert state["state"][0]["exp_avg_sq"].item() == pytest.approx(0.001009, abs=1e-8)
    resumed = weight(param.item())
    other = placed.optimizer([resumed], torch.optim.Adam, lr=0.1)
    other.load_state_dict(saved_and_loaded(state))
    expected = step_with(optimizer, param, SECOND)
    assert step_with(other, resumed, SECOND) == expected
    assert expected == pytest.approx(AFTER_RESUME, abs=1e-6)


@pytest.mark.parametrize("loaded", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_state_loads_at_any_other_fraction(
    placed: Placed, loaded: float, dtype: torch.dtype
) -> None:
    model = small_model(dtype=dtype)
    optimizer = placed.optimizer(model.parameters(), lr=0.01)
    train(model, optimizer, 3)
    state = saved_and_loaded(optimizer.state_dict())
    other = small_model(seed=5, dtype=dtype)
    other.load_state_dict(model.state_dict())
    resumed = Placed(loaded, "auto").optimizer(other.parameters(), lr=0.01)
    resumed.load_state_dict(state)
    assert_same_bits(train(other, resumed, 3, seed=9), train(model, optimizer, 3, seed=9))


def test_a_state_loads_in_another_process(tmp_path: Path) -> None:
    param = weight(1.0)
    optimizer = Placed(1.0, "host").optimizer([param], torch.optim.Adam, lr=0.1)
    step_with(optimizer, param, FIRST)
    torch.save({"p": param.detach(), "o": optimizer.state_dict()}, tmp_path / "state.pt")
    script = """
import sys, torch
sys.path.insert(0, sys.argv[2])
from support import Placed, step_with
saved = torch.load(sys.argv[1])
param = torch.nn.Parameter(saved["p"])
optimizer = Placed(0.5, "stream").optimizer([param], torch.optim.Adam, lr=0.1)
optimizer.load_state_dict(saved["o"])
print(*step_with(optimizer, param, [-0.5, 0.25]))
"""
    here = str(Path(__file__).parent)
    result = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "state.pt"), here],
        capture_output=True,
        text=True,
        check=True,
    )
    values = [float(word) for word in result.stdout.split()]
    assert values == pytest.approx(AFTER_RESUME, abs=1e-6)


@pytest.mark.parametrize("cls", [torch.optim.Adam, torch.optim.AdamW])
def test_states_are_exchanged_with_the_plain_optimizer_both_ways(
    placed: Placed, cls: type
) -> None:
    plain, ours = small_model(), small_model()
    reference = cls(plain.parameters(), lr=0.01)
    optimizer = placed.optimizer(ours.parameters(), cls, lr=0.01)
    train(plain, reference, 3)
    ours.load_state_dict(plain.state_dict())
    optimizer.load_state_dict(reference.state_dict())
    expected = train(plain, reference, 3, seed=2)
    for one, other in zip(train(ours, optimizer, 3, seed=2), expected):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    back = cls(plain.parameters(), lr=0.01)
    plain.load_state_dict(ours.state_dict())
    back.load_state_dict(optimizer.state_dict())
    expected = train(ours, optimizer, 3, seed=3)
    for one, other in zip(train(plain, back, 3, seed=3), expected):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


def test_the_state_of_megatron_core_loads(placed: Placed) -> None:
    """Its layout: masters in the states, its arguments, classes among them, in the groups."""
    param = weight(0.826171875, dtype=torch.bfloat16)
    state = {
        "step": torch.tensor(2.0),
        "exp_avg": torch.tensor([0.1]),
        "exp_avg_sq": torch.tensor([0.001009]),
        "master_param": torch.tensor([0.825919]),
    }
    group = {
        "lr": 0.1,
        "cpu_optimizer_cls": torch.optim.Adam,
        "gpu_optimizer_cls": torch.optim.Adam,
        "offload_fraction": 0.3,
        "wd_mult": 1.0,
        "params": [0],
    }
    optimizer = placed.optimizer([param], torch.optim.Adam, lr=0.5)
    optimizer.load_state_dict({"state": {0: state}, "param_groups": [group]})
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert "cpu_optimizer_cls" not in optimizer.param_groups[0]
    masters = []
    for gradient in SECOND:
        param.grad = torch.full_like(param, gradient)
        optimizer.step()
        masters.append(optimizer.param_to_fp32_param[param].item())
    assert masters == pytest.approx(AFTER_RESUME, abs=1e-5)


@pytest.mark.parametrize("fraction", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_state_has_exactly_one_of_each_array_for_each_weight(
    fraction: float, dtype: str
) -> None:
    model = small_model(dtype=torch.bfloat16)
    optimizer = HybridDeviceOptimizer(
        model.parameters(),
        fraction,
        torch.optim.AdamW,
        param_update_in_fp32=True,
        engine=EngineOptions(exp_avg_dtype=dtype, exp_avg_sq_dtype=dtype),
    )
    train(model, optimizer, 1)
    states = optimizer.state_dict()["state"]
    assert list(states) == list(range(len(list(model.parameters()))))
    for state in states.values():
        assert set(state) == {"step", "exp_avg", "exp_avg_sq", "master_param"}


def test_a_saved_state_holds_plain_values_only() -> None:
    model = small_model()
    optimizer = Placed(1.0, "auto").optimizer(model.parameters(), lr=0.01)
    train(model, optimizer, 1)

    def check(value: object) -> None:
        if isinstance(value, dict):
            assert type(value) is dict
            for key, item in value.items():
                assert isinstance(key, (str, int))
                check(item)
        elif isinstance(value, (list, tuple)):
            for item in value:
                check(item)
        else:
            assert value is None or type(value) in (torch.Tensor, int, float, str, bool)

    check(optimizer.state_dict())


def test_mixed_bf16_and_fp32_weights_are_saved_and_loaded(placed: Placed) -> None:
    def build() -> tuple[list[torch.nn.Parameter], HybridDeviceOptimizer]:
        params = [weight(1.0, dtype=torch.bfloat16), weight(1.0)]
        return params, placed.optimizer(params, torch.optim.Adam, lr=0.1)

    def step(params: list, optimizer: HybridDeviceOptimizer, gradient: float) -> None:
        for param in params:
            param.grad = torch.full_like(param, gradient)
        optimizer.step()

    params, optimizer = build()
    for gradient in FIRST:
        step(params, optimizer, gradient)
    assert list(optimizer.param_to_fp32_param) == [params[0]]
    others, resumed = build()
    with torch.no_grad():
        for other, param in zip(others, params):
            other.copy_(param)
    resumed.load_state_dict(optimizer.state_dict())
    for gradient, expected in zip(SECOND, AFTER_RESUME):
        step(others, resumed, gradient)
        master = resumed.param_to_fp32_param[others[0]].item()
        assert [master, others[1].item()] == pytest.approx([expected] * 2, abs=2e-3)
    assert others[1].item() == pytest.approx(AFTER_RESUME[1], abs=1e-6)


def test_ten_steps_then_resume_gives_the_published_eleventh(placed: Placed) -> None:
    param = weight(1.0)
    optimizer = placed.optimizer([param], torch.optim.Adam, lr=0.01)
    step_with(optimizer, param, [1.0] * 10)
    resumed = weight(param.item())
    other = placed.optimizer([resumed], torch.optim.Adam, lr=0.01)
    other.load_state_dict(saved_and_loaded(optimizer.state_dict()))
    assert step_with(other, resumed, [0.5]) == pytest.approx([0.8903936943], abs=1e-6)


def test_unknown_group_keys_survive_save_and_load(placed: Placed) -> None:
    groups = [{"params": [weight(1.0)], "lr_mult": 0.1, "foo": "x"}]
    optimizer = placed.optimizer(groups, lr=0.1)
    state = optimizer.state_dict()
    other = placed.optimizer([weight(1.0)], lr=0.1)
    other.load_state_dict(state)
    assert other.param_groups[0]["lr_mult"] == 0.1
    assert other.param_groups[0]["foo"] == "x"


def test_a_group_key_missing_from_the_file_keeps_its_value(placed: Placed) -> None:
    optimizer = placed.optimizer([{"params": [weight(1.0)], "lr_mult": 0.1}], lr=0.1)
    state = optimizer.state_dict()
    del state["param_groups"][0]["lr_mult"], state["param_groups"][0]["betas"]
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["lr_mult"] == 0.1
    assert optimizer.param_groups[0]["betas"] == (0.9, 0.999)


def test_states_stay_with_their_parameter_when_one_has_none(placed: Placed) -> None:
    def build() -> tuple[list[torch.nn.Parameter], HybridDeviceOptimizer]:
        params = [weight(1.0), weight(2.0), weight(3.0)]
        return params, placed.optimizer(params, torch.optim.Adam, lr=0.1)

    params, optimizer = build()
    params[0].grad, params[2].grad = torch.tensor([1.0]), torch.tensor([-3.0])
    optimizer.step()
    state = optimizer.state_dict()
    assert set(state["state"]) == {0, 2}
    others, resumed = build()
    resumed.load_state_dict(state)
    for index in (0, 2):
        assert torch.equal(
            resumed.state[others[index]]["exp_avg"], optimizer.state[params[index]]["exp_avg"]
        )
    assert others[1] not in resumed.state


def test_a_state_of_another_shape_is_refused_and_nothing_changes(placed: Placed) -> None:
    params = [weight(1.0, 2.0), weight(3.0)]
    optimizer = placed.optimizer(params, torch.optim.Adam, lr=0.1)
    other = placed.optimizer([weight(1.0, 2.0), weight(3.0, 4.0)], torch.optim.Adam, lr=0.7)
    for group in other.param_groups:
        for param in group["params"]:
            param.grad = torch.ones_like(param)
    other.step()
    with pytest.raises(ValueError, match=r"exp_avg.*\(2,\).*\(1,\)"):
        optimizer.load_state_dict(other.state_dict())
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert len(optimizer.state) == 0


def test_a_state_with_other_groups_is_refused(placed: Placed) -> None:
    state = placed.optimizer([weight(1.0)]).state_dict()
    with pytest.raises(ValueError, match="groups"):
        placed.optimizer([weight(1.0), weight(2.0)]).load_state_dict(state)


def test_creating_states_for_a_load_changes_no_parameter(placed: Placed) -> None:
    model = small_model(dtype=torch.bfloat16)
    before = [param.detach().clone() for param in model.parameters()]
    optimizer = placed.optimizer(model.parameters(), lr=0.1)
    optimizer.dummy_step()
    assert_same_bits(before, model.parameters())
    assert all(param.grad is None for param in model.parameters())
    assert len(optimizer.state) == len(before)
    for state in optimizer.state.values():
        assert state["step"].item() == 0
        assert not state["exp_avg"].any()


def test_a_state_dict_is_a_snapshot(placed: Placed) -> None:
    param = weight(1.0)
    optimizer = placed.optimizer([param], torch.optim.Adam, lr=0.1)
    step_with(optimizer, param, FIRST)
    state = optimizer.state_dict()["state"][0]
    at_the_call = {key: value.clone() for key, value in state.items()}
    step_with(optimizer, param, [1.0, 2.0, 3.0])
    for key, value in at_the_call.items():
        assert torch.equal(state[key], value)
    assert optimizer.state_dict()["state"][0]["step"].item() == 5


def test_every_checkpoint_has_its_own_states(placed: Placed) -> None:
    param = weight(1.0)
    optimizer = placed.optimizer([param], torch.optim.Adam, lr=0.1)
    files = []
    for gradient in (1.0, 0.1):
        step_with(optimizer, param, [gradient])
        files.append(saved_and_loaded(optimizer.state_dict())["state"][0]["exp_avg"].item())
    assert files == pytest.approx([0.1, 0.1], abs=1e-6)
    step_with(optimizer, param, [5.0])
    assert optimizer.state_dict()["state"][0]["exp_avg"].item() == pytest.approx(0.59, abs=1e-6)


def test_fp32_moments_load_where_bf16_is_configured_and_back() -> None:
    def build(dtype: str) -> tuple[torch.nn.Parameter, HybridDeviceOptimizer]:
        param = weight(*torch.linspace(0.5, 1.5, 300).tolist())
        return param, HybridDeviceOptimizer(
            [param],
            1.0,
            torch.optim.Adam,
            lr=0.1,
            engine=EngineOptions(exp_avg_dtype=dtype, exp_avg_sq_dtype=dtype),
        )

    param, wide = build("fp32")
    param.grad = torch.linspace(-1, 1, 300)
    wide.step()
    other, narrow = build("bf16")
    narrow.load_state_dict(wide.state_dict())
    for key in ("exp_avg", "exp_avg_sq"):
        loaded = narrow.state[other][key]
        assert torch.equal(loaded, wide.state[param][key].to(torch.bfloat16).float())
    _, again = build("fp32")
    again.load_state_dict(narrow.state_dict())
    other.grad = torch.ones_like(other)
    narrow.step()
    assert narrow.state[other]["step"].item() == 2


def test_states_changed_through_the_optimizer_are_taken_over(placed: Placed) -> None:
    """As Megatron-Core loads: replacing tensors, or copying into them."""
    params = [weight(0.825919), weight(0.825919)]
    optimizer = placed.optimizer(params, torch.optim.Adam, lr=0.1)
    optimizer.dummy_step()
    optimizer.state[params[0]]["exp_avg"] = torch.tensor([0.1])
    optimizer.state[params[0]]["exp_avg_sq"] = torch.tensor([0.001009])
    optimizer.state[params[1]]["exp_avg"].copy_(torch.tensor([0.1]))
    optimizer.state[params[1]]["exp_avg_sq"].fill_(0.001009)
    for state in optimizer.state.values():
        state["step"] = torch.tensor(2.0)
    optimizer._sync_hdo_state_to_sub_optimizers()
    for param in params:
        param.grad = torch.tensor([-0.5])
    optimizer.step()
    assert [p.item() for p in params] == pytest.approx([AFTER_RESUME[0]] * 2, abs=1e-6)


def test_a_step_set_through_state_shows_in_a_state_dict_taken_before() -> None:
    optimizer = Placed(1.0, "auto").optimizer([weight(1.0)], torch.optim.Adam)
    optimizer.dummy_step()
    packed = optimizer.state_dict()
    for state in optimizer.state.values():
        state["step"] = torch.tensor(7.0)
    assert packed["state"][0]["step"].item() == 7
    optimizer.load_state_dict(packed)
    assert optimizer.state_dict()["state"][0]["step"].item() == 7


def test_a_state_without_master_takes_it_from_the_parameter(placed: Placed) -> None:
    param = weight(5.0, dtype=torch.bfloat16)
    plain = torch.optim.AdamW([weight(1.0)], lr=0.1)
    plain.param_groups[0]["params"][0].grad = torch.ones(1)
    plain.step()
    optimizer = placed.optimizer([param], lr=0.1)
    optimizer.load_state_dict(plain.state_dict())
    assert optimizer.param_to_fp32_param[param].item() == 5.0
