"""What importing costs and needs."""

import subprocess
import sys
from pathlib import Path

import spillway


def run(script: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


def test_importing_needs_neither_torch_nor_a_gpu() -> None:
    script = """
import sys
sys.modules["torch"] = None
import spillway
cfg = spillway.ConfigContainer("qwen3_8b_pretrain_config")
print(len(spillway.check(cfg)), spillway.cuda_available())
"""
    assert run(script).split()[1] in ("True", "False")


def test_everything_public_can_be_imported_and_is_documented() -> None:
    for name in spillway.__all__:
        value = getattr(spillway, name)
        assert name.startswith("__") or value.__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(spillway, "HybridDeviceOptimiser")


def test_the_package_is_typed() -> None:
    package = Path(spillway.__file__).parent
    assert (package / "py.typed").exists()
    assert (package / "_core.pyi").exists()


def test_a_process_ends_quietly_with_an_optimizer_alive() -> None:
    script = """
import torch, spillway
param = torch.nn.Parameter(torch.ones(1000))
optimizer = spillway.HybridDeviceOptimizer([param], 1.0, torch.optim.AdamW)
param.grad = torch.ones(1000)
optimizer.step()
print("done")
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (result.returncode, result.stdout.strip(), result.stderr.strip()) == (0, "done", "")
