"""A store with only the required verbs keeps the contract: defaults replace the others, or refuse."""

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, cast

from holdfast._core.answers import Capabilities
from holdfast._engine import store_defaults
from holdfast._ports.own_connections import OwnConnections
from holdfast._ports.prefetching import Prefetching
from holdfast._ports.steps import Steps
from holdfast._ports.store import (
    Administration,
    CallerTransactions,
    Operating,
    Ownership,
    QueueVerbs,
    Reading,
    Republishing,
    RescueHooks,
    Scheduling,
    Selectors,
    Store,
    WorkerHistory,
)
from holdfast._ports.workflows import Workflows
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeClock
from holdfast.testing.contract import StoreContract


class RequiredVerbs:
    """The memory store without any optional verb."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    @property
    def capabilities(self) -> Capabilities:
        return self._store.capabilities


def _verb(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def ask(self: RequiredVerbs, *arguments: Any, **keywords: Any) -> Any:
        return await getattr(self._store, name)(*arguments, **keywords)

    return ask


for _protocol in (Ownership, Reading, Operating, Administration):
    for _name, _member in vars(_protocol).items():
        if inspect.iscoroutinefunction(_member):
            setattr(RequiredVerbs, _name, _verb(_name))


class TestRequiredVerbs(StoreContract):
    """Every handle is the same store."""

    store: MemoryStore | None = None

    def make_store(self, clock: FakeClock) -> Store:
        self.store = self.store or MemoryStore(clock)
        return cast(Store, RequiredVerbs(self.store))


def test_the_bare_store_has_no_optional_verb_and_the_memory_store_has_all_but_transactions() -> None:
    memory = MemoryStore(FakeClock())
    bare = RequiredVerbs(memory)
    known = (Selectors, QueueVerbs, Republishing, RescueHooks, Scheduling, WorkerHistory, Prefetching, Steps, Workflows)
    optional = (*known, CallerTransactions, OwnConnections)
    assert [store_defaults.offers(bare, each) for each in optional] == [False] * 11
    assert [store_defaults.offers(memory, each) for each in optional] == [*[True] * 9, False, False]
    assert not store_defaults.has_hooks(memory)
