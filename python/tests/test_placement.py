"""Where states are, what is reported, and what is used in place of the engine."""

import warnings

import pytest
import torch

from support import Placed, small_model, train, weight

from spillway import EngineOptions, HybridDeviceOptimizer


def with_sizes(sizes: list, fraction: float, **engine: object) -> HybridDeviceOptimizer:
    params = [torch.nn.Parameter(torch.ones(n)) for n in sizes]
    return HybridDeviceOptimizer(
        params, fraction, torch.optim.AdamW, engine=EngineOptions(**engine)
    )


@pytest.mark.filterwarnings("ignore:offload_fraction is 0")
@pytest.mark.parametrize("tenths", range(11))
def test_the_share_on_the_host_is_exact(tenths: int) -> None:
    placement = with_sizes([1000] * 10, tenths / 10).placement()
    assert placement.num_offloaded_elements == 1000 * tenths
    assert placement.offload_fraction == tenths / 10


@pytest.mark.parametrize(
    ("sizes", "fraction", "expected"),
    [([100, 200, 300, 400], 0.5, 500), ([100, 300, 600], 0.5, 500), ([900, 100], 0.1, 100)],
)
def test_parameters_are_split_where_the_share_asks_for_it(
    sizes: list, fraction: float, expected: int
) -> None:
    assert with_sizes(sizes, fraction).placement().num_offloaded_elements == expected


@pytest.mark.parametrize("update", ["host", "stream", "auto"])
def test_everything_on_the_host_is_reported_there(update: str) -> None:
    model = small_model(dtype=torch.bfloat16)
    optimizer = Placed(1.0, update).optimizer(model.parameters())
    placement = optimizer.placement()
    numel = sum(param.numel() for param in model.parameters())
    assert placement.engine == "spillway"
    assert placement.num_elements == placement.num_offloaded_elements == numel
    assert placement.device_state_bytes == 0
    assert placement.host_state_bytes >= 12 * numel
    assert "spillway" in optimizer.describe()


def test_the_first_parameters_are_the_ones_offloaded() -> None:
    params = [torch.nn.Parameter(torch.ones(100)) for _ in range(4)]
    optimizer = HybridDeviceOptimizer(params, 0.5, torch.optim.AdamW)
    store = optimizer._lazy()
    assert [store.on_host(param) for param in params] == [True, True, False, False]
    assert [len(part.param_groups[0]["params"]) for part in optimizer.sub_optimizers] == [2, 2]


def test_the_parts_show_states_and_groups_of_the_given_classes() -> None:
    params = [torch.nn.Parameter(torch.ones(10)) for _ in range(4)]
    optimizer = HybridDeviceOptimizer(params, 0.5, torch.optim.AdamW, lr=0.1)
    assert all(len(part.state) == 0 for part in optimizer.sub_optimizers)
    for param in params:
        param.grad = torch.ones(10)
    optimizer.step()
    for part in optimizer.sub_optimizers:
        assert isinstance(part, torch.optim.AdamW)
        assert [state["step"].item() for state in part.state.values()] == [1, 1]
        with pytest.raises(RuntimeError, match="whole"):
            part.step()


def test_states_are_fp32_unless_asked_otherwise() -> None:
    def host_bytes(**engine: object) -> int:
        params = [torch.nn.Parameter(torch.ones(1 << 20, dtype=torch.bfloat16))]
        options = EngineOptions(**engine)
        optimizer = HybridDeviceOptimizer(params, 1.0, torch.optim.AdamW, engine=options)
        return optimizer.placement().host_state_bytes

    elements = 1 << 20
    assert host_bytes() == 12 * elements
    assert host_bytes(exp_avg_dtype="bf16") == 10 * elements
    assert host_bytes(exp_avg_dtype="bf16", exp_avg_sq_dtype="bf16") == 8 * elements
    assert host_bytes(master_format="remainder") == 10 * elements


def test_moments_and_masters_of_bf16_weights_are_fp32() -> None:
    param = weight(1.0, dtype=torch.bfloat16)
    optimizer = HybridDeviceOptimizer([param], 1.0, torch.optim.AdamW, param_update_in_fp32=True)
    param.grad = torch.ones_like(param)
    optimizer.step()
    state = optimizer.state[param]
    dtypes = {state[key].dtype for key in ("exp_avg", "exp_avg_sq", "master_param")}
    assert dtypes == {torch.float32}


def test_a_fraction_of_zero_warns_that_nothing_is_offloaded() -> None:
    with pytest.warns(UserWarning, match="offload_fraction is 0"):
        with_sizes([10], 0.0).placement()


@pytest.mark.parametrize("fraction", [-0.1, 1.5, float("nan")])
def test_a_fraction_outside_its_range_is_refused(fraction: float) -> None:
    with pytest.raises(ValueError, match="offload_fraction"):
        with_sizes([10], fraction)


