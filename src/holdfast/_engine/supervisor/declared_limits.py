"""The limits and settings of queues in the code of a supervisor's workers: it stores those that are new in the store.

It does so before it grants a lease, so that no job of a new worker starts without its limit, and once a minute: an operator may
have cleared a value, or the last worker that declares another one may have ended. Code never removes any.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import structs

from holdfast._core.declared import Declared, DeclaredLimit, DeclaredQueue
from holdfast._core.limits import Scope
from holdfast._core.requests import QueueSettings
from holdfast._engine.store_defaults import lanes, limits, offers
from holdfast._engine.supervisor.scheduler import DECLARING, declared_by
from holdfast._ports.limits import Lanes, Limits
from holdfast._ports.store import Store

Step = Callable[[], Coroutine[Any, Any, float]]


class DeclaredLimits:
    """The declarations of all workers of a supervisor. ``repeat`` starts a service of this step; it is called for the first ones."""

    def __init__(self, store: Store, repeat: Callable[[Step], None]) -> None:
        self._store, self._repeat = store, repeat
        self._limits: dict[Scope, DeclaredLimit] = {}
        self._queues: dict[str, DeclaredQueue] = {}
        self._is_repeated = False

    async def declare(self, declared: Declared) -> None:
        """Store what is new in the code of a worker that starts, and go on with it."""
        if not declared:
            return
        self._limits |= {each.scope: each for each in declared.limits}
        self._queues |= {each.name: each for each in declared.queues}
        await self.step()
        if not self._is_repeated:
            self._is_repeated = True
            self._repeat(self.step)

    async def step(self) -> float:
        """Store what is new of all declarations; return the seconds until the next look. A worker refuses what its store cannot keep."""
        living = declared_by(await self._store.workers())
        if self._limits and offers(self._store, Limits):
            await self._store_limits(living)
        if self._queues and offers(self._store, Lanes):
            await self._store_queues(living)
        return DECLARING

    async def _store_limits(self, living: frozenset[str]) -> None:
        verbs = limits(self._store)
        present = {view.scope: view for view in await verbs.limits()}
        for scope, declared in self._limits.items():
            origin = declared.origin_over(present.get(scope), living)
            if origin is not None:
                await verbs.set_limit(scope, declared.limit, origin)

    async def _store_queues(self, living: frozenset[str]) -> None:
        verbs = lanes(self._store)
        present = {queue.name: queue.settings for queue in await self._store.queues(most=0)}
        for name, declared in self._queues.items():
            origin = declared.origin_over(present.get(name, QueueSettings()), living)
            if origin is not None:
                await verbs.set_queue(name, structs.replace(declared.settings, origin=origin))


async def store_declared(store: Store, declared: Declared) -> None:
    """Store the limits and queues of an App once."""
    await DeclaredLimits(store, lambda _: None).declare(declared)
