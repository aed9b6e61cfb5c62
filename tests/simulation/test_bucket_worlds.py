"""Worlds whose jobs are in a bucket: the real store in each process, and the truth that follows from what landed."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any
from uuid import UUID

import pytest

from holdfast._core.book.book import Book
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import NewJob, RescueReason
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.policy import RETENTION_FLOOR, Policy
from holdfast._core.requests import NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._ports.store import Store
from holdfast.stores.objects.pieces import FULL
from holdfast.stores.objects.tidying import Sizes
from holdfast.stores.objects.wall_clock import EVERY, TOLERATED
from proof.checker.history import Event, History, LeaseRow
from proof.search.decisions import Mishap
from proof.simulator.call_outcomes import Fault, Faults, Luck, Mix
from proof.simulator.hosts import SimClock
from proof.simulator.loop import Process
from proof.simulator.profiles import Profile
from proof.simulator.simulation import Outcome, simulate
from proof.stores.objects import BucketWorld
from tests.simulation.broken_buckets import deletions_dropped
from tests.simulation.support import Stage, on_stage

TTL = 30.0
JOB, CALL = UUID(int=1), UUID(int=3)
LEASE = NewLease(UUID(int=9), "worker", ProcessIdentity("m", 1), LeaseTiming(TTL, 6.0, 5.0))
CRASH = LeaseEnd(RescueReason.EXPIRED)
SEEDS = range(4)


def new(job: UUID = JOB, delay: float = 0.0) -> NewJob:
    return NewJob(id=job, task="task", payload=b"{}", policy=Policy(), delay=delay)


class OneBucket:
    """A bucket, and processes with a store on it."""

    def __init__(self, stage: Stage, full: int) -> None:
        self.stage, self.history = stage, History()
        self.faults, self.clocks = dict[str, Faults](), dict[str, SimClock]()
        self.world = BucketWorld(
            Book,
            stage.loop,
            stage.clock,
            history=self.history,
            now=stage.loop.time,
            known=(),
            floor=RETENTION_FLOOR,
            records_claims=False,
            sizes=Sizes(full),
            faults=self.faults,
            carry=self._carry,
        )
        self.world.clock_of = lambda name: self.clocks.get(name, stage.clock)

    def store(self, title: str, *, clock: SimClock | None = None, puts: tuple[Fault, ...] = ()) -> Store:
        """Return the store of a new process, whose first writes meet these faults."""

        def script(verb: str, nth: int, call: int) -> tuple[Fault, Luck | None]:
            del call
            return (puts[nth - 1] if verb == "put" and nth <= len(puts) else Fault.NONE, None)

        process = self.stage.machine.process("client", title)
        self.faults[process.name] = Faults(Random(title), Mix(latency=0.01), script=script)
        if clock is not None:
            self.clocks[process.name] = clock
        return self.world.reached_by(process)

    def changes(self, what: str) -> list[Event]:
        """Return what became true of jobs, or of leases."""
        return [event for event in self.history if event.what == what]

    def _carry(self, process: Process, call: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        del process
        return self.stage.loop.create_task(call, context=self.stage.loop.outside.copy())


def on_bucket(play: Callable[[OneBucket], Awaitable[None]], *, full: int = FULL) -> list[str]:
    """Play on a bucket, and return what its world complains of in the end."""
    complaints = list[str]()

    async def run(stage: Stage) -> None:
        bucket = OneBucket(stage, full)
        await play(bucket)
        bucket.world.close_world()
        complaints.extend(stage.loop.complaints)

    on_stage(run)
    return complaints


def test_each_judge_times_a_lease_itself_and_the_history_times_it_truly() -> None:
    async def play(bucket: OneBucket) -> None:
        own, late, clock = bucket.store("own"), bucket.store("late"), bucket.stage.clock
        fast = bucket.store("fast", clock=SimClock(bucket.stage.loop, rate=2.0))
        await own.open_lease(LEASE)
        await clock.sleep(2 * TTL)
        (view,) = await late.workers()
        assert await late.end_lease(LEASE.id, CRASH, seen=view.seen) is None, "it was seen for the first time just now"
        assert await fast.expired(10) == ()
        await clock.sleep(TTL / 2 + 1)
        assert await late.end_lease(LEASE.id, CRASH, seen=view.seen) is None
        assert [each.id for each in await fast.expired(10)] == [LEASE.id]
        assert (await own.beat([LEASE.id])).elapsed is None
        assert await fast.expired(10) == (), "a beat is a change"
        await clock.sleep(TTL + 1)
        (view,) = await fast.expired(10)
        assert await fast.end_lease(LEASE.id, CRASH, seen=view.seen) == CRASH
        opened, beaten, ended = (event.after for event in bucket.changes("lease"))
        assert isinstance(opened, LeaseRow)
        assert isinstance(beaten, LeaseRow)
        assert isinstance(ended, LeaseRow)
        assert (opened.overdue, beaten.overdue) == (-TTL, -TTL)
        assert 0.9 < ended.overdue < 1.2

    assert on_bucket(play) == []


def test_writers_that_meet_compose_again_and_all_answers_come() -> None:
    async def play(bucket: OneBucket) -> None:
        stores = [bucket.store(f"client {number}") for number in range(4)]
        await asyncio.gather(*(store.enqueue(UUID(int=20 + n), [new(UUID(int=10 + n))]) for n, store in enumerate(stores)))
        assert len(bucket.world.snapshot().jobs) == len(bucket.changes("job")) == 4

    assert on_bucket(play) == []


@pytest.mark.parametrize(
    "fault", [Fault.LATE, Fault.ANSWER_LOST, Fault.TWICE, Fault.BEFORE, Fault.WRONG_BEFORE, Fault.WRONG_AFTER]
)
def test_a_write_with_any_fault_is_true_once(fault: Fault) -> None:
    async def play(bucket: OneBucket) -> None:
        first, second = bucket.store("first", puts=(Fault.NONE, fault)), bucket.store("second")
        await first.enqueue(CALL, [new()])
        await second.enqueue(UUID(int=4), [new(UUID(int=2))])
        await bucket.stage.clock.sleep(30.0)
        assert [event.job for event in bucket.changes("job")] == [JOB, UUID(int=2)]
        assert sum((await second.counts()).values()) == 2

    assert on_bucket(play) == []


def test_a_clock_that_is_an_hour_ahead_delays_no_job() -> None:
    async def play(bucket: OneBucket) -> None:
        wrong = SimClock(bucket.stage.loop, wall_error=3600.0)
        ahead, right = bucket.store("ahead", clock=wrong), bucket.store("right")
        await ahead.enqueue(CALL, [new(delay=60.0)])
        due = await right.next_due(["task"])
        assert due is not None
        assert abs(due - 60.0) <= TOLERATED
        wrong.wall_error = -3600.0
        await bucket.stage.clock.sleep(EVERY + 1)
        await ahead.enqueue(UUID(int=4), [new(UUID(int=2), delay=60.0)])
        row = bucket.world.snapshot().jobs[UUID(int=2)]
        assert abs(row.available_at.timestamp() - bucket.stage.clock.wall() - 60.0) <= TOLERATED + 1

    assert on_bucket(play) == []


def test_a_merge_that_brings_deleted_rows_back_is_noticed() -> None:
    async def play(bucket: OneBucket) -> None:
        store, jobs = bucket.store("client"), [new(UUID(int=10 + number)) for number in range(60)]
        await store.enqueue(CALL, jobs)
        for job in jobs[:20]:  # their deletions are in runs that are merged without the oldest one
            await bucket.stage.clock.sleep(1.0)
            await store.delete([job.id])

    assert on_bucket(play, full=300) == []
    with deletions_dropped():
        (complaint,) = on_bucket(play, full=300)
    assert "would load other rows" in complaint


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [simulate(seed, profile=Profile.OBJECTS) for seed in SEEDS]


def test_no_property_breaks_on_a_bucket(outcomes: list[Outcome]) -> None:
    assert [outcome.explain() for outcome in outcomes if not outcome.is_clean] == []
    assert {outcome.plan.profile for outcome in outcomes} == {Profile.OBJECTS}
    assert sum(outcome.report.checked["S5"] for outcome in outcomes) > 20


def test_faults_meet_the_calls_of_the_bucket(outcomes: list[Outcome]) -> None:
    mishaps = [each for outcome in outcomes for each in outcome.decisions if isinstance(each, Mishap)]
    faults = {each.fault for each in mishaps if each.verb == "put"}
    assert {Fault.LATE, Fault.ANSWER_LOST, Fault.WRONG_BEFORE, Fault.WRONG_AFTER, Fault.BEFORE} <= faults
    assert {"put", "get"} <= {each.verb for each in mishaps}
