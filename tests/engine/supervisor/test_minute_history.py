"""A supervisor writes what its workers did, once a minute and in one call."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from holdfast._core import lifecycle
from holdfast._core.history import Minute, MinuteNote
from holdfast._core.job import ActiveJob, RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.policy import Policy
from holdfast._core.tallies import Distribution, TallyDelta
from holdfast._engine import messages
from holdfast._engine.environment import Environment
from holdfast._engine.events import Events
from holdfast._engine.supervisor.minute_history import MinuteHistory
from holdfast._engine.supervisor.worker_handle import WorkerHandle
from holdfast.errors import StoreUnavailable
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance, FakeClock
from tests.engine.machines import MemoryChild, MemoryHost
from tests.engine.support import LEASE, MemoryTransport

JOB = ActiveJob(
    id=UUID(int=7),
    token=Token(UUID(int=1), 1),
    lease=UUID(int=2),
    task="t",
    state=State.RUNNING,
    attempt=1,
    failures=0,
    crashes=0,
    policy=Policy(),
)


def delta(number: int) -> TallyDelta:
    """Make what a worker has counted of that many attempts."""
    run, wait = Distribution({1: number}), Distribution({0: number})
    return TallyDelta(
        counts=((("attempts", "default", "t", "completed"), number), (("events", "worker.ready"), 1)),
        spreads=((("attempt_duration_seconds", "default", "t", "completed"), run), (("job_wait_seconds", "default", "t"), wait)),
    )


class Store(MemoryStore):
    """A store that counts calls of the history, and may be away."""

    is_away, calls = False, 0

    async def record_minutes(self, notes: Any) -> None:
        self.calls += 1
        if self.is_away:
            raise StoreUnavailable("away")
        await super().record_minutes(notes)


class Site:
    """A history with one worker of 10 slots, whose pong reports that 4 run."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = Store(self.clock)
        self.handle = WorkerHandle(MemoryChild(7), now=self.clock.monotonic, events=Events(), counted=self.counted)
        self.handle.lease_granted(LEASE, self.clock.monotonic())
        self.handle.handle(messages.Pong(self.clock.monotonic(), False, 4))
        self.live = [self.handle]
        self.history = MinuteHistory(lambda: self.live, MemoryHost())
        environment = Environment(self.store, MemoryTransport(), self.clock, FakeChance(), Events())
        assert self.history.begin(environment)

    def counted(self, worker: str, counts: TallyDelta) -> None:
        self.history.add(worker, counts)

    async def minutes(self, number: float) -> None:
        end = self.clock.monotonic() + 60.0 * number
        while self.clock.monotonic() < end:
            self.clock.advance(min(await self.history.step(), end - self.clock.monotonic()))

    async def rows(self) -> list[Minute]:
        now = datetime.fromtimestamp(self.clock.wall(), UTC)
        return [*reversed(await self.store.minutes(now - timedelta(days=1), now, 100))]

    async def notes(self) -> list[MinuteNote]:
        return [row.note for row in await self.rows()]


async def test_each_worker_has_one_row_a_minute_with_what_it_sent() -> None:
    site = Site()
    await site.minutes(2.2)
    site.handle.handle(messages.TalliesSent(delta(3)))
    site.handle.handle(messages.TalliesSent(delta(2)))
    await site.minutes(1)
    *idle, note = await site.notes()
    assert [each.tasks for each in idle] == [()] * 2
    assert (note.worker, note.slots, note.in_use) == (LEASE.worker, LEASE.slots, 4.0)
    assert 59.0 < note.seconds < 61.0
    (task,) = note.tasks
    assert (task.queue, task.task, task.outcomes, task.wait, task.run) == ("default", "t", {"completed": 5}, (5,), (0, 5))
    assert site.store.calls == 3


async def test_failed_attempts_that_did_not_finish_their_job_count_as_retried() -> None:
    site = Site()
    attempts = {"completed": 4, "failed": 5, "timed_out": 2, "snoozed": 1}
    counts = [(("attempts", "default", "t", outcome), number) for outcome, number in attempts.items()]
    finished = [("jobs_finished", "default", "t", "completed", ""), ("jobs_finished", "default", "t", "failed", "TIMED_OUT")]
    site.handle.handle(messages.TalliesSent(TallyDelta((*counts, *((each, 1) for each in finished)), ())))
    await site.history.close()
    (note,) = await site.notes()
    assert [task.retried for task in note.tasks] == [6]


async def test_what_a_killed_worker_did_is_kept_with_its_rescues() -> None:
    site = Site()
    site.handle.handle(messages.TalliesSent(delta(3)))
    site.live = []
    move = lifecycle.rescue(JOB, LeaseEnd(RescueReason.CRASHED, "SIGKILL"), jitter=0.0)
    site.history.rescued(JOB, move, LEASE.worker)
    site.history.rescued(JOB, move, "of another machine")
    await site.history.close()
    notes = {note.worker: note for note in await site.notes()}
    (own,), (other,) = (notes[worker].tasks for worker in (LEASE.worker, "of another machine"))
    assert (own.outcomes, own.rescued) == ({"completed": 3, "crashed": 1}, 1)
    assert (other.outcomes, other.rescued, notes[LEASE.worker].slots) == ({"crashed": 1}, 1, None)


async def test_a_write_that_fails_loses_that_minute_only() -> None:
    site = Site()
    site.handle.handle(messages.TalliesSent(delta(3)))
    site.store.is_away = True
    with pytest.raises(StoreUnavailable):
        await site.minutes(1.2)
    site.store.is_away = False
    site.handle.handle(messages.TalliesSent(delta(2)))
    await site.minutes(1)
    (note,) = await site.notes()
    assert note.tasks[0].outcomes == {"completed": 2}
    site.handle.handle(messages.TalliesSent(delta(1)))
    site.store.is_away = True
    await site.history.close()
