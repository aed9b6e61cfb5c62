"""What the primary shows of its clock and its settings. An insert evaluates nothing on the server, so its stamps are made here.

They come from an interval of the primary's clock: its time as read between two readings of the boot clock of this machine. It is kept
for ten seconds at most, and not after an election. Unless the read is current, another one begins beside the insert, and many enqueues
share it. If it shows that the clock was set, or that the priority of a queue has changed, then what was written is corrected.

The priority of a queue changes in two steps. The change is announced first, and made once no read from before is current any more. So no
enqueue that begins after the change is based on the old priority.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct, structs

from holdfast._core.job import NewJob
from holdfast._core.record import JobRecord, new_record
from holdfast._core.requests import QueueSettings
from holdfast._ports.clock import Clock
from holdfast._system.clock import loop_sleep
from holdfast.databases.mongo.database import MongoDatabase
from holdfast.stores.mongo.documents import date
from holdfast.stores.mongo.names import Names
from holdfast.stores.mongo.schema import missing

KEPT: Final = 10.0
"""Seconds for which an interval is used."""
ANNOUNCED: Final = 30.0
"""Seconds after the announcement of a change in which no read is current. The change itself takes fewer."""


class Interval(Struct, frozen=True):
    """Two times between which the clock of the primary is. ``when``: the boot clock of this machine then."""

    when: float
    earliest: datetime
    latest: datetime

    def agrees(self, other: "Interval") -> bool:
        """Return whether one clock can have shown both."""
        return self.earliest <= other.latest and other.earliest <= self.latest


class Shown(Struct, frozen=True):
    """A read of the primary. ``sent`` and ``received``: the boot clock before and after it. ``drift``: that of one clock from
    the other, in seconds per second. ``is_changing``: the change of a priority was announced."""

    at: datetime
    sent: float
    received: float
    term: int
    queues: Mapping[str, QueueSettings]
    drift: float
    is_changing: bool = False

    def time(self, when: float) -> Interval:
        """Return the time of the primary's clock at this time of the boot clock."""
        after, since = when - self.received, when - self.sent
        earliest = self.at + timedelta(seconds=after - abs(after) * self.drift)
        latest = self.at + timedelta(seconds=since + abs(since) * self.drift)
        return Interval(when, earliest.replace(microsecond=earliest.microsecond // 1000 * 1000), date(latest))

    def confirms(self, older: "Shown", time: Interval, jobs: Sequence[NewJob]) -> bool:
        """Return whether jobs that were written by an older read, at this time, are as they would be by this one."""
        is_one_clock = self.time(time.when).agrees(time)
        return is_one_clock and (self.queues is older.queues or all(self.more(each) == older.more(each) for each in jobs))

    def more(self, job: NewJob) -> int:
        """Return what the queue of a job adds to its priority."""
        chosen = self.queues.get(job.queue)
        return 0 if chosen is None else chosen.priority

    def new_row(self, job: NewJob, time: Interval) -> JobRecord:
        """Return the record of a new job. It is never due later than now, unless it was given a delay: then it is never due too early."""
        row, more = new_record(job, time.earliest), self.more(job)
        if job.delay or job.expires_in is not None:
            late = new_record(job, time.latest)
            due_at = late.available_at if job.delay else row.available_at
            row = structs.replace(row, available_at=due_at, expires_at=late.expires_at)
        return structs.replace(row, priority=row.priority + more) if more else row


class _Reads:
    """The reads of one event loop: one is under way, and one, which begins after it, has not begun."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.next: asyncio.Task[Shown] | None = None


class Primary:
    """Reads of the primary. Callers share those that begin after their calls. ``now``: returns the expression for its time."""

    drift: float = 0.001
    current: float = 0.1
    """Seconds for which a read is current."""

    def __init__(self, database: MongoDatabase, names: Names, clock: Clock, now: Callable[[], Any]) -> None:
        self._database, self._names, self._clock, self._now = database, names, clock, now
        self._newest: Shown | None = None
        self._decoded: tuple[list[Any], Mapping[str, QueueSettings]] = [], {}
        self._last: datetime | None = None
        self._reads = WeakKeyDictionary[asyncio.AbstractEventLoop, _Reads]()

    async def recent(self) -> Shown:
        """Return a read of the last ten seconds, from the primary of this term as far as it is known."""
        shown = self._newest
        if shown is None or shown.term != self._database.term or self._clock.boottime() - shown.sent > KEPT:
            shown = await self.read()
        return shown

    def is_current(self, shown: Shown) -> bool:
        """Return whether what was read still holds."""
        is_recent = self._clock.boottime() - shown.sent < self.current and not shown.is_changing
        return is_recent and shown.term == self._database.term

    async def announce(self, queue: str, priority: int) -> None:
        """Return once the priority of a queue may change; announce it unless it has that priority."""
        chosen = (await self.read()).queues.get(queue, QueueSettings())
        if chosen.priority != priority:
            until = {"$add": [self._now(), int(ANNOUNCED * 1000)]}
            statement = {"q": {"_id": "settings"}, "u": [{"$set": {"changing_until": until}}]}
            await self._database.write({"update": self._names.state, "updates": [statement]})
            await loop_sleep(self.current * 1.1)

    def read(self) -> asyncio.Future[Shown]:
        """Return a read that begins after this call."""
        reads = self._reads.setdefault(asyncio.get_running_loop(), _Reads())
        if reads.next is None:
            reads.next = asyncio.create_task(self._take_turn(reads))
            reads.next.add_done_callback(lambda read: read.cancelled() or read.exception())  # callers may have been cancelled
        return asyncio.shield(reads.next)

    def stamp(self, shown: Shown) -> Interval:
        """Return the time now. The earliest never goes back while the clock of the primary does not, so jobs stay in their order."""
        time = shown.time(self._clock.boottime())
        if self._last is not None and time.earliest < self._last <= time.latest:
            time = structs.replace(time, earliest=self._last)
        self._last = time.earliest
        return time

    async def _take_turn(self, reads: _Reads) -> Shown:
        async with reads.turn:
            reads.next = None
            self._newest = shown = await self._ask()
            return shown

    async def _ask(self) -> Shown:
        term, sent = self._database.term, self._clock.boottime()
        fields = {"queues": 1, "changing_until": 1, "now": self._now()}
        which = {"_id": "settings"}
        found = await self._database.find(self._names.state, which, concern="local", projection=fields, limit=1)
        received = self._clock.boottime()
        if not found:
            raise missing(self._database.location.public, self._names.state, "settings")
        at, texts, changing_until = found[0]["now"], found[0]["queues"], found[0].get("changing_until")
        if texts != self._decoded[0]:
            self._decoded = texts, {queue: msgspec.json.decode(text, type=QueueSettings) for queue, text in texts}
        is_changing = changing_until is not None and changing_until > at
        return Shown(at, sent, received, term, self._decoded[1], self.drift, is_changing)
