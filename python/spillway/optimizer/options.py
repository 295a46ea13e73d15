"""What can be asked of the engine beyond Megatron-Core's arguments, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineOptions:
    """Settings of Spillway's own; all have defaults that fit."""

    offload_update: str = "auto"
    """Where offloaded states are updated: ``"host"``, ``"stream"`` (on the GPU, states travel) or
    ``"auto"`` (shared between both by measured rates). The result has the same bits."""
    master_format: str = "fp32"
    """How the fp32 master of a bf16 parameter is kept: ``"fp32"`` (4 bytes) or ``"remainder"`` (the
    lower 16 bits beside the parameter, 2 bytes). Both are exact."""
    exp_avg_dtype: str = "fp32"
    """Stored dtype of the first moment: ``"fp32"`` or ``"bf16"``."""
    exp_avg_sq_dtype: str = "fp32"
    """Stored dtype of the second moment."""
    host_threads: int = 0
    """Threads of the host update; 0: from the cores that this rank may use, whatever
    ``OMP_NUM_THREADS`` says."""
    host_isa: str = "auto"
    """Form of the host kernel: ``"auto"``, ``"scalar"``, ``"avx2"`` or ``"avx512"``."""
    chunk_bytes: int = 16 << 20
    """Bytes of states in one chunk of the pipeline."""
    ring_slots: int = 4
    """Chunks in flight."""
    use_torch_optimizer: bool = False
    """Use the given classes as they are instead of the engine, as for classes that it does not
    know. Slower, and only whole parameters are offloaded."""


@dataclass(frozen=True)
class Placement:
    """Where the states are. Bytes of the steady state."""

    engine: str
    """What updates: ``"spillway"`` or the names of the classes given."""
    num_elements: int
    num_offloaded_elements: int
    device_state_bytes: int
    host_state_bytes: int
    device_staging_bytes: int
    host_staging_bytes: int
    update: str
    """The update in force, as ``"host"``, ``"stream"`` or ``"auto (62 % host)"``."""
    host_isa: str
    host_threads: int

    @property
    def offload_fraction(self) -> float:
        """The share of the elements whose states are in host memory, as it came out."""
        return self.num_offloaded_elements / self.num_elements if self.num_elements else 0.0
