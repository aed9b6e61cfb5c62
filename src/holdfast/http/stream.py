"""What changed in a store, for all viewers of one process together: one look a second while there is a viewer, and none otherwise."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

from holdfast._core.answers import QueueView
from holdfast._core.job import State
from holdfast._core.queue_counts import MOST_COUNTED
from holdfast._core.requests import JobFilter
from holdfast._engine.client.client import Client
from holdfast._engine.service import Signal
from holdfast._ports.clock import Clock
from holdfast.errors import HoldfastError
from holdfast.http.resources import condition

TOPICS: Final = ("counts", "job", "queue", "worker")
EVERY: Final = 1.0
"""Seconds between two looks."""
SHARE: Final = 10
"""How many times its own length a look waits before the next: a store that answers slowly is asked less often."""
QUICK_COUNT: Final = 0.02
"""Seconds; a count of jobs that took longer is shown again for a while, because it reads each waiting job."""
COUNTING_SHARE: Final = 40
"""How many times its own length a count is shown."""
LONGEST_COUNT: Final = 10.0
"""The most seconds for that."""
KEPT: Final = 60.0
"""Seconds for which events are remembered, for viewers whose connection broke."""
MOST_WATCHED: Final = 2
"""The jobs that do not run and that one look reads; others have their turn in the next ones."""
MOST_RUNNING: Final = 100
MOST_VIEWERS: Final = 200
MOST_WAITING: Final = 1000
"""The events that wait for a slow connection; it reads everything again after more of them."""
LONGEST: Final = 15.0
"""Seconds after which a connection ends, and its viewer comes back: a server that stops waits for all of its connections."""
GAP: Final = b'event: gap\ndata: {"topic":"gap","names":[]}\n\n'
_encode = msgspec.json.Encoder().encode
Things = Mapping[str, object]


class Event(Struct, frozen=True):
    """A change. ``names``: the queues, workers or jobs that changed; a viewer reads them again."""

    id: str
    topic: str
    names: list[str]
    at: float

    def line(self) -> bytes:
        """Return it as a server-sent event."""
        data = _encode({"topic": self.topic, "names": self.names}).decode()
        return f"id: {self.id}\nevent: {self.topic}\ndata: {data}\n\n".encode()


class Viewer:
    """One connection, and the events that it has not been sent yet. ``job``: it is about this one only."""

    def __init__(self, topics: Collection[str], job: UUID | None = None) -> None:
        self.topics, self.job = frozenset(topics), job
        self.waiting, self.wake = deque[bytes](), Signal()
        self.is_new = False

    def reread(self) -> None:
        """Have the viewer read everything again: it may have missed changes."""
        self.waiting.clear()
        self.waiting.append(GAP)
        self.is_new = False
        self.wake.set()

    def wants(self, event: Event) -> bool:
        """Return whether the event is about what the viewer asked for."""
        return event.topic in self.topics and (self.job is None or str(self.job) in event.names)

    def take(self, event: Event) -> None:
        """Keep an event for the connection."""
        if len(self.waiting) >= MOST_WAITING:
            self.reread()
        self.waiting.append(event.line())
        self.wake.set()


class Stream:
    """Looks at the store for all viewers of a process, each time with at most six statements.

    ``connect`` returns the client of the event loop in which all viewers are. ``epoch`` distinguishes this process from earlier ones.
    """

    def __init__(self, connect: Callable[[], Client], clock: Callable[[], Clock], epoch: str) -> None:
        self._connect, self._clock, self._epoch = connect, clock, epoch
        self._viewers, self._recent = list[Viewer](), deque[Event]()
        self._seen: dict[str, Things] = {}
        self._running: Things = {}
        self._queues: Sequence[QueueView] | None = None
        self._newest: Sequence[UUID] = ()
        self._count: Sequence[QueueView] = ()
        self._count_until, self._forgotten = 0.0, 0
        self._looking: asyncio.Task[None] | None = None
        self._number, self._turn, self._is_closed = 0, 0, False

    @property
    def viewers(self) -> int:
        """The number of viewers."""
        return len(self._viewers)

    async def read(self, viewer: Viewer, last: str | None = None) -> AsyncIterator[bytes]:
        """Yield what a viewer is sent, until it goes. ``last``: the id of the event that it got last, over an earlier connection."""
        if self.viewers >= MOST_VIEWERS:  # many were accepted at the same moment
            return
        with self.viewing(viewer):
            yield b"retry: 500\n\n"
            until = self._clock().monotonic() + LONGEST
            self._catch_up(viewer, last)
            while not self._is_closed and (left := until - self._clock().monotonic()) > 0:
                while viewer.waiting:
                    yield viewer.waiting.popleft()
                await viewer.wake.wait(left)

    def close(self) -> None:
        """End all connections, so that the server can stop."""
        self._is_closed = True
        for viewer in self._viewers:
            viewer.wake.set()

    @contextmanager
    def viewing(self, viewer: Viewer) -> Iterator[None]:
        """Look at the store for this viewer, too, for the length of a block."""
        self._viewers.append(viewer)
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._run())
        try:
            yield
        finally:
            self._viewers.remove(viewer)

    @property
    def changes(self) -> int:
        """How many changes were seen so far: what was read before the latest one may be outdated."""
        return self._number

    async def queues(self) -> Sequence[QueueView]:
        """Return the queues as the latest look saw them; without a viewer, as they are now."""
        return await self.counted() if self._queues is None else self._queues

    async def counted(self) -> Sequence[QueueView]:
        """Return the queues as they are now, or as the latest count saw them, if that took long: beside very many waiting jobs."""
        began, forgotten = self._clock().monotonic(), self._forgotten
        if began < self._count_until:
            return self._count
        count = await self._connect().queues(MOST_COUNTED)
        if forgotten == self._forgotten:
            took = self._clock().monotonic() - began
            self._count, self._count_until = count, 0.0
            if took > QUICK_COUNT:
                self._count_until = began + min(COUNTING_SHARE * took, LONGEST_COUNT)
        return count

    def forget_count(self) -> None:
        """Have jobs counted again, because an action has changed something; a count that is under way may lack it."""
        self._forgotten += 1
        self._count_until, self._queues = 0.0, None

    async def look(self) -> None:
        """Compare the store with the look before, and send what changed. The first look has nothing to compare with."""
        client, forgotten = self._connect(), self._forgotten
        queues, workers = await self.counted(), await client.workers()
        records = await client.page(JobFilter(state=State.RUNNING, limit=MOST_RUNNING))
        running = {str(each.id): (each.state, each.attempt, each.fraction, each.stage) for each in records}
        if running == self._running and any(each.capped for each in queues):  # then others may have ended that no count shows
            self._newest = [each.id for each in await client.page(JobFilter(limit=1))]
        watched = await self._watched(client, running)
        stopped = {job: None for job in self._running if job not in running and job not in watched}
        known = {
            job: state for job, state in self._seen.get("job", {}).items() if job not in stopped and job not in self._running
        }
        self._queues = queues if forgotten == self._forgotten else None
        # From here on nothing is awaited: who reads a page for one of the changes reads it for all of them.
        self._compare("counts", {"": [*self._newest, *(sorted(each.counts.items()) for each in queues)]})
        self._compare("queue", {each.name: (each.paused_at, each.counts) for each in queues})
        self._compare("worker", {each.worker: (condition(each), each.holds, each.claimed) for each in workers})
        self._compare("job", {**known, **running, **watched})
        self._running = running
        new = [viewer for viewer in self._viewers if viewer.is_new]  # changes before this look are seen by no later one
        self._number += bool(new)
        for viewer in new:
            viewer.reread()

    async def _watched(self, client: Client, running: Things) -> dict[str, object]:
        """Return the watched jobs whose turn it is, of those that do not run."""
        watched = sorted({viewer.job for viewer in self._viewers if viewer.job is not None and str(viewer.job) not in running})
        start, found = self._turn % len(watched) if watched else 0, dict[str, object]()
        self._turn += MOST_WATCHED
        for job in (watched[start:] + watched[:start])[:MOST_WATCHED]:
            of = await client.ask("get", lambda store, job=job: store.get(job))  # type: ignore[misc]
            found[str(job)] = None if of is None else (of.state, of.attempt, of.fraction, of.stage)
        return found

    def _compare(self, topic: str, things: Things) -> None:
        before = self._seen.get(topic)
        self._seen[topic] = things
        if before is None:
            return
        changed = [name for name in {**before, **things} if before.get(name) != things.get(name)]
        if not changed:
            return
        self._number += 1
        event = Event(f"{self._epoch}-{self._number}", topic, changed, self._clock().monotonic())
        while self._recent and event.at - self._recent[0].at > KEPT:
            self._recent.popleft()
        self._recent.append(event)
        for viewer in self._viewers:
            if viewer.wants(event):
                viewer.take(event)

    def _catch_up(self, viewer: Viewer, last: str | None) -> None:
        """Give a viewer the events since its last one; without it, the viewer reads everything again once a look has been taken."""
        ids = [event.id for event in self._recent]
        if last in ids:
            for event in list(self._recent)[ids.index(last) + 1 :]:
                if viewer.wants(event):
                    viewer.take(event)
        elif self._seen:
            viewer.reread()
        else:
            viewer.is_new = True

    async def _run(self) -> None:
        """Look until the last viewer has gone."""
        pause = Signal()
        try:
            while self._viewers:
                began = self._clock().monotonic()
                try:
                    await self.look()
                except (HoldfastError, TimeoutError):  # the pages report it
                    self._queues = None
                await pause.wait(max(EVERY, SHARE * (self._clock().monotonic() - began)))
        finally:
            self._looking, self._seen, self._running, self._queues = None, {}, {}, None
            self._recent.clear()
