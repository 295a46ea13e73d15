"""Moves what layers save for their backward to host memory, and back in time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from spillway import _core
from spillway._devices import current_stream, device_for


def offload_activations(
    model_or_layers: torch.nn.Module | Sequence[torch.nn.Module],
    num_layers: int | None = None,
    *,
    double_buffering: bool = False,
    retain_pinned_buffers: bool = False,
    min_tensor_bytes: int = 1 << 20,
) -> ActivationOffload:
    """Offloads the activations of the first ``num_layers`` layers from now on.

    Args:
        model_or_layers: the layers in order, or a model: its longest ``ModuleList`` is taken.
        num_layers: how many, in [0, number of layers - 1]; the last layer's backward comes at once.
            Default: all but the last.
        double_buffering: the layer before is reloaded while a layer's backward computes.
        retain_pinned_buffers: keep page-locked memory between iterations.
        min_tensor_bytes: smaller tensors stay on the GPU.

    Gradients have the same bits as without. Parameters, tensors on other devices and tensor
    subclasses stay where they are. Works with frozen layers, adapters, gradient checkpointing (what
    a checkpoint saves is offloaded, what it computes again is not), several micro-batches in any
    order, and inside ``torch.compile``d models where the layers themselves are compiled.

    Returns a handle: ``remove()`` undoes it, and so does leaving a ``with`` block.
    """
    layers = _find_layers(model_or_layers)
    if num_layers is None:
        num_layers = len(layers) - 1
    if not 0 <= num_layers <= max(len(layers) - 1, 0):
        raise ValueError(
            f"num_layers is {num_layers}, and there are {len(layers)} layers; use a number from 0 "
            f"to {max(len(layers) - 1, 0)}."
        )
    return ActivationOffload(
        layers,
        num_layers,
        double_buffering=double_buffering,
        retain_pinned_buffers=retain_pinned_buffers,
        min_tensor_bytes=min_tensor_bytes,
    )


class ActivationOffload:
    """What :func:`offload_activations` returns; alive until :meth:`remove`."""

    def __init__(
        self,
        layers: Sequence[torch.nn.Module],
        num_layers: int,
        *,
        double_buffering: bool,
        retain_pinned_buffers: bool,
        min_tensor_bytes: int,
    ) -> None:
        self._min_tensor_bytes = min_tensor_bytes
        self._make_engine = lambda device: _core.ActivationOffloader(
            device=device_for(device),
            cuda_index=(device.index or 0) if device.type == "cuda" else -1,
            num_layers=num_layers,
            double_buffering=double_buffering,
            retain_pinned_buffers=retain_pinned_buffers,
            min_tensor_bytes=min_tensor_bytes,
        )
        self._run: _Run | None = None
        # One more than move: a layer's device memory is released when the layer after it has run.
        watched = layers[: num_layers + 1] if num_layers > 0 else []
        self._restore = [
            _wrap_forward(layer, self, index, moves=index < num_layers)
            for index, layer in enumerate(watched)
        ]

    def __enter__(self) -> ActivationOffload:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Layers save their activations as before. Graphs that are alive stay usable."""
        for restore in self._restore:
            restore()
        self._restore = []

    def stats(self) -> dict[str, int]:
        """Bytes moved and held since :meth:`reset_stats`; empty before the first forward."""
        return self._run.engine.stats() if self._run is not None else {}

    def reset_stats(self) -> None:
        if self._run is not None:
            self._run.engine.reset_stats()

    def run_for(self, layer: torch.nn.Module, args: tuple[Any, ...]) -> _Run:
        """The engine of the device that the layers compute on."""
        if self._run is None:
            device = _device_of(layer, args)
            self._run = _Run(device, self._make_engine(device), self._min_tensor_bytes)
        return self._run


