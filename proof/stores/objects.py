"""Object storage: the real store in each process, all over one bucket, whose landed writes are the truth of the world."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import partial
from itertools import count
from random import Random
from typing import Any, Literal, TypeVar, cast
from uuid import UUID

from msgspec import structs

from holdfast._core.book.book import Book
from holdfast._core.book.content import Snapshot
from holdfast._core.bucket_url import BucketUrl
from holdfast._core.limits import Scope
from holdfast._ports.bucket import Absent, Found, Listed, Unchanged
from holdfast._ports.clock import Clock
from holdfast._ports.host import Exit
from holdfast._ports.store import Store
from holdfast.databases.buckets.memory_bucket import MemoryBucket
from holdfast.stores.objects.creation import create
from holdfast.stores.objects.head import KEY, read
from holdfast.stores.objects.replica import Replica
from holdfast.stores.objects.tidying import Sizes
from proof.checker.history import IN_MEMORY, Event, History, LeaseRow, Phase
from proof.simulator.call_outcomes import Faults
from proof.simulator.hosts import SimChance, SimClock
from proof.simulator.loop import Process, VirtualLoop
from proof.stores.broker_calls import BrokerCalls, Listener
from proof.stores.bucket_connection import BucketConnection
from proof.stores.bucket_stores import SimulatedObjects, SimulatedRoutes, VirtualThread
from proof.stores.recording_commits import Uncommitted, committed

_NUMBERS = count()
_RENEWING = ("open_lease", "beat")
_KILLED = Exit(signal="SIGKILL")
Result = TypeVar("Result")
BrokerOption = Literal["auto", "require"]


class BucketWorld:
    """The bucket of one world. ``sizes``: from which on a process flushes and archives. ``faults``: of each process, by its name.
    ``brokers``: how processes look for the broker that leads; ``None``: they do not. ``listeners``: the brokers by their URL."""

    clock_of: Callable[[str], SimClock]
    on_call: Callable[[Process, Sequence[Event]], None] = staticmethod(lambda process, events: None)
    caller = ""  # used by memory stores only: here each book knows its process

    def __init__(
        self,
        kind: type[Book],
        loop: VirtualLoop,
        clock: Clock,
        *,
        history: History,
        now: Callable[[], float],
        known: Collection[str],
        floor: float,
        records_claims: bool,
        sizes: Sizes,
        faults: dict[str, Faults],
        carry: Callable[[Process, Coroutine[Any, Any, Any]], "asyncio.Task[Any]"],
        brokers: BrokerOption | None = None,
    ) -> None:
        self.history, self.now = history, now
        self.clock = clock
        self._kind, self._loop, self._known = kind, loop, known
        self._floor, self._records_claims, self._sizes, self._faults, self._carry = floor, records_claims, sizes, faults, carry
        self._brokers, self.listeners = brokers, dict[str, Listener]()
        self._url = f"memory-object://world-{next(_NUMBERS)}" + (f"?broker={brokers}" if brokers else "")
        self._bucket = MemoryBucket(BucketUrl.of(self._url), clock)
        self._truth, self._version, self._epoch = Book(), 0, 0
        self._older = dict[str, Found]()
        self._renewed_at = dict[UUID, float]()
        self._stores = Counter[str]()
        at_once(create(self._bucket, UUID(int=1)))

    def reached_by(self, process: Process) -> Store:
        """Return the store of this process: its own book, clock and connections."""
        uncommitted, faults = Uncommitted(process.name, self.clock, self.now, self._known), self._faults[process.name]
        clock = self.clock_of(process.name)
        how: dict[str, Any] = {"carry": partial(self._carry, process), "crash": lambda: process.end(_KILLED)}
        connection = BucketConnection(
            self,
            self.clock,
            faults,
            changes=lambda: (*uncommitted.beats, *uncommitted.events),
            note=lambda events: self.on_call(process, events),
            **how,
        )
        new_book = committed(self._kind, uncommitted, floor=self._floor, records_claims=self._records_claims)
        # In small worlds too: there the first half of each id, of which a nonce is made, is the same in every stream.
        # A process may have several stores, such as that of an App in it: each needs other nonces.
        self._stores[process.title] += 1
        chance = SimChance(Random(f"{self._loop.seed}/store {self._stores[process.title]} of {process.title}"), clock)
        kept: dict[str, Any] = {
            "clock": clock,
            "chance": chance,
            "bucket": connection,
            "sizes": self._sizes,
            "new_book": new_book,
        }
        thread = VirtualThread(self._loop, process)
        if self._brokers is None:
            store = SimulatedObjects(self._url, **kept)
        else:
            calls = BrokerCalls(self.listeners, process, self.clock, faults, self.history, self.now, thread=thread, **how)
            store = SimulatedRoutes(self._url, connect=partial(calls.store, chance), **kept)
        store.place(thread, uncommitted, self._record)
        return cast(Store, store)

    # the bucket

    async def get(self, key: str, unless: str | None = None) -> Found | Absent | Unchanged:
        """Read an object as it is now."""
        return await self._bucket.get(key, unless)

    async def older(self, key: str, unless: str | None) -> Found | Absent | Unchanged:
        """Read an object as it was before its last write, if the reader knows the last one: no other could recognise it as stale."""
        found, older = await self._bucket.get(key), self._older.get(key)
        is_known = isinstance(found, Found) and found.etag == unless
        return older if older is not None and is_known else await self._bucket.get(key, unless)

    async def put(self, key: str, body: bytes, match: str | Absent | None, events: Sequence[Event]) -> str:
        """Write an object. A head that lands makes the events of its commit true."""
        before = await self._bucket.get(key)
        etag = await self._bucket.put(key, body, match)
        if isinstance(before, Found):
            self._older[key] = before
        if key == KEY:
            self._land(body, events)
        return etag

    async def delete(self, key: str) -> None:
        """Delete an object, for all processes."""
        await self._bucket.delete(key)

    async def below(self, folder: str = "") -> tuple[Listed, ...]:
        """Return all objects below a folder."""
        return await self._bucket.list(folder)

    def _land(self, body: bytes, events: Sequence[Event]) -> None:
        head = read(body)
        for commit in head.tail:
            if commit.version > self._version:
                self._truth.load(commit.rows())
        self._version = head.version
        if head.epoch != self._epoch:
            self._epoch = head.epoch
            self.history.add(Event(time=self.now(), process="bucket", what="epoch", phase=Phase.TRUTH, note=str(head.epoch)))
        self._record(events)

    def _record(self, events: Sequence[Event]) -> None:
        """Record what is true now. A beat in the memory of a leader is true since it was noted, and is recorded once."""
        for event in events:
            if not event.note.startswith(IN_MEMORY):
                self.history.add(self._stamped(event, self.now()))
            elif event.lease is not None and self._renewed_at.get(event.lease, event.time) < event.time:
                self.history.add(self._stamped(event, event.time))

    def _stamped(self, event: Event, renewed_at: float) -> Event:
        """Return the event at the present time; a lease stands since its last renewal."""
        now, lease = self.now(), event.lease
        if event.what != "lease" or lease is None:
            return structs.replace(event, time=now)
        before = self._overdue(event.before, now - self._renewed_at.get(lease, now))
        if event.by is not None and event.by.verb in _RENEWING:
            self._renewed_at[lease] = renewed_at
        after = self._overdue(event.after, now - self._renewed_at.get(lease, now))
        return structs.replace(event, time=now, before=before, after=after)

    @staticmethod
    def _overdue(row: Any, stood: float) -> Any:
        return structs.replace(row, overdue=stood - row.ttl) if isinstance(row, LeaseRow) else row

    # the world

    def snapshot(self) -> Snapshot:
        """Return all rows as the bucket has them."""
        return self._truth.snapshot()

    def ticking(self) -> list[str]:
        """Return the names of the schedules that are not paused."""
        return [name for name, kept in self.snapshot().schedules.items() if kept.schedule.paused_at is None]

    def limited(self) -> list[Scope]:
        """Return the scopes that have a limit."""
        return sorted(self.snapshot().limits)

    def lock(self, jobs: Sequence[UUID], *, is_exclusive: bool) -> Callable[[], None]:
        """Lock nothing: objects have no locks."""
        del jobs, is_exclusive
        return lambda: None

    def close_world(self) -> None:
        """Compare what a new process would load with all that was committed, and delete all objects."""
        fresh = Replica(self._bucket, self._url)
        at_once(fresh.look())
        loaded, true = ({(name, repr(key)): row for name, key, row in book.contents()} for book in (fresh.book, self._truth))
        if loaded != true:
            wrong = [key for key in {**loaded, **true} if loaded.get(key) != true.get(key)]
            self._loop.complaints.append(f"a process that starts now would load other rows than were committed: {wrong[:5]}")
        for each in at_once(self._bucket.list()):
            at_once(self._bucket.delete(each.key))


def at_once(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    raise AssertionError("it waits")
