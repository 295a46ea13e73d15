"""The configuration as Megatron Bridge's users write it."""

import copy

import pytest

import spillway
from spillway import ConfigContainer, check


def test_settings_are_attributes_of_their_sections() -> None:
    cfg = ConfigContainer()
    assert cfg.optimizer.optimizer_cpu_offload is False
    cfg.optimizer.optimizer_cpu_offload = True
    cfg.optimizer.optimizer_offload_fraction = 0.5
    cfg.model.cpu_offloading_num_layers = 12
    assert cfg.optimizer.optimizer_cpu_offload is True
    assert "optimizer_offload_fraction: 0.5" in cfg.to_yaml()
    assert cfg.model.cpu_offloading_num_layers == 12


def test_a_misspelt_setting_is_refused_with_the_right_one() -> None:
    cfg = ConfigContainer()
    with pytest.raises(AttributeError, match="optimizer.optimizer_cpu_offload'"):
        cfg.optimizer.optimizer_cpu_ofload = True
    with pytest.raises(AttributeError, match="sections"):
        cfg.lr = 0.1


@pytest.mark.parametrize(
    ("key", "value"), [("lr", "fast"), ("optimizer_cpu_offload", 1), ("lr", True)]
)
def test_a_value_of_another_type_is_refused(key: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"optimizer.{key}"):
        setattr(ConfigContainer().optimizer, key, value)


def test_dtypes_are_names_or_torch_dtypes() -> None:
    import torch

    cfg = ConfigContainer()
    cfg.optimizer.exp_avg_dtype = torch.bfloat16
    assert cfg.optimizer.exp_avg_dtype == "bf16"


def test_copies_are_independent() -> None:
    cfg = ConfigContainer()
    for other in (cfg.copy(), copy.deepcopy(cfg)):
        other.optimizer.lr = 0.25
        assert cfg.optimizer.lr is None
        assert other.optimizer.lr == 0.25


def test_a_recipe_with_overrides_is_complete() -> None:
    cfg = ConfigContainer(
        "qwen3_30b_a3b_pretrain_config",
        overrides=[
            "optimizer.optimizer_cpu_offload=True",
            "optimizer.optimizer_offload_fraction=0.5",
        ],
    )
    assert cfg.optimizer.optimizer_offload_fraction == 0.5
    assert cfg.model.num_layers == 48
    assert not [finding for finding in check(cfg) if finding.severity == "error"]


def test_an_unknown_recipe_is_refused_with_the_nearest() -> None:
    with pytest.raises(spillway.ConfigError, match="qwen3"):
        ConfigContainer("qwen3_30b_a3b_pretrain_confg")


def test_check_names_every_violated_rule_and_its_fix() -> None:
    cfg = ConfigContainer("qwen3_8b_pretrain_config")
    cfg.optimizer.optimizer_cpu_offload = True
    cfg.optimizer.optimizer_offload_fraction = 1.5
    cfg.optimizer.decoupled_weight_decay = False
    keys = {key for finding in check(cfg) for key in finding.keys}
    assert {"optimizer.optimizer_offload_fraction", "optimizer.decoupled_weight_decay"} <= keys
    finding = next(f for f in check(cfg) if "optimizer.optimizer_offload_fraction" in f.keys)
    assert finding.severity == "error"
    assert "1.5" in finding.text
    assert "optimizer.optimizer_offload_fraction" in str(finding)
    assert finding.fix


def test_the_switch_without_a_fraction_is_reported() -> None:
    cfg = ConfigContainer("qwen3_8b_pretrain_config")
    cfg.optimizer.optimizer_cpu_offload = True
    assert any("optimizer.optimizer_offload_fraction" in f.keys for f in check(cfg))