class _Run:
    """One device's engine, and where forward and backward are. Forward runs in the caller's thread,
    backward in autograd's, never both at once."""

    def __init__(
        self, device: torch.device, engine: _core.ActivationOffloader, min_tensor_bytes: int
    ) -> None:
        self.device = device
        self.engine = engine
        self._min_tensor_bytes = min_tensor_bytes
        self._micro_batch = -1
        self._last_layer = -1
        self._place = (0, 0)
        self._parameters: set[int] = set()
        self._packed: list[tuple[torch.Tensor, int]] = []
        self._backward: tuple[int, int] | None = None
        self._alive = 0
        self._count_lock = threading.Lock()

    # Forward.

    def begin(self, layer: torch.nn.Module, index: int) -> None:
        if self._micro_batch < 0 or index <= self._last_layer:
            self._micro_batch += 1
        self._last_layer = index
        self._place = (self._micro_batch, index)
        self._parameters = {_storage_of(p).data_ptr() for p in layer.parameters() if p.is_leaf}
        self.engine.begin_layer(*self._place, current_stream(self.device))

    def end(self) -> None:
        changed = [t for t, version in self._packed if t._version != version]
        self._packed.clear()
        self.engine.end_layer(*self._place, current_stream(self.device))
        if changed:
            raise RuntimeError(
                f"A tensor of shape {tuple(changed[0].shape)} was saved for backward and then "
                "modified by an in-place operation of the same layer. Use the operation that "
                "returns a new tensor."
            )

    def pack(self, tensor: torch.Tensor) -> Any:
        if not self._moves(tensor):
            return tensor
        storage = _storage_of(tensor)
        kept = tensor.detach()
        self._packed.append((kept, kept._version))
        ticket = self.engine.offload(
            storage.data_ptr(),
            storage.nbytes(),
            kept,
            kept._version,
            current_stream(self.device),
        )
        return _Saved(self, self._place, ticket, tensor)

    def _moves(self, tensor: torch.Tensor) -> bool:
        if type(tensor) is not torch.Tensor or tensor.layout is not torch.strided:
            return False
        if tensor.device != self.device or tensor.is_conj() or tensor.is_neg():
            return False
        storage = _storage_of(tensor)
        return (
            storage.nbytes() >= max(self._min_tensor_bytes, 1)
            and storage.nbytes() % tensor.element_size() == 0
            and storage.data_ptr() not in self._parameters
        )

    # Backward.

    def fetch(self, saved: _Saved) -> torch.Tensor:
        stream = current_stream(self.device)
        if self._backward != saved.place:
            if self._backward is None:
                engine: Any = torch.autograd.Variable._execution_engine
                engine.queue_callback(self._finish_backward)
            else:
                self.engine.end_backward(*self._backward, stream)
            self._backward = saved.place
            self.engine.begin_backward(*saved.place, stream)
        capsule = self.engine.fetch(saved.ticket, stream)
        as_bytes: torch.Tensor = torch.utils.dlpack.from_dlpack(capsule)
        return as_bytes.view(saved.dtype).as_strided(saved.size, saved.stride, saved.offset)

    def _finish_backward(self) -> None:
        stream = current_stream(self.device)
        if self._backward is not None:
            self.engine.end_backward(*self._backward, stream)
            self._backward = None
        if self._alive == 0:
            self.engine.end_iteration(stream)
            self._micro_batch = self._last_layer = -1

    @property
    def in_backward(self) -> bool:
        task = getattr(torch._C, "_current_graph_task_id", None)
        return self._backward is not None or (task is not None and task() != -1)

    def count(self, change: int) -> None:
        with self._count_lock:
            self._alive += change


class _Saved:
    """What autograd keeps in place of a tensor."""

    __slots__ = ("_run", "dtype", "offset", "place", "size", "stride", "ticket")

    def __init__(
        self, run: _Run, place: tuple[int, int], ticket: _core.Ticket, tensor: torch.Tensor
    ) -> None:
        self._run = run
        self.place = place
        self.ticket = ticket
        self.dtype = tensor.dtype
        self.size = tensor.size()
        self.stride = tensor.stride()
        self.offset = tensor.storage_offset()
        run.count(1)

    def unpack(self) -> torch.Tensor:
        return self._run.fetch(self)

    def __del__(self) -> None:
        self._run.count(-1)


def _unpack(saved: Any) -> torch.Tensor:
    return saved.unpack() if isinstance(saved, _Saved) else saved


def _wrap_forward(
    layer: torch.nn.Module, offload: ActivationOffload, index: int, *, moves: bool
) -> Callable[[], None]:
    """Runs the layer's forward under hooks; returns a function that undoes it."""
    original = layer.forward
    was_own = "forward" in vars(layer)

    def forward(*args: Any, **kwargs: Any) -> Any:
        run = offload.run_for(layer, args)
        # What a checkpoint computes again in backward is used at once.
        if not torch.is_grad_enabled() or run.in_backward:
            return original(*args, **kwargs)
        run.begin(layer, index)
        try:
            if not moves:
                return original(*args, **kwargs)
            with saved_tensors_hooks(run.pack, _unpack):
                return original(*args, **kwargs)
        finally:
            run.end()

    def restore() -> None:
        if was_own:
            layer.forward = original
        else:
            del layer.forward

    layer.forward = _outside_compiler(forward)
    return restore


def _outside_compiler(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps the hooks out of compiled code; the layer inside is compiled as before."""
    dynamo = getattr(torch, "_dynamo", None)
    if dynamo is None:
        return function
    wrapped: Callable[..., Any] = dynamo.disable(function, recursive=False)
    return wrapped


def _find_layers(
    model_or_layers: torch.nn.Module | Sequence[torch.nn.Module],
) -> list[torch.nn.Module]:
    if not isinstance(model_or_layers, torch.nn.Module):
        return list(model_or_layers)
    if isinstance(model_or_layers, torch.nn.ModuleList):
        return list(model_or_layers)
    lists = [m for m in model_or_layers.modules() if isinstance(m, torch.nn.ModuleList)]
    if not lists:
        raise ValueError(
            f"{type(model_or_layers).__name__} has no ModuleList to take layers from; pass the "
            "layers themselves, in order."
        )
    return list(max(lists, key=len))


def _device_of(layer: torch.nn.Module, args: tuple[Any, ...]) -> torch.device:
    for tensor in (*args, *layer.parameters()):
        if isinstance(tensor, torch.Tensor):
            return tensor.device
    return torch.device("cpu")


def _storage_of(tensor: torch.Tensor) -> Any:
    tensor = getattr(tensor, "_local_tensor", tensor)
    if hasattr(tensor, "untyped_storage"):
        return tensor.untyped_storage()
    return tensor.storage().untyped()  # PyTorch before 2.0
