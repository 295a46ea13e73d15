"""Optimizers on equal terms: bf16 parameters on the GPU, all states on the host."""

from __future__ import annotations

import importlib.util
import sys
import time
import types
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from workload import Workload


class MissingPeer(Exception):
    """A peer's files, or what they need, are not there."""


class Contender(ABC):
    """One optimizer with its own copy of the parameters. `step()` may return before it is done;
    `finish()` waits."""

    name = ""
    note = ""
    state_bits = "fp32 master and moments"

    def __init__(self, workload: Workload, gradients: list[torch.Tensor]) -> None:
        self.workload = workload
        self.params = workload.make_parameters()
        self.gradients = gradients
        self.set_up()

    @abstractmethod
    def set_up(self) -> None: ...

    def prepare(self) -> None:
        """Before each step, not timed."""
        for param, gradient in zip(self.params, self.gradients):
            param.grad = gradient

    @abstractmethod
    def step(self) -> None: ...

    def finish(self) -> None:
        if self.workload.device.type == "cuda":
            torch.cuda.synchronize(self.workload.device)

    def facts(self) -> dict[str, Any]:
        """What belongs beside the time."""
        return {}


class Spillway(Contender):
    def __init__(
        self, update: str, master: str, workload: Workload, gradients: list[torch.Tensor]
    ) -> None:
        self.update = update
        self.master = master
        self.name = f"spillway {update}"
        self.state_bits = f"{'fp32' if master == 'fp32' else '16-bit'} master, fp32 moments"
        super().__init__(workload, gradients)

    def set_up(self) -> None:
        import spillway
        from spillway._devices import device_for

        self.optimizer = spillway.HybridDeviceOptimizer(
            self.params,
            1.0,
            torch.optim.AdamW,
            torch.optim.AdamW,
            param_update_in_fp32=True,
            engine=spillway.EngineOptions(offload_update=self.update, master_format=self.master),
            **self.workload.hyperparameters,
        )
        self.optimizer.placement()  # allocate now, not in the first step
        self.device = device_for(self.workload.device)

    def step(self) -> None:
        self.optimizer.step()

    def finish(self) -> None:
        self.optimizer.synchronize()
        super().finish()

    def facts(self) -> dict[str, Any]:
        placement = self.optimizer.placement()
        return {
            "host_state_bytes": placement.host_state_bytes,
            "device_staging_bytes": placement.device_staging_bytes,
            "update": placement.update,
            "host_threads": placement.host_threads,
            "host_isa": placement.host_isa,
        }


class Megatron(Contender):
    """Megatron-Core's class, built as Megatron-Core builds it."""

    def __init__(
        self, overlap: bool, peers: Path, workload: Workload, gradients: list[torch.Tensor]
    ) -> None:
        self.overlap = overlap
        self.peers = peers
        self.name = f"Megatron HDO, overlap {'on' if overlap else 'off'}"
        super().__init__(workload, gradients)

    def set_up(self) -> None:
        module = load_file(self.peers / "hybrid_optimizer.py")
        self.optimizer = module.HybridDeviceOptimizer(
            self.params,
            offload_fraction=1.0,
            cpu_optimizer_cls=torch.optim.AdamW,
            gpu_optimizer_cls=torch.optim.AdamW,
            param_update_in_fp32=True,
            overlap_cpu_optimizer_d2h_h2d=self.overlap,
            fused=True,
            **self.workload.hyperparameters,
        )

    def step(self) -> None:
        self.optimizer.step()

    def facts(self) -> dict[str, Any]:
        return {"host_threads": torch.get_num_threads()}


class Torchao(Contender):
    name = "torchao CPUOffloadOptimizer"
    note = "gradients reach the host during backward, which is not timed; bf16 states"
    state_bits = "bf16 master and moments"

    def __init__(self, peers: Path, workload: Workload, gradients: list[torch.Tensor]) -> None:
        self.peers = peers
        super().__init__(workload, gradients)

    def set_up(self) -> None:
        utilities: Any = types.ModuleType("torchao.utils")
        utilities.get_available_devices = lambda: ["cpu", "cuda"]
        sys.modules.setdefault("torchao", types.ModuleType("torchao"))
        sys.modules.setdefault("torchao.utils", utilities)
        module = load_file(self.peers / "ao_cpu_offload.py")
        self.optimizer = module.CPUOffloadOptimizer(
            self.params, torch.optim.AdamW, **self.workload.hyperparameters
        )

    def prepare(self) -> None:
        # Its hooks run in backward; this one has the gradients that the others are given.
        self.optimizer.zero_grad()
        torch.autograd.backward(self.params, self.gradients)
        self.finish()

    def step(self) -> None:
        self.optimizer.step()

    def facts(self) -> dict[str, Any]:
        return {"host_threads": torch.get_num_threads()}