@pytest.mark.parametrize(
    "option",
    [
        {"offload_update": "host"},
        {"offload_update": "stream"},
        {"host_isa": "scalar"},
        {"host_threads": 1},
        {"use_torch_optimizer": True},
        {"exp_avg_dtype": "bf16"},
        {"exp_avg_sq_dtype": "bf16"},
    ],
)
@pytest.mark.filterwarnings("ignore:AdamW runs as given")
def test_each_option_shows_in_the_description(option: dict) -> None:
    sizes = [1 << 20]
    default = with_sizes(sizes, 1.0, host_threads=2).describe()
    assert with_sizes(sizes, 1.0, **{"host_threads": 2, **option}).describe() != default


@pytest.mark.parametrize(
    "option",
    [
        {"offload_update": "gpu"},
        {"host_isa": "avx1024"},
        {"master_format": "fp16"},
        {"exp_avg_dtype": "fp12"},
    ],
)
def test_an_unknown_value_of_an_option_is_refused(option: dict) -> None:
    with pytest.raises(RuntimeError, match=next(iter(option.values()))):
        with_sizes([10], 1.0, **option).placement()


def test_another_class_is_used_as_given_with_a_note() -> None:
    ours, theirs = small_model(), small_model()
    optimizer = HybridDeviceOptimizer(ours.parameters(), 1.0, torch.optim.Adagrad, lr=0.1)
    with pytest.warns(UserWarning, match="Adagrad runs as given"):
        trained = train(ours, optimizer, 3)
    expected = train(theirs, torch.optim.Adagrad(theirs.parameters(), lr=0.1), 3)
    for one, other in zip(trained, expected):
        assert torch.equal(one, other)
    assert optimizer.placement().engine == "Adagrad"


@pytest.mark.parametrize("option", [{"amsgrad": True}, {"maximize": True}])
def test_variants_that_the_engine_lacks_are_used_as_given(option: dict) -> None:
    ours, theirs = small_model(), small_model()
    optimizer = HybridDeviceOptimizer(ours.parameters(), 1.0, torch.optim.Adam, lr=0.1, **option)
    with pytest.warns(UserWarning, match=next(iter(option))):
        trained = train(ours, optimizer, 3)
    expected = train(theirs, torch.optim.Adam(theirs.parameters(), lr=0.1, **option), 3)
    for one, other in zip(trained, expected):
        assert torch.equal(one, other)


@pytest.mark.filterwarnings("ignore:Adagrad runs as given")
def test_classes_used_as_given_save_and_load() -> None:
    first = small_model()
    optimizer = HybridDeviceOptimizer(first.parameters(), 1.0, torch.optim.Adagrad, lr=0.1)
    train(first, optimizer, 2)
    second = small_model()
    second.load_state_dict(first.state_dict())
    resumed = HybridDeviceOptimizer(second.parameters(), 0.5, torch.optim.Adagrad, lr=0.1)
    resumed.load_state_dict(optimizer.state_dict())
    for one, other in zip(train(second, resumed, 2), train(first, optimizer, 2)):
        assert torch.equal(one, other)


def test_a_subclass_that_steps_differently_is_used_as_given() -> None:
    class Halved(torch.optim.AdamW):
        def step(self, closure=None):  # type: ignore[no-untyped-def]
            for group in self.param_groups:
                for param in group["params"]:
                    param.data.mul_(0.5)

    param = weight(1.0)
    optimizer = HybridDeviceOptimizer([param], 1.0, Halved)
    param.grad = torch.ones(1)
    with pytest.warns(UserWarning, match="Halved"):
        optimizer.step()
    assert param.item() == 0.5


def test_a_subclass_with_other_defaults_runs_in_the_engine() -> None:
    class Gentle(torch.optim.AdamW):
        def __init__(self, params: object, lr: float = 0.5) -> None:
            super().__init__(params, lr=lr, weight_decay=0.0)

    param = weight(1.0)
    optimizer = HybridDeviceOptimizer([param], 1.0, Gentle)
    param.grad = torch.ones(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
    assert param.item() == pytest.approx(0.5, abs=1e-6)
    assert optimizer.placement().engine == "spillway"


def test_an_optimizer_can_be_built_anew_from_its_defaults() -> None:
    """As Megatron-Core does once it knows its shard."""
    first = HybridDeviceOptimizer(
        [weight(1.0)], 1.0, torch.optim.AdamW, lr=0.1, engine=EngineOptions(host_threads=1)
    )
    second = HybridDeviceOptimizer(params=[weight(2.0)], **first.defaults)
    assert second.offload_fraction == 1.0
    assert second.param_groups[0]["lr"] == 0.1
    assert second.engine_options == EngineOptions(host_threads=1)


def test_pickling_is_refused_with_the_alternative() -> None:
    import pickle

    with pytest.raises(TypeError, match="state_dict"):
        pickle.dumps(with_sizes([3], 1.0))
