"""What supervisors do beside beating and recovering: isolate last tries, prune, report what nobody knows."""

from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.job import State, Token
from holdfast._core.policy import RETENTION_FLOOR, Policy
from holdfast._core.requests import ClaimRequest, IsolatedJobs
from holdfast._engine import messages
from holdfast._engine.supervisor.pruner import BATCH, INTERVAL, PAUSE, Pruner
from holdfast._engine.supervisor.unknown_tasks import REPORTED_AGAIN_AFTER, UnknownTasks
from holdfast._ports.host import Exit
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance, FakeClock
from tests.engine.machines import MemoryChild
from tests.engine.supervisor.test_supervisor import HELLO, KILLED, Fleet, obey, passing
from tests.engine.support import LEASE, Log, enqueue
from tests.engine.worker.test_worker import Office, quick
from tests.event_loops import beside


async def alone(fleet: Fleet) -> tuple[MemoryChild, messages.LeaseGranted]:
    child = await fleet.spawned()
    child.far.say(HELLO)
    leased = await child.far.hear(messages.LeaseGranted)
    child.far.say(messages.Ready())
    return child, leased


async def crash(fleet: Fleet, jobs: int) -> list[UUID]:
    """Jobs that two workers died under: one more death is their last."""
    child, leased = await fleet.ready()
    made = await fleet.claim(leased, jobs)
    child.end(KILLED)
    for _ in range(1):
        child, leased = await fleet.ready()
        await passing(0.1)
        request = ClaimRequest(lease=leased.lease, claim=fleet.chance.uuid4(), tasks={"t": Policy()}, limit=jobs)
        assert len((await fleet.memory.exchange([], request)).claims) == jobs
        child.end(KILLED)
    return made


async def claim(fleet: Fleet, leased: messages.LeaseGranted, isolated: IsolatedJobs) -> int:
    request = ClaimRequest(lease=leased.lease, claim=fleet.chance.uuid4(), tasks={"t": Policy()}, limit=10, isolated=isolated)
    return len((await fleet.memory.exchange([], request)).claims)


# isolation


@pytest.mark.virtual_time
async def test_s9_a_job_that_crashed_before_runs_its_last_try_alone_in_a_worker_beside_the_others() -> None:
    fleet = Fleet()
    (job,) = await crash(fleet, 1)
    ordinary, leased = await fleet.ready()
    assert not leased.is_isolated
    await passing(2)  # the backoff of a second crash
    assert await claim(fleet, leased, IsolatedJobs.EXCLUDE) == 0
    await passing(fleet.supervisor._settings.recovery_interval)  # type: ignore[union-attr]
    lonely, its_lease = await alone(fleet)
    assert its_lease.is_isolated
    (view,) = [each for each in await fleet.memory.workers() if each.is_isolated]
    assert (view.id, view.slots) == (its_lease.lease, 1)
    assert await claim(fleet, its_lease, IsolatedJobs.ONLY) == 1
    lonely.end(KILLED)
    await passing(1)
    row = await fleet.row(job)
    assert (row.state, row.crashes) == (State.FAILED, 3)
    assert not ordinary.has_ended.done()


@pytest.mark.virtual_time
async def test_no_more_lonely_workers_than_processes_live_at_once_and_each_is_followed_by_the_next() -> None:
    fleet = Fleet(processes=1)
    await crash(fleet, 3)
    await fleet.ready()
    for _ in range(3):
        await passing(10)
        child, leased = await alone(fleet)
        await passing(30)
        assert fleet.host.children.empty()
        request = ClaimRequest(
            lease=leased.lease, claim=fleet.chance.uuid4(), tasks={"t": Policy()}, limit=1, isolated=IsolatedJobs.ONLY
        )
        assert len((await fleet.memory.exchange([], request)).claims) == 1
        child.end(KILLED)
    await passing(60)
    assert fleet.host.children.empty()
    assert (await fleet.memory.counts())["", State.FAILED] == 3


@pytest.mark.virtual_time
async def test_a_lonely_worker_that_ran_nothing_is_not_followed_at_once_and_one_that_did_is() -> None:
    fleet = Fleet()
    (job, *_) = await crash(fleet, 2)
    await fleet.ready()
    await passing(10)
    idle, _ = await alone(fleet)
    idle.end(Exit(code=0))
    await passing(1)
    assert fleet.host.children.empty()
    await passing(10)
    busy, leased = await alone(fleet)
    busy.far.say(messages.AttemptStarted(job, Token(leased.lease, 1), 0.0))
    await passing(0.1)
    busy.end(Exit(code=0))
    await passing(1)
    assert not fleet.host.children.empty()


