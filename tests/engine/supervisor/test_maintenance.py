"""What supervisors do besides beats and recovery: isolate attempts, prune, report tasks that no worker knows."""

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
from holdfast._engine.supervisor.unseen_queues import UnseenQueues
from holdfast._ports.host import Exit
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance, FakeClock
from tests.engine.machines import MemoryChild
from tests.engine.supervisor.test_supervisor import HELLO, KILLED, Fleet, obey, passing
from tests.engine.support import LEASE, Log, enqueue
from tests.engine.worker.test_worker import Office, quick
from tests.event_loops import beside


async def isolated_worker(fleet: Fleet) -> tuple[MemoryChild, messages.LeaseGranted]:
    child = await fleet.spawned()
    child.far.say(HELLO)
    leased = await child.far.hear(messages.LeaseGranted)
    child.far.say(messages.Ready())
    return child, leased


async def crash(fleet: Fleet, jobs: int) -> list[UUID]:
    """Return jobs under which two workers died: a third death ends them."""
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
async def test_s9_a_job_that_crashed_before_runs_its_last_attempt_in_an_isolated_worker_beside_the_others() -> None:
    fleet = Fleet()
    (job,) = await crash(fleet, 1)
    ordinary, leased = await fleet.ready()
    assert not leased.is_isolated
    await passing(2)  # the backoff of a second crash
    assert await claim(fleet, leased, IsolatedJobs.EXCLUDE) == 0
    await passing(fleet.supervisor._settings.recovery_interval)  # type: ignore[union-attr]
    isolated, its_lease = await isolated_worker(fleet)
    assert its_lease.is_isolated
    (view,) = [each for each in await fleet.memory.workers() if each.is_isolated]
    assert (view.id, view.slots) == (its_lease.lease, 1)
    assert await claim(fleet, its_lease, IsolatedJobs.ONLY) == 1
    isolated.end(KILLED)
    await passing(1)
    row = await fleet.row(job)
    assert (row.state, row.crashes) == (State.FAILED, 3)
    assert not ordinary.has_ended.done()


@pytest.mark.virtual_time
async def test_at_most_as_many_isolated_workers_as_processes_live_at_once_and_each_is_followed_by_the_next() -> None:
    fleet = Fleet(processes=1)
    await crash(fleet, 3)
    await fleet.ready()
    for _ in range(3):
        await passing(10)
        child, leased = await isolated_worker(fleet)
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
async def test_an_isolated_worker_is_followed_at_once_only_if_it_ran_a_job() -> None:
    fleet = Fleet()
    (job, *_) = await crash(fleet, 2)
    await fleet.ready()
    await passing(10)
    idle, _ = await isolated_worker(fleet)
    idle.end(Exit(code=0))
    await passing(1)
    assert fleet.host.children.empty()
    await passing(10)
    busy, leased = await isolated_worker(fleet)
    busy.far.say(messages.AttemptStarted(job, Token(leased.lease, 1), 0.0))
    await passing(0.1)
    busy.end(Exit(code=0))
    await passing(1)
    assert not fleet.host.children.empty()


@pytest.mark.virtual_time
async def test_l2_a_drained_supervisor_starts_no_isolated_worker_and_ends_those_it_has() -> None:
    fleet = Fleet()
    await crash(fleet, 2)
    ordinary, _ = await fleet.ready()
    await passing(10)
    isolated, _ = await isolated_worker(fleet)
    fleet.supervisor.drain()
    for child in (ordinary, isolated):
        await child.far.hear(messages.Drain)
        child.end(Exit(code=0))
    assert await fleet.running == 0
    assert fleet.host.children.empty()


@pytest.mark.virtual_time
async def test_until_empty_waits_for_isolated_attempts() -> None:
    fleet = Fleet(until_empty=True)
    await crash(fleet, 1)
    ordinary, _ = await fleet.ready()
    beside(obey(ordinary, lambda: True))
    await passing(60)
    assert not fleet.running.done()
    isolated, leased = await isolated_worker(fleet)
    assert await claim(fleet, leased, IsolatedJobs.ONLY) == 1
    isolated.end(KILLED)
    assert await fleet.running == 0


