"""Sequences of calls to real stores under faults: each call is repeated until it is answered, and the end is that without faults."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast._core.job import ActiveJob, AttemptOutcome, Claim, NewJob, RescueReason, Token
from holdfast._core.lifecycle import LeaseEnd, Transition
from holdfast._core.outcome import Cancel, Done, Fail, Snooze
from holdfast._core.policy import Backoff, CrashPolicy, Policy
from holdfast._core.record import JobRecord
from holdfast._core.requests import AttemptNote, JobFilter, NewLease, ProgressUpdate
from holdfast._ports.store import Store
from holdfast._system.clock import SystemClock
from holdfast.errors import StoreUnavailable
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contracts.scene import PROCESS, TTL, Scene, answered, raised, released, rescued
from proof.checker.history import History
from proof.simulator.call_outcomes import ODD_ERRORS, Fault, Faults, Mix, is_odd
from proof.simulator.faults import faulty
from tests.stores.postgres_databases import Homes

LATEST = 0.003
FAULTS = [each for each in Fault if each not in (Fault.NONE, Fault.CRASH_BEFORE, Fault.CRASH_AFTER)]
UNFENCED = ("request_cancel", "reopen", "reschedule", "delete", "purge", "pause")
PATIENT = Policy(backoff=Backoff.fixed("1h"))


class Sender:
    """A sender that repeats each call until it is answered. An operator's calls carry no token, so a late copy of one would undo
    later calls: the next one waits for it."""

    def __init__(self, store: Store, under_way: list["asyncio.Task[Any]"]) -> None:
        self._store, self._under_way = store, under_way

    async def rest(self) -> None:
        """Wait until all copies of calls have arrived."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def __getattr__(self, verb: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def send(*arguments: Any, **keywords: Any) -> Any:
            while True:
                try:
                    answer = await getattr(self._store, verb)(*arguments, **keywords)
                except StoreUnavailable:
                    continue
                except ODD_ERRORS as error:
                    if not is_odd(error):
                        raise
                    continue
                if verb in UNFENCED:
                    await self.rest()
                return answer

        return send


class Crew:
    """A client, a worker, its supervisor and an operator in one."""

    def __init__(self, scene: Scene, store: Store, under_way: list["asyncio.Task[Any]"]) -> None:
        self.at, self.store = scene, Sender(store, under_way)
        self._once = store
        self._leases: dict[UUID, set[Token]] = {}

    async def enqueue(self, *jobs: NewJob, under: ActiveJob | None = None) -> None:
        """Enqueue in one call, also if it is sent several times."""
        call = self.at.chance.uuid4()
        await self.store.enqueue(call, jobs, under=None if under is None else (under.id, under.token))

    async def lease(self) -> UUID:
        lease: NewLease = self.at.new_lease()
        assert await self.store.open_lease(lease)
        self._leases[lease.id] = set()
        return lease.id

    async def claim(self, lease: UUID, *jobs: NewJob, policy: Policy = PATIENT, prefetch: int = 0) -> list[ActiveJob]:
        """Claim all jobs, in order. Without an answer, look the claim up, and repeat it if it never arrived."""
        taken: dict[UUID, ActiveJob] = {}
        while len(taken) < len(jobs):
            limit = len(jobs) - prefetch
            request = self.at.request(lease, limit, prefetch=prefetch, ids=[job.id for job in jobs], policy=policy)
            try:
                claims: tuple[Claim, ...] = (await self._once.exchange((), request)).claims
                found = [claim.job for claim in claims]
            except (StoreUnavailable, *ODD_ERRORS):
                found = []
            if len(found) < len(jobs):  # a copy of the claim may have taken the rest at the same time
                await self.store.rest()
                found = [job for job in await self.store.held(lease) if job.token.claim == request.claim]
            taken |= {job.id: job for job in found}
        self._leases[lease] |= {job.token for job in taken.values()}
        return [taken[job.id] for job in jobs]

    async def settle(self, *moves: Transition) -> None:
        """Settle, until the store answers."""
        await self.store.exchange(moves)

    async def end(self, lease: UUID, why: LeaseEnd, seen: str | None) -> LeaseEnd | None:
        """End a lease. A late copy of the call may have it locked, and an expired lease that is locked is skipped."""
        ended = await self.store.end_lease(lease, why, seen=seen)
        if ended is None:
            await self.store.rest()
            ended = await self.store.end_lease(lease, why, seen=seen)
        return ended

    async def wait(self, seconds: float) -> None:
        """Let that much time pass, with no call under way."""
        await self.store.rest()
        self.at.advance(seconds)

    async def audit(self) -> None:
        """Release the jobs that late copies of claims have taken unnoticed."""
        await self.store.rest()
        for lease, known in self._leases.items():
            await self.settle(*(released(job) for job in await self.store.held(lease) if job.token not in known))


