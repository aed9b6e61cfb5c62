"""Around real stores too, whatever becomes of a call: sent again until it is answered, a story ends as it does without faults."""

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
from holdfast.testing.history import History
from proof.simulator.call_outcomes import ODD_ERRORS, Fault, Faults, Mix, is_odd
from proof.simulator.faults import faulty
from tests.stores.postgres_databases import Homes

LATEST = 0.003
FAULTS = [each for each in Fault if each not in (Fault.NONE, Fault.CRASH_BEFORE, Fault.CRASH_AFTER)]
UNFENCED = ("request_cancel", "reopen", "reschedule", "delete", "purge", "pause")
PATIENT = Policy(backoff=Backoff.fixed("1h"))


class Sender:
    """Sends each call again until it is answered. An operator's calls carry no token, so that a late copy of one would undo
    what came after it: the next one waits for it."""

    def __init__(self, store: Store, under_way: list["asyncio.Task[Any]"]) -> None:
        self._store, self._under_way = store, under_way

    async def rest(self) -> None:
        """Until whatever is on its way has arrived."""
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
        """One call, whatever becomes of it."""
        call = self.at.chance.uuid4()
        await self.store.enqueue(call, jobs, under=None if under is None else (under.id, under.token))

    async def lease(self) -> UUID:
        """An open lease."""
        lease: NewLease = self.at.new_lease()
        assert await self.store.open_lease(lease)
        self._leases[lease.id] = set()
        return lease.id

    async def claim(self, lease: UUID, *jobs: NewJob, policy: Policy = PATIENT, prefetch: int = 0) -> list[ActiveJob]:
        """All of them, in order. What a claim was not answered is looked up, and claimed again if it never came."""
        taken: dict[UUID, ActiveJob] = {}
        while len(taken) < len(jobs):
            limit = len(jobs) - prefetch
            request = self.at.request(lease, limit, prefetch=prefetch, ids=[job.id for job in jobs], policy=policy)
            try:
                claims: tuple[Claim, ...] = (await self._once.exchange((), request)).claims
                found = [claim.job for claim in claims]
            except (StoreUnavailable, *ODD_ERRORS):
                found = []
            if len(found) < len(jobs):  # a copy of it that came at the same time may have taken the rest
                await self.store.rest()
                found = [hold for hold in await self.store.held(lease) if hold.token.claim == request.claim]
            taken |= {hold.id: hold for hold in found}
        self._leases[lease] |= {hold.token for hold in taken.values()}
        return [taken[job.id] for job in jobs]

    async def settle(self, *moves: Transition) -> None:
        """Until it is answered."""
        await self.store.exchange(moves)

    async def wait(self, seconds: float) -> None:
        """Nothing is on its way for that long."""
        await self.store.rest()
        self.at.advance(seconds)

    async def audit(self) -> None:
        """Late copies of claims may have taken what nobody knows of: it goes back."""
        await self.store.rest()
        for lease, known in self._leases.items():
            await self.settle(*(released(hold) for hold in await self.store.held(lease) if hold.token not in known))


async def work(crew: Crew) -> None:
    """Jobs that end in every way that their owner may choose, children, and what is said too late."""
    at, jobs = crew.at, [crew.at.new(queue=name) for name in ("done", "raised", "snoozed", "cancelled", "failed", "released")]
    await crew.enqueue(*jobs)
    lease = await crew.lease()
    holds = await crew.claim(lease, *jobs, prefetch=1)
    await crew.store.start([(hold.id, hold.token) for hold in holds])
    for step in range(3):
        await crew.store.report(
            [ProgressUpdate(job=hold.id, token=hold.token, stage="work", checkpoint=b"%d" % step) for hold in holds]
        )
        await crew.store.rest()  # under one token the last to arrive wins, also a late copy of an older one
    child, keyed = at.new(queue="child"), at.new(queue="child", key="child")
    await crew.enqueue(child, keyed, under=holds[0])
    assert lease in (await crew.store.beat([lease])).alive
    done, failed, snoozed, cancelled, final, freed = holds
    await crew.settle(answered(done, Done(b"42")), raised(failed))
    await crew.settle(answered(snoozed, Snooze(3600.0)), answered(cancelled, Cancel("enough")), answered(final, Fail("never")))
    await crew.settle(released(freed))
    await crew.enqueue(at.new(queue="orphan"), under=done)
    await crew.store.annotate([AttemptNote(job=failed.id, token=failed.token, late_result=b"1")])
    await crew.store.end_lease(lease, LeaseEnd(RescueReason.CLOSED, is_free=True))


