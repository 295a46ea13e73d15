"""Standing in for Megatron-Core's class in an installed Megatron-Core.

The package used here has the public interface of Megatron-Core's and nothing else.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Iterator

import pytest

import spillway
from spillway import EngineOptions, HybridDeviceOptimizer, megatron

CLASS = """
class HybridDeviceOptimizer:
    def __init__(self, params, offload_fraction=0.5, cpu_optimizer_cls=None,
                 gpu_optimizer_cls=None, param_update_in_fp32=False, pin_cpu_grads=True,
                 pin_cpu_params=True, overlap_cpu_optimizer_d2h_h2d=True, {extra}**kwargs): ...
    def step(self): ...
    def state_dict(self): ...
    def load_state_dict(self, state): ...
    def zero_grad(self): ...
    def dummy_step(self): ...
    def update_fp32_param_by_new_param(self): ...
    {sub_optimizers} = property(lambda self: [])
"""


class Installed:
    def __init__(self, root: Path) -> None:
        self._root = root

    def write(
        self, version: str = "0.16.1", extra: str = "", sub_optimizers: str = "sub_optimizers"
    ) -> None:
        offloading = "from megatron.core.optimizer.cpu_offloading"
        for path, text in {
            "megatron/core/__init__.py": f"__version__ = '{version}'",
            "megatron/core/optimizer/__init__.py": (
                f"{offloading}.hybrid_optimizer import HybridDeviceOptimizer\n"
                "from megatron.core.optimizer import distrib_optimizer\n"
                "def build(params, **kwargs): return HybridDeviceOptimizer(params, **kwargs)\n"
            ),
            "megatron/core/optimizer/distrib_optimizer.py": (
                f"{offloading} import HybridDeviceOptimizer\n"
                "def knows(optimizer): return isinstance(optimizer, HybridDeviceOptimizer)\n"
            ),
            "megatron/core/optimizer/cpu_offloading/__init__.py": (
                f"{offloading}.hybrid_optimizer import HybridDeviceOptimizer\n"
            ),
            "megatron/core/optimizer/cpu_offloading/hybrid_optimizer.py": CLASS.format(
                extra=extra, sub_optimizers=sub_optimizers
            ),
        }.items():
            file = self._root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Installed(tmp_path)
    megatron.disable()
    for name in [name for name in sys.modules if name.split(".")[0] == "megatron"]:
        del sys.modules[name]


def test_megatron_builds_and_recognises_spillways_class(installed: Installed) -> None:
    import torch

    installed.write()
    megatron.enable()
    from megatron.core import optimizer as theirs

    params = [torch.nn.Parameter(torch.ones(3))]
    built = theirs.build(params, offload_fraction=1.0, cpu_optimizer_cls=torch.optim.AdamW)
    assert isinstance(built, HybridDeviceOptimizer)
    assert theirs.distrib_optimizer.knows(built)
    assert megatron.enabled()


def test_disabling_gives_the_original_back(installed: Installed) -> None:
    installed.write()
    from megatron.core import optimizer as theirs

    original = theirs.HybridDeviceOptimizer
    megatron.enable()
    megatron.enable()
    assert theirs.HybridDeviceOptimizer is HybridDeviceOptimizer
    megatron.disable()
    assert theirs.HybridDeviceOptimizer is original
    assert not megatron.enabled()


def test_engine_settings_hold_for_all_that_megatron_builds(installed: Installed) -> None:
    import torch

    installed.write()
    megatron.enable(EngineOptions(offload_update="host"))
    from megatron.core import optimizer as theirs

    params = [torch.nn.Parameter(torch.ones(3))]
    built = theirs.build(params, offload_fraction=1.0, cpu_optimizer_cls=torch.optim.AdamW)
    again = theirs.HybridDeviceOptimizer(params=params, **built.defaults)
    assert again.engine_options.offload_update == "host"
    assert theirs.distrib_optimizer.knows(again)


def test_without_megatron_the_message_says_what_to_install() -> None:
    with pytest.raises(ImportError, match="Install megatron-core"):
        spillway.megatron.enable()


@pytest.mark.parametrize("version", ["0.5.0", "0.99.0", "1.0"])
def test_an_unknown_version_is_refused_unless_accepted(installed: Installed, version: str) -> None:
    installed.write(version=version)
    with pytest.raises(megatron.UnknownMegatron, match=version):
        megatron.enable()
    assert not megatron.enabled()
    megatron.enable(any_version=True)
    assert megatron.enabled()


@pytest.mark.parametrize(
    ("change", "name"),
    [({"extra": "new_way=False, "}, "new_way"), ({"sub_optimizers": "parts"}, "sub_optimizers")],
)
def test_a_changed_interface_is_refused(installed: Installed, change: dict, name: str) -> None:
    installed.write(**change)
    with pytest.raises(megatron.UnknownMegatron, match=name):
        megatron.enable(any_version=True)
    assert not megatron.enabled()