@pytest.mark.virtual_time
async def test_l2_a_drained_supervisor_starts_no_lonely_worker_and_ends_those_it_has() -> None:
    fleet = Fleet()
    await crash(fleet, 2)
    ordinary, _ = await fleet.ready()
    await passing(10)
    lonely, _ = await alone(fleet)
    fleet.supervisor.drain()
    for child in (ordinary, lonely):
        await child.far.hear(messages.Drain)
        child.end(Exit(code=0))
    assert await fleet.running == 0
    assert fleet.host.children.empty()


@pytest.mark.virtual_time
async def test_until_empty_waits_for_last_tries() -> None:
    fleet = Fleet(until_empty=True)
    await crash(fleet, 1)
    ordinary, _ = await fleet.ready()
    beside(obey(ordinary, lambda: True))
    await passing(60)
    assert not fleet.running.done()
    lonely, leased = await alone(fleet)
    assert await claim(fleet, leased, IsolatedJobs.ONLY) == 1
    lonely.end(KILLED)
    assert await fleet.running == 0


@pytest.mark.virtual_time
async def test_a_lonely_worker_claims_once_runs_that_job_and_ends() -> None:
    office = Office(quick)
    jobs = await office.enqueue("quick", "quick")
    for job in jobs:
        row = await office.row(job)
        office.memory.book._put(structs.replace(row, crashes=2))
    await office.memory.open_lease(LEASE)
    office.far.say(messages.LeaseGranted(LEASE.id, LEASE.worker, office.clock.monotonic() + 25, True))
    await office.running
    assert [await office.state(job) for job in jobs] == [State.COMPLETED, State.AVAILABLE]


@pytest.mark.virtual_time
async def test_a_lonely_worker_that_finds_nothing_ends_at_once() -> None:
    office = Office(quick)
    (job,) = await office.enqueue("quick")
    await office.memory.open_lease(LEASE)
    office.far.say(messages.LeaseGranted(LEASE.id, LEASE.worker, office.clock.monotonic() + 25, True))
    await office.running
    assert await office.state(job) is State.AVAILABLE


# pruning


class Attic:
    """A store with finished jobs, and who prunes it."""

    def __init__(self) -> None:
        self.clock, self.chance, self.log = FakeClock(), FakeChance(), Log()
        self.memory = MemoryStore(self.clock)
        self.pruner = Pruner(self.memory, events=self.log.events, chance=self.chance)

    async def finish(self, jobs: int, policy: Policy) -> list[UUID]:
        made = await enqueue(self.memory, self.chance, *[("t", b"{}")] * jobs, policies={"t": policy})
        await self.memory.request_cancel(made)
        return made

    async def left(self) -> int:
        return sum((await self.memory.counts()).values())


async def test_jobs_are_forgotten_after_their_own_retention_and_it_is_said() -> None:
    attic = Attic()
    await attic.finish(3, Policy(retention=2 * RETENTION_FLOOR))
    attic.clock.advance(2 * RETENTION_FLOOR - 1)
    await attic.pruner.step()
    assert await attic.left() == 3
    attic.clock.advance(2)
    assert await attic.pruner.step() >= INTERVAL * 0.75
    assert await attic.left() == 0
    assert attic.log.of("store.pruned")[-1]["jobs"] == 3


async def test_a_full_batch_is_followed_by_the_next_at_once() -> None:
    attic = Attic()
    await attic.finish(BATCH + 1, Policy(retention=RETENTION_FLOOR))
    attic.clock.advance(RETENTION_FLOOR + 1)
    assert await attic.pruner.step() == PAUSE
    assert await attic.left() == 1
    assert await attic.pruner.step() > PAUSE
    assert await attic.left() == 0


# strays


def strays(known: set[str]) -> tuple[UnknownTasks, Attic]:
    attic = Attic()
    return UnknownTasks(attic.memory, known=lambda: known, now=attic.clock.monotonic, events=attic.log.events), attic


async def test_a_task_that_no_live_worker_knows_is_reported_and_left_alone() -> None:
    looking, attic = strays({"mine"})
    await attic.memory.open_lease(structs.replace(LEASE, tasks=("theirs",)))
    made = await enqueue(attic.memory, attic.chance, *[(task, b"{}") for task in ("mine", "theirs", "nobodys")])
    await looking.step()
    assert attic.log.of("task.unknown") == [], "its worker may be just restarting"
    attic.clock.advance(60)
    await looking.step()
    assert attic.log.of("task.unknown") == [{"task": "nobodys"}]
    states = [(await _row(attic, job)).state for job in made]
    assert states == [State.AVAILABLE] * 3


async def test_it_is_said_again_every_ten_minutes_not_every_minute() -> None:
    looking, attic = strays(set())
    await enqueue(attic.memory, attic.chance, ("nobodys", b"{}"))
    for _ in range(int(2 * REPORTED_AGAIN_AFTER / 60) + 2):
        await looking.step()
        attic.clock.advance(60)
    assert len(attic.log.of("task.unknown")) == 3


async def _row(attic: Attic, job: UUID) -> Any:
    return await attic.memory.get(job)