async def work(crew: Crew) -> None:
    """Jobs that end in every way that their owner may choose, their children, and late reports."""
    at, jobs = crew.at, [crew.at.new(queue=name) for name in ("done", "raised", "snoozed", "cancelled", "failed", "released")]
    await crew.enqueue(*jobs)
    lease = await crew.lease()
    owned = await crew.claim(lease, *jobs, prefetch=1)
    await crew.store.start([(job.id, job.token) for job in owned])
    for step in range(3):
        await crew.store.report(
            [ProgressUpdate(job=job.id, token=job.token, stage="work", checkpoint=b"%d" % step) for job in owned]
        )
        await crew.store.rest()  # under one token the last update wins, also a late copy of an older one
    child, keyed = at.new(queue="child"), at.new(queue="child", key="child")
    await crew.enqueue(child, keyed, under=owned[0])
    assert lease in (await crew.store.beat([lease])).alive
    done, failed, snoozed, cancelled, final, freed = owned
    await crew.settle(answered(done, Done(b"42")), raised(failed))
    await crew.settle(answered(snoozed, Snooze(3600.0)), answered(cancelled, Cancel("enough")), answered(final, Fail("never")))
    await crew.settle(released(freed))
    await crew.enqueue(at.new(queue="orphan"), under=done)
    await crew.store.annotate([AttemptNote(job=failed.id, token=failed.token, late_result=b"1")])
    await crew.store.end_lease(lease, LeaseEnd(RescueReason.CLOSED, is_free=True))


async def rescue(crew: Crew) -> None:
    """A worker that dies, and one whose lease runs out, with jobs of every policy."""
    at = crew.at
    for number, (why, policy) in enumerate(
        [
            (LeaseEnd(RescueReason.CRASHED, "SIGKILL"), PATIENT),
            (LeaseEnd(RescueReason.CRASHED, is_free=True), PATIENT),
            (LeaseEnd(RescueReason.EXPIRED), Policy(on_crash=CrashPolicy.HOLD)),
            (LeaseEnd(RescueReason.EXPIRED), Policy(on_crash=CrashPolicy.FAIL)),
            (LeaseEnd(RescueReason.CRASHED, "SIGKILL"), Policy(max_crashes=1)),
        ]
    ):
        jobs = [at.new(queue=f"rescue {number}", key=f"{number} {job}") for job in range(3)]
        await crew.enqueue(*jobs)
        lease = await crew.lease()
        owned = await crew.claim(lease, *jobs, policy=policy)
        seen = None
        if why.reason is RescueReason.EXPIRED:
            await crew.wait(TTL + 1.0)
            (seen,) = [view.seen for view in await crew.store.expired(100) if view.id == lease]
        culprit = LeaseEnd(
            why.reason,
            why.signal,
            is_free=why.is_free,
            charged_jobs={owned[0].id: RescueReason.UNRESPONSIVE} if why.is_free else {},
        )
        assert await crew.end(lease, culprit, seen) == culprit
        while left := await crew.store.held(lease):
            await crew.settle(*(rescued(job, culprit) for job in left))
        await crew.settle(*(answered(job, Done(b"late")) for job in owned))


