"""The update that goes on under the next forward."""

import pytest
import torch

from support import Placed, assert_same_bits


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(11, 16)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(4))
        self.head = torch.nn.Linear(16, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.head(x)


def train(
    model: Model, optimizer: torch.optim.Optimizer, set_to_none: bool, steps: int = 5
) -> None:
    for seed in range(steps):
        optimizer.zero_grad(set_to_none=set_to_none)
        tokens = torch.randint(11, (6,), generator=torch.Generator().manual_seed(seed))
        torch.nn.functional.cross_entropy(model(tokens), tokens.flip(0)).backward()
        optimizer.step()


@pytest.mark.parametrize("set_to_none", [True, False])
def test_overlapped_training_has_the_same_bits(placed: Placed, set_to_none: bool) -> None:
    plain, overlapped = Model(), Model()
    train(plain, placed.optimizer(plain.parameters(), lr=0.01), set_to_none)
    optimizer = placed.optimizer(overlapped.parameters(), lr=0.01).overlap_with_forward(overlapped)
    train(overlapped, optimizer, set_to_none)
    optimizer.synchronize()
    assert_same_bits(overlapped.parameters(), plain.parameters())


def test_a_state_dict_of_the_model_waits_for_the_update(placed: Placed) -> None:
    plain, overlapped = Model(), Model()
    train(plain, placed.optimizer(plain.parameters(), lr=0.01), True)
    optimizer = placed.optimizer(overlapped.parameters(), lr=0.01).overlap_with_forward(overlapped)
    train(overlapped, optimizer, True)
    assert_same_bits(overlapped.state_dict().values(), plain.state_dict().values())


def test_states_read_after_a_step_are_those_of_the_step(placed: Placed) -> None:
    plain, overlapped = Model(), Model()
    reference = placed.optimizer(plain.parameters(), lr=0.01)
    train(plain, reference, True)
    optimizer = placed.optimizer(overlapped.parameters(), lr=0.01).overlap_with_forward(overlapped)
    train(overlapped, optimizer, True)
    for one, other in zip(overlapped.parameters(), plain.parameters()):
        assert_same_bits(
            [optimizer.state[one]["exp_avg"]], [reference.state[other]["exp_avg"]]
        )


def test_each_block_waits_for_its_own_layer_only(placed: Placed) -> None:
    model = Model()
    optimizer = placed.optimizer(model.parameters(), lr=0.01).overlap_with_forward(model)
    train(model, optimizer, True, steps=1)
    waited = []
    store = optimizer._lazy()
    wait = store.wait_for_layer
    store.wait_for_layer = lambda layer: (waited.append(layer), wait(layer))
    model(torch.arange(3))
    assert waited == [0, 1, 2, 3, 4]
    model(torch.arange(3))
    assert waited == [0, 1, 2, 3, 4]


def test_overlap_after_the_first_step_is_refused() -> None:
    model = Model()
    optimizer = Placed(1.0, "auto").optimizer(model.parameters())
    optimizer.placement()
    with pytest.raises(RuntimeError, match="before the first step"):
        optimizer.overlap_with_forward(model)
