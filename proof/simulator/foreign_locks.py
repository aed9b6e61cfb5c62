"""A foreign session in the same database, which locks rows, or the whole file, and keeps the lock for a while.

Holdfast knows neither its locks nor how long they last. A forgotten `SELECT … FOR KEY SHARE` is one.
"""

from collections.abc import Callable
from uuid import UUID

from msgspec import Struct

from holdfast._core.job import PLACE_OF, Place
from proof.checker.history import Event, Phase
from proof.search.decisions import Strike
from proof.simulator.world import World
from proof.stores.locked_rows import LockedRows
from proof.stores.recording_store import Witness
from proof.stores.statement_recorder import Mirror

OWNED = 0.7
"""The share of the locks that is on an owned job, if there is one."""


class _Lock(Struct):
    jobs: list[UUID]
    let_go: Callable[[], None]


class Strangers:
    """All foreign sessions of one world; at most one lock at a time is on a whole file."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._held: list[_Lock] = []

    def lock(self, strike: Strike) -> list[str]:
        """Lock a job's row for as long as the strike lasts, mostly one that is owned; of a file, lock all of it."""
        world, store = self._world, self._world.store
        has_locks = isinstance(store, Mirror) or (isinstance(store, Witness) and isinstance(store.book, LockedRows))
        if not has_locks or world.is_calm:
            return []
        known = store.snapshot().jobs
        owned = [job for job, row in known.items() if PLACE_OF[row.state] is Place.ACTIVE]
        # A claim skips the locked row of a waiting job; a locked row of an owned job keeps the owner from settling it.
        found, share = (owned, strike.pick / OWNED) if owned and strike.pick < OWNED else (list(known), strike.pick)
        jobs = [found[int(share * len(found))]] if found and strike.name == "lock_row" else []
        if (strike.name == "lock_row" and not jobs) or (strike.name == "lock_file" and self._held):
            return []
        held = _Lock(jobs, store.lock(jobs, is_exclusive=strike.is_refusing))
        self._held.append(held)
        self._write("row.lock", held)
        world.loop.call_later(strike.seconds, self._let_go, held, context=world.loop.outside)
        return [f"the row of job {job}" for job in jobs] or ["the file"]

    def leave(self) -> None:
        """Release all locks that are still in place."""
        for held in list(self._held):
            self._let_go(held)

    def _let_go(self, held: _Lock) -> None:
        if held in self._held and not self._world.is_over:
            self._held.remove(held)
            held.let_go()
            self._write("row.unlock", held)

    def _write(self, what: str, held: _Lock) -> None:
        for job in held.jobs:
            event = Event(time=self._world.now(), process="a stranger", what=what, phase=Phase.LIFE, job=job)
            self._world.history.add(event)