async def operate(crew: Crew) -> None:
    """An operator with all actions on waiting, running and finished jobs."""
    at = crew.at
    jobs = [at.new(queue="office", key=str(number)) for number in range(6)]
    await crew.enqueue(*jobs)
    await crew.enqueue(at.new(queue="office", key="0"), at.new(queue="office", key="6"))
    lease = await crew.lease()
    running, done = await crew.claim(lease, *jobs[:2])
    await crew.settle(answered(done, Done(b"1")))
    await crew.store.request_cancel([running.id, jobs[2].id])
    await crew.store.reschedule([jobs[3].id], delay=3600.0)
    await crew.store.delete([jobs[4].id, running.id])
    await crew.store.reopen([jobs[2].id, jobs[3].id, done.id])
    await crew.settle(raised(running))
    await crew.enqueue(*(at.new(queue="doomed", expires_in=1.0) for _ in range(3)), *(at.new(queue="purged") for _ in range(3)))
    await crew.store.purge("purged", 100)
    await crew.store.pause(["office", "purged"], is_paused=True)
    await crew.store.pause(["office"], is_paused=False)
    await crew.wait(2.0)
    await crew.store.expire(100)
    await crew.wait(2 * 24 * 3600.0)
    await crew.store.prune(100)


def _lasting_part(row: JobRecord) -> tuple[object, ...]:
    """The part of a job that must be the same, also if calls were sent several times."""
    ended = {(each.outcome, each.late_result) for each in row.attempts if each.outcome is not AttemptOutcome.RELEASED}
    rest = row.result, row.stage, row.checkpoint, row.cancel_requested, row.unique_key, row.is_stub
    return row.queue, row.state, row.reason, row.failures, row.crashes, sorted(ended, key=repr), *rest


async def _end_of(story: Callable[[Crew], Coroutine[Any, Any, None]], crew: Crew, scene: Scene) -> list[object]:
    """The final state of a sequence, read from the store without faults."""
    await story(crew)
    await crew.audit()
    rows = [await scene.row(row.id) for row in await scene.store.list(JobFilter(limit=1000))]
    queues = [(view.name, view.paused_at is not None, view.counts) for view in await scene.store.queues()]
    return [sorted(map(_lasting_part, rows), key=repr), queues, len(await scene.store.workers())]


class StoreStage:
    """A store on which sequences of calls run."""

    def __init__(
        self, make: Callable[[FakeClock], Store], run: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run
    ) -> None:
        self.make_store, self.run = make, run

    def advance(self, clock: FakeClock, seconds: float) -> None:
        clock.advance(seconds)

    def step_wall(self, clock: FakeClock, seconds: float) -> None:
        raise AssertionError(seconds)

    def play(self, story: Callable[[Crew], Coroutine[Any, Any, None]], fault: Fault) -> list[object]:
        """The final state, if half of the calls meet the fault."""
        ends: list[list[object]] = []

        async def run() -> None:
            async with AsyncExitStack() as closing:
                scene = Scene(self, closing)
                mix = Mix(rates={fault: 0.5}, latency=0.0, timeout=0.0, slowest=LATEST, latest=LATEST)
                faults = Faults(random.Random(f"{story.__name__} {fault}"), mix)
                under_way: list[asyncio.Task[Any]] = []

                def carry(call: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
                    under_way.append(asyncio.ensure_future(call))
                    return under_way[-1]

                store = faulty(scene.store, process="", faults=faults, clock=SystemClock(), history=History(), carry=carry)
                ends.append(await _end_of(story, Crew(scene, store, under_way), scene))

        self.run(run())
        return ends[0]


def _in_memory() -> StoreStage:
    made: list[MemoryStore] = []

    def make(clock: FakeClock) -> Store:
        made.append(made[0] if made else MemoryStore(clock))
        return made[-1]

    return StoreStage(make)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store_stage(request: pytest.FixtureRequest) -> Iterator[StoreStage]:
    """Yield each of the three stores."""
    match request.param:
        case "sqlite":
            path: Path = request.getfixturevalue("tmp_path") / "jobs.db"
            yield StoreStage(lambda clock: SqliteStore(path, clock=clock, chance=FakeChance(), process=PROCESS))
        case "postgres":
            homes: Homes = request.getfixturevalue("homes")
            home = homes.empty()
            yield StoreStage(home.store, home.run)
        case _:
            yield _in_memory()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("story", [work, rescue, operate])
def test_s15_a_sequence_of_calls_ends_the_same_with_any_fault(
    story: Callable[[Crew], Coroutine[Any, Any, None]], fault: Fault, store_stage: StoreStage
) -> None:
    assert store_stage.play(story, fault) == _in_memory().play(story, Fault.NONE)
