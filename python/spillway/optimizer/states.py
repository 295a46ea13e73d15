"""``optimizer.state`` and friends as views of states that live in the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Callable

import torch

from spillway.optimizer.store import LazyStore, State


class _Lent:
    """A parameter's states as they were given out, to find out what was changed."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.master: torch.Tensor | None = None
        self.settle()

    def _fingerprint(self) -> dict[str, tuple[int, int]]:
        return {key: (id(value), _version(value)) for key, value in self.state.items()}

    def lend_master(self, master: torch.Tensor) -> None:
        self.master = master
        self._master_before = _version(master)

    @property
    def state_changed(self) -> bool:
        return self._fingerprint() != self._state_before

    @property
    def master_changed(self) -> bool:
        return _version(self.master) != self._master_before

    def settle(self) -> None:
        """What there is now counts as unchanged."""
        self._state_before = self._fingerprint()
        self._master_before = _version(self.master)


def _version(value: object) -> int:
    return value._version if isinstance(value, torch.Tensor) else 0


class StateLedger:
    """Lends copies of states out, and writes back what was changed.

    Between two steps, the same parameter always gives the same dictionary, so that a change made
    through ``optimizer.state`` shows in a ``state_dict()`` taken before. A step ends that: what was
    lent stays as it is, a snapshot.
    """

    def __init__(self, store: LazyStore) -> None:
        self._store = store
        self._lent: dict[torch.Tensor, _Lent] = {}

    def state(self, param: torch.Tensor) -> State:
        return self._entry(param).state

    def master(self, param: torch.Tensor) -> torch.Tensor:
        entry = self._entry(param)
        if entry.master is None:
            master = entry.state.get("master_param")
            entry.lend_master(self._store().read_master(param) if master is None else master)
        assert entry.master is not None
        return entry.master

    def replace(self, param: torch.Tensor, state: State) -> None:
        self._store().write_state(param, state)
        self._lent[param] = _Lent(state)

    def _entry(self, param: torch.Tensor) -> _Lent:
        if param not in self._lent:
            self._lent[param] = _Lent(self._store().read_state(param))
        return self._lent[param]

    def write_back(self) -> None:
        """Gives the store what was changed in lent states: replaced, or modified in place."""
        for param, entry in self._lent.items():
            if entry.state_changed:
                self._store().write_state(param, entry.state)
            if entry.master_changed and entry.master is not None:
                self._store().write_master(param, entry.master)
            entry.settle()

    def recall(self) -> None:
        """Writes changes back and forgets all that was lent; a step follows."""
        if self._lent:
            self.write_back()
            self._lent.clear()

    def forget(self) -> None:
        """Forgets all that was lent, changes included."""
        self._lent.clear()


class StateMapping(MutableMapping[torch.Tensor, State]):
    """Parameter to its states. Values are copied out of the engine when they are asked for."""

    def __init__(
        self,
        store: LazyStore,
        ledger: StateLedger,
        only: Callable[[torch.Tensor], bool] = lambda _: True,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._only = only

    def __getitem__(self, param: torch.Tensor) -> State:
        return self._ledger.state(param)

    def __setitem__(self, param: torch.Tensor, state: State) -> None:
        self._ledger.replace(param, state)

    def __delitem__(self, param: torch.Tensor) -> None:
        self._store().clear_state(param)
        self._ledger.replace(param, {})

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (param for param in self._store.parameters_with_state() if self._only(param))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, param: object) -> bool:
        return any(param is other for other in self)

    def __repr__(self) -> str:
        return f"<states of {len(self)} parameters>"


class MasterMapping(Mapping[torch.Tensor, torch.Tensor]):
    """Parameter to its fp32 master, for those that are not fp32 themselves."""

    def __init__(
        self, parameters: Callable[[], list[torch.Tensor]], ledger: StateLedger
    ) -> None:
        self._parameters = parameters
        self._ledger = ledger

    def __getitem__(self, param: torch.Tensor) -> torch.Tensor:
        if param not in self:
            raise KeyError(param)
        return self._ledger.master(param)

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(self._parameters())

    def __len__(self) -> int:
        return len(self._parameters())

    def __contains__(self, param: object) -> bool:
        return any(param is other for other in self._parameters())