@pytest.mark.virtual_time
async def test_an_isolated_worker_claims_once_runs_that_job_and_ends() -> None:
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
async def test_an_isolated_worker_that_finds_no_job_ends_at_once() -> None:
    office = Office(quick)
    (job,) = await office.enqueue("quick")
    await office.memory.open_lease(LEASE)
    office.far.say(messages.LeaseGranted(LEASE.id, LEASE.worker, office.clock.monotonic() + 25, True))
    await office.running
    assert await office.state(job) is State.AVAILABLE


# pruning


class PrunedStore:
    """A store with finished jobs, and its pruner."""

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


async def test_jobs_are_deleted_after_their_retention_and_their_number_is_reported() -> None:
    store = PrunedStore()
    await store.finish(3, Policy(retention=2 * RETENTION_FLOOR))
    store.clock.advance(2 * RETENTION_FLOOR - 1)
    await store.pruner.step()
    assert await store.left() == 3
    store.clock.advance(2)
    assert await store.pruner.step() >= INTERVAL * 0.75
    assert await store.left() == 0
    assert store.log.of("store.pruned")[-1]["jobs"] == 3


async def test_a_full_batch_is_followed_by_the_next_at_once() -> None:
    store = PrunedStore()
    await store.finish(BATCH + 1, Policy(retention=RETENTION_FLOOR))
    store.clock.advance(RETENTION_FLOOR + 1)
    assert await store.pruner.step() == PAUSE
    assert await store.left() == 1
    assert await store.pruner.step() > PAUSE
    assert await store.left() == 0


# unknown tasks


def unknown_tasks(known: set[str]) -> tuple[UnknownTasks, PrunedStore]:
    store = PrunedStore()
    return UnknownTasks(store.memory, known=lambda: known, now=store.clock.monotonic, events=store.log.events), store


async def test_a_task_that_no_live_worker_knows_is_reported_and_its_jobs_stay() -> None:
    search, store = unknown_tasks({"mine"})
    await store.memory.open_lease(structs.replace(LEASE, tasks=("theirs",)))
    made = await enqueue(store.memory, store.chance, *[(task, b"{}") for task in ("mine", "theirs", "unknown")])
    await search.step()
    assert store.log.of("task.unknown") == [], "its worker may be restarting"
    store.clock.advance(60)
    await search.step()
    assert store.log.of("task.unknown") == [{"task": "unknown"}]
    states = [(await _row(store, job)).state for job in made]
    assert states == [State.AVAILABLE] * 3


async def test_an_unknown_task_is_reported_again_every_ten_minutes_not_every_minute() -> None:
    search, store = unknown_tasks(set())
    await enqueue(store.memory, store.chance, ("unknown", b"{}"))
    for _ in range(int(2 * REPORTED_AGAIN_AFTER / 60) + 2):
        await search.step()
        store.clock.advance(60)
    assert len(store.log.of("task.unknown")) == 3


# queues of which there is no sign


async def test_a_served_queue_that_neither_store_nor_code_knows_is_reported_once_with_the_nearest_name() -> None:
    store, served = PrunedStore(), ["mial", "reports", "video"]
    await store.memory.pause(["mail"], is_paused=True)
    step = UnseenQueues(store.memory, served=lambda: served, named=lambda: ["reports"], events=store.log.events).step
    for _ in range(2):
        await step()
        assert store.log.of("queue.unseen") == [{"queue": "mial", "nearest": "mail"}, {"queue": "video", "nearest": None}]
    served.append("maill")
    await step()
    assert store.log.of("queue.unseen")[2:] == [{"queue": "maill", "nearest": "mail"}]


async def test_workers_of_all_queues_are_not_judged_and_read_nothing() -> None:
    store = PrunedStore()
    await UnseenQueues(None, served=lambda: None, named=lambda: (), events=store.log.events).step()  # type: ignore[arg-type]
    assert store.log.of("queue.unseen") == []


async def _row(store: PrunedStore, job: UUID) -> Any:
    return await store.memory.get(job)