class HostKernel(Contender):
    """A host Adam between two copies: bf16 gradients out, fp32 update, bf16 parameters back. What a
    user gets who calls the kernel in the plainest way; its host stage is timed by itself too."""

    def set_up(self) -> None:
        def pinned(like: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
            return torch.empty(like.shape, dtype=dtype, pin_memory=like.is_cuda)

        self.masters = [param.detach().float().cpu() for param in self.params]
        self.wide_gradients = [torch.empty_like(master) for master in self.masters]
        self.narrow_gradients = [pinned(p, torch.bfloat16) for p in self.params]
        self.narrow_params = [pinned(p, torch.bfloat16) for p in self.params]
        self.host_stage_s: list[float] = []
        self.set_up_kernel()

    @abstractmethod
    def set_up_kernel(self) -> None: ...

    @abstractmethod
    def run_kernel(self) -> None:
        """Updates `masters` from `wide_gradients`."""

    @torch.no_grad()
    def step(self) -> None:
        for host, gradient in zip(self.narrow_gradients, self.gradients):
            host.copy_(gradient, non_blocking=True)
        super().finish()
        begin = time.perf_counter()
        for wide, narrow in zip(self.wide_gradients, self.narrow_gradients):
            wide.copy_(narrow)
        self.run_kernel()
        for narrow, master in zip(self.narrow_params, self.masters):
            narrow.copy_(master)
        self.host_stage_s.append(time.perf_counter() - begin)
        for param, narrow in zip(self.params, self.narrow_params):
            param.copy_(narrow, non_blocking=True)

    def facts(self) -> dict[str, Any]:
        return {
            "host_stage_s": sorted(self.host_stage_s)[len(self.host_stage_s) // 2],
            "host_threads": torch.get_num_threads(),
        }


class LibtorchFused(HostKernel):
    name = "libtorch fused AdamW on the host, and casts"

    def set_up_kernel(self) -> None:
        for master, gradient in zip(self.masters, self.wide_gradients):
            master.requires_grad_()
            master.grad = gradient
        self.optimizer = torch.optim.AdamW(
            self.masters, fused=True, **self.workload.hyperparameters
        )

    def run_kernel(self) -> None:
        self.optimizer.step()


class DeepSpeedKernel(HostKernel):
    name = "DeepSpeed CPU Adam kernel, and casts"

    def __init__(self, peers: Path, workload: Workload, gradients: list[torch.Tensor]) -> None:
        self.peers = peers
        super().__init__(workload, gradients)

    def set_up_kernel(self) -> None:
        self.kernel = build_deepspeed(self.peers)
        w = self.workload
        self.kernel.create_adam(0, w.lr, *w.betas, w.eps, w.weight_decay, True, False)
        self.moments = [
            (torch.zeros_like(master), torch.zeros_like(master)) for master in self.masters
        ]
        self.count = 0

    def run_kernel(self) -> None:
        w = self.workload
        self.count += 1
        for master, gradient, (first, second) in zip(
            self.masters, self.wide_gradients, self.moments
        ):
            self.kernel.adam_update(
                0, self.count, w.lr, *w.betas, w.eps, w.weight_decay, True,
                master, gradient, first, second,
            )


def load_file(path: Path) -> types.ModuleType:
    """A peer's own file as a module."""
    if not path.exists():
        raise MissingPeer(f"{path} is not there")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build_deepspeed(peers: Path) -> Any:
    """Its kernel, compiled for this machine as its own build does."""
    source = peers / "ds" / "csrc"
    if not source.exists():
        raise MissingPeer(f"{source} is not there")
    from torch.utils.cpp_extension import load

    flags = ["-O3", "-std=c++20", "-fopenmp", "-march=native", "-D__DISABLE_CUDA__"]
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags.append("-D__AVX512__" if "avx512f" in file.read() else "-D__AVX256__")
    return load(
        "deepspeed_cpu_adam",
        [str(source / "adam" / name) for name in ("cpu_adam.cpp", "cpu_adam_impl.cpp")],
        extra_include_paths=[str(source / "includes")],
        extra_cflags=flags,
    )


Builder = Callable[[Workload, list[torch.Tensor]], Contender]


def ours(updates: list[str], master: str) -> list[Builder]:
    return [
        lambda workload, gradients, update=update: Spillway(update, master, workload, gradients)
        for update in updates
    ]


def peers(folder: Path) -> dict[str, Builder]:
    return {
        "megatron": lambda w, g: Megatron(False, folder, w, g),
        "megatron-overlap": lambda w, g: Megatron(True, folder, w, g),
        "libtorch": LibtorchFused,
        "torchao": lambda w, g: Torchao(folder, w, g),
        "deepspeed": lambda w, g: DeepSpeedKernel(folder, w, g),
    }
