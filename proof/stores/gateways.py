"""The last step of a call before a store that is more than memory: a lock or a quorum.

Each process has one gateway, between the faults of its connection and the store itself.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from functools import partial
from typing import Any, cast
from uuid import UUID

from holdfast._core.answers import Capabilities
from holdfast._core.job import Token
from holdfast._ports.limits import Lanes, Limits
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
)
from holdfast._ports.wire import READS
from holdfast._ports.workflows import DependentJobs, GrowingWorkflows, Workflows
from holdfast.stores.memory import MemoryStore

PROTOCOLS = (
    *(Ownership, Reading, Operating, Administration, Selectors, QueueVerbs, Republishing, RescueHooks, Scheduling),
    *(Lanes, Limits, Prefetching, Steps, Workflows, GrowingWorkflows, DependentJobs),
)
VERBS = tuple(name for each in PROTOCOLS for name, member in vars(each).items() if inspect.iscoroutinefunction(member))
Ask = Callable[[], Awaitable[Any]]
Carry = Callable[[Coroutine[Any, Any, Any]], "asyncio.Task[Any]"]


class Gateway:
    """A gateway that passes every call on unchanged. ``introduce`` names the next caller to the store."""

    def __init__(self, store: Store, introduce: Callable[[], None]) -> None:
        self._store = store
        self._introduce = introduce

    @property
    def capabilities(self) -> Capabilities:
        return self._store.capabilities

    def transaction(
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AbstractAsyncContextManager[Any]:
        return cast(CallerTransactions, self._store).transaction(job, token, idle=idle, hook_due_at=hook_due_at)

    def transaction_within(
        self, connection: Any, job: UUID, token: Token, *, idle: float
    ) -> AbstractAsyncContextManager[Any] | AbstractContextManager[Any]:
        """Open a block on the handler's own connection, which does not pass through here."""
        return cast(OwnConnections, self._store).transaction_within(connection, job, token, idle=idle)

    def write(self, verb: str, arguments: tuple[Any, ...], ask: Ask) -> Awaitable[Any]:
        """Carry out a verb that may change something."""
        del verb, arguments
        return ask()

    def _ask(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Awaitable[Any]:
        self._introduce()
        asked: Awaitable[Any] = getattr(self._store, verb)(*arguments, **keywords)
        return asked


def _verb(name: str) -> Callable[..., Awaitable[Any]]:
    # Not coroutines: each one would be resumed between the caller and the store whenever the call waits.
    def read(self: Gateway, *arguments: Any, **keywords: Any) -> Awaitable[Any]:
        return self._ask(name, arguments, keywords)

    def write(self: Gateway, *arguments: Any, **keywords: Any) -> Awaitable[Any]:
        return self.write(name, arguments, partial(self._ask, name, arguments, keywords))

    return read if name in READS else write


for _name in VERBS:
    setattr(Gateway, _name, _verb(_name))


def as_store(gateway: Gateway | MemoryStore) -> Store:
    """Return the gateway, typed as a store."""
    return cast(Store, gateway)
