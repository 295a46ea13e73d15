"""Lets an optimizer's update go on under the model's next forward."""

from __future__ import annotations

from typing import Any

import torch

from spillway.optimizer.store import LazyStore

_LOOSE = 0
"""The layer of parameters outside every block; the whole forward waits for them."""


class ForwardOverlap:
    """Makes each block of a model wait for the update of its own parameters.

    Blocks are the members of the outermost ``ModuleList`` or ``Sequential`` modules. What is
    outside of them (embeddings, head) is waited for when forward begins, because it may be used
    from anywhere.
    """

    def __init__(self, model: torch.nn.Module, store: LazyStore) -> None:
        self._store = store
        self._pending: set[int] = set()
        blocks = _outermost_blocks(model)
        self.layers = _layers_of_parameters(model, blocks)
        self._num_layers = len(blocks) + 1
        _wait_before(model, self, _LOOSE)
        for layer, block in enumerate(blocks, start=1):
            _wait_before(block, self, layer)
        _settle_for_state_dict(model, self)

    def begin(self) -> None:
        """After a step: its update is under way."""
        self._pending = set(range(self._num_layers))

    def wait_for(self, layer: int) -> None:
        if layer in self._pending:
            self._store().wait_for_layer(layer)
            self._pending.discard(layer)

    def wait_for_all(self) -> None:
        for layer in sorted(self._pending):
            self.wait_for(layer)


def _outermost_blocks(model: torch.nn.Module) -> list[torch.nn.Module]:
    blocks: list[torch.nn.Module] = []
    for child in model.children():
        if isinstance(child, (torch.nn.ModuleList, torch.nn.Sequential)):
            blocks.extend(child)
        else:
            blocks.extend(_outermost_blocks(child))
    return blocks


def _layers_of_parameters(
    model: torch.nn.Module, blocks: list[torch.nn.Module]
) -> dict[torch.Tensor, int]:
    """The first place in forward that may use each parameter."""
    layers: dict[torch.Tensor, int] = {}
    inside: set[torch.nn.Module] = set()
    for layer, block in enumerate(blocks, start=1):
        inside.update(block.modules())
        for param in block.parameters():
            layers.setdefault(param, layer)
    for module in model.modules():
        if module not in inside:
            layers.update(dict.fromkeys(module.parameters(recurse=False), _LOOSE))
    return layers


def _wait_before(module: torch.nn.Module, overlap: ForwardOverlap, layer: int) -> None:
    def wait(_module: torch.nn.Module, _inputs: Any) -> None:
        overlap.wait_for(layer)

    module.register_forward_pre_hook(wait)


def _settle_for_state_dict(model: torch.nn.Module, overlap: ForwardOverlap) -> None:
    def settle(_module: torch.nn.Module, *_args: Any) -> None:
        overlap.wait_for_all()

    # The dictionary refers to the parameters' memory, so that waiting after it was made is enough.
    model._register_state_dict_hook(settle)