async def rescue(crew: Crew) -> None:
    """A worker that dies, one that runs out of time, and whose jobs go by every policy."""
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
        holds = await crew.claim(lease, *jobs, policy=policy)
        seen = None
        if why.reason is RescueReason.EXPIRED:
            await crew.wait(TTL + 1.0)
            (seen,) = [view.seen for view in await crew.store.expired(100) if view.id == lease]
        culprit = LeaseEnd(
            why.reason,
            why.signal,
            is_free=why.is_free,
            charged_jobs={holds[0].id: RescueReason.UNRESPONSIVE} if why.is_free else {},
        )
        assert await crew.store.end_lease(lease, culprit, seen=seen) == culprit
        while left := await crew.store.held(lease):
            await crew.settle(*(rescued(hold, culprit) for hold in left))
        await crew.settle(*(answered(hold, Done(b"late")) for hold in holds))


async def operate(crew: Crew) -> None:
    """An operator who does everything to waiting, running and finished jobs."""
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


def _told(row: JobRecord) -> tuple[object, ...]:
    """What of a job must be the same, however often anything was sent."""
    ended = {(each.outcome, each.late_result) for each in row.attempts if each.outcome is not AttemptOutcome.RELEASED}
    rest = row.result, row.stage, row.checkpoint, row.cancel_requested, row.unique_key, row.is_stub
    return row.queue, row.state, row.reason, row.failures, row.crashes, sorted(ended, key=repr), *rest


async def _end_of(story: Callable[[Crew], Coroutine[Any, Any, None]], crew: Crew, scene: Scene) -> list[object]:
    """The state that a story leaves, asked of a store without faults."""
    await story(crew)
    await crew.audit()
    rows = [await scene.row(row.id) for row in await scene.store.list(JobFilter(limit=1000))]
    queues = [(view.name, view.paused_at is not None, view.counts) for view in await scene.store.queues()]
    return [sorted(map(_told, rows), key=repr), queues, len(await scene.store.workers())]


class Place:
    """Where a story is played."""

    def __init__(
        self, make: Callable[[FakeClock], Store], run: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run
    ) -> None:
        self.make_store, self.run = make, run

    def advance(self, clock: FakeClock, seconds: float) -> None:
        """Let time pass."""
        clock.advance(seconds)

    def step_wall(self, clock: FakeClock, seconds: float) -> None:
        """Nobody does."""
        raise AssertionError(seconds)

    def play(self, story: Callable[[Crew], Coroutine[Any, Any, None]], fault: Fault) -> list[object]:
        """The state at its end, with half of the calls meeting the fault."""
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


def _in_memory() -> Place:
    made: list[MemoryStore] = []

    def make(clock: FakeClock) -> Store:
        made.append(made[0] if made else MemoryStore(clock))
        return made[-1]

    return Place(make)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Each store in turn."""
    match request.param:
        case "sqlite":
            path: Path = request.getfixturevalue("tmp_path") / "jobs.db"
            yield Place(lambda clock: SqliteStore(path, clock=clock, chance=FakeChance(), process=PROCESS))
        case "postgres":
            homes: Homes = request.getfixturevalue("homes")
            home = homes.empty()
            yield Place(home.store, home.run)
        case _:
            yield _in_memory()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("story", [work, rescue, operate])
def test_s15_a_story_ends_the_same_whatever_becomes_of_its_calls(
    story: Callable[[Crew], Coroutine[Any, Any, None]], fault: Fault, place: Place
) -> None:
    assert place.play(story, fault) == _in_memory().play(story, Fault.NONE)
