"""`holdfast copy`: waiting jobs move to another store; killed at any call and run again, it loses none and lets none run twice."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.answers import Answer
from holdfast._core.audit import AuditNote
from holdfast._core.dependencies import After
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import ActiveJob, AttemptOutcome, HeldFor, NewJob, State
from holdfast._core.lifecycle import Transition
from holdfast._core.limits import Limit, Scope, ScopeKind
from holdfast._core.origin import Origin
from holdfast._core.policy import Policy
from holdfast._core.record import JobRecord
from holdfast._core.requests import ClaimRequest, JobFilter, NewLease, ProgressUpdate, QueueSettings
from holdfast._core.steps import StepRecord
from holdfast._core.timing import LeaseTiming
from holdfast._core.transfer import Stays
from holdfast._engine.operators.copying import Copied, Copying
from holdfast._ports.store import Store
from holdfast.errors import ConfigurationError, StoreUnavailable
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance
from tests.buckets.support import SkippingClock

POLICY = Policy(max_attempts=7, timeout=60.0, retention=0.0)


class Killed(BaseException):
    """The end of the process that copies."""


class Mortal:
    """A store whose calls are counted together with those of the other one; one of them is the last of the process."""

    def __init__(self, store: MemoryStore, world: "World") -> None:
        self._store, self._world = store, world

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name == "capabilities":
            return found

        async def verb(*arguments: Any, **keywords: Any) -> Any:
            self._world.calls += 1
            is_last = self._world.calls == self._world.last
            if is_last and not self._world.is_after:
                raise Killed
            answer = await found(*arguments, **keywords)
            if is_last:
                raise Killed
            return answer

        return verb


class World:
    """Two stores, and workers of both. ``last``: the number of the call at which the copy is killed; ``is_after``: it takes effect."""

    def __init__(self) -> None:
        self.clock, self.chance = SkippingClock(), FakeChance(7)
        self.source, self.destination = MemoryStore(self.clock), MemoryStore(self.clock)
        self.calls, self.last, self.is_after = 0, 0, False
        self.lines = list[str]()
        self.ran = list[UUID]()

    def copying(self, only: list[str] | None = None) -> Copying:
        self.calls = 0
        source, destination = (Mortal(store, self) for store in (self.source, self.destination))
        return Copying(
            source,  # type: ignore[arg-type]
            destination,  # type: ignore[arg-type]
            only=only,
            clock=self.clock,
            chance=self.chance,
            report=self.lines.append,
        )

    async def copy(self, only: list[str] | None = None) -> Copied:
        return await self.copying(only).run()

    def job(self, **values: Any) -> NewJob:
        return NewJob(**{"id": self.chance.uuid7(), "payload": b"{}", "task": "mail", "policy": POLICY, **values})

    async def put(self, *jobs: NewJob, store: Store | None = None) -> list[UUID]:
        await (store or self.source).enqueue(self.chance.uuid4(), jobs)
        return [job.id for job in jobs]

    async def lease(self, store: Store) -> UUID:
        lease = NewLease(self.chance.uuid4(), "worker", ProcessIdentity("host", 1), LeaseTiming(30.0, 6.0, 5.0))
        assert await store.open_lease(lease)
        return lease.id

    async def claim(self, store: Store, limit: int = 1) -> Any:
        tasks = dict.fromkeys(("mail", "other"), POLICY)
        request = ClaimRequest(lease=await self.lease(store), claim=self.chance.uuid4(), tasks=tasks, limit=limit)
        return (await store.exchange((), request)).claims

    async def work(self, store: Store, limit: int = 100) -> None:
        """Run what a worker of this store can claim."""
        for claim in await self.claim(store, limit):
            self.ran.append(claim.job.id)
            done = moved(claim.job, State.COMPLETED, result=b"1")
            assert (await store.exchange([done])).answers == (Answer.APPLIED,)


def moved(job: ActiveJob, to: State, **values: Any) -> Transition:
    return Transition(job=job.id, token=job.token, to=to, failures=0, crashes=0, retention=0.0, **values)


@pytest.fixture
def world() -> World:
    return World()


async def jobs_of(store: Store) -> dict[UUID, JobRecord]:
    return {row.id: row for row in await store.list(JobFilter(limit=1000))}


async def test_waiting_jobs_arrive_with_all_their_values_and_are_gone_at_the_source(world: World) -> None:
    later = datetime.fromtimestamp(world.clock.wall(), UTC) + timedelta(hours=3)
    await world.source.set_queue("slow", QueueSettings(priority=5))
    made = [
        world.job(payload=b'{"to": "ada"}', key="acme", tags=("a", "b"), headers=(("tenant", "x"),), unique_key="one"),
        world.job(queue="slow", priority=3, run_at=later),
        world.job(expires_in=600.0),
    ]
    ids = await world.put(*made)
    before = await jobs_of(world.source)
    done = await world.copy()
    assert (done.moved, done.already_there, done.stay) == (3, 0, {})
    after = await jobs_of(world.destination)
    assert await jobs_of(world.source) == {}
    assert after.keys() == {*ids}
    for old, new in zip(made, (after[job] for job in ids), strict=True):
        assert structs.replace(before[old.id], priority=old.priority) == structs.replace(
            new, created_at=before[old.id].created_at
        )
    assert done.paused_source == ("default", "slow")
    assert done.paused_destination == ()
    await world.work(world.destination)
    assert {*world.ran} == {ids[0], ids[2]}


async def test_only_the_named_queues_are_moved_and_an_unknown_name_lists_them(world: World) -> None:
    await world.put(world.job(queue="a"), world.job(queue="b"))
    assert (await world.copy(["a"])).moved == 1
    assert [row.queue for row in (await jobs_of(world.source)).values()] == ["b"]
    assert [queue.name for queue in await world.source.queues() if queue.paused_at is not None] == ["a"]
    with pytest.raises(ConfigurationError, match="--queue c: the source has no such queue; there are: a, b"):
        await world.copy(["c"])


@pytest.mark.parametrize("is_after", [False, True])
async def test_a_copy_killed_at_any_call_and_run_again_loses_no_job_and_none_runs_twice(
    monkeypatch: pytest.MonkeyPatch, *, is_after: bool
) -> None:
    monkeypatch.setattr("holdfast._engine.operators.copying.MOST_JOBS", 3)
    calls, number = 1, 0
    while number < calls:
        number += 1
        world = World()
        ids = await world.put(*(world.job(queue=f"q{place % 2}", payload=b"%d" % place) for place in range(8)))
        (claim,) = await world.claim(world.source)
        world.ran.append(claim.job.id)
        await world.source.exchange([moved(claim.job, State.AVAILABLE, record=AttemptOutcome.FAILED, delay=5.0)])
        world.ran.clear()
        world.last, world.is_after = number, is_after
        try:
            await world.copy()
            calls = world.calls
        except Killed:
            calls = number + 1
        # Workers go on at both ends, and what has finished at the destination is forgotten there.
        await world.work(world.source, limit=1)
        await world.work(world.destination, limit=2)
        world.clock.advance(8 * 86400.0)
        for store in (world.source, world.destination):
            await store.prune(1000)
        world.last = 0
        done = await world.copy()
        await world.destination.pause(done.paused_destination, is_paused=False)
        assert not [state for row in (await jobs_of(world.source)).values() if (state := row.state) is not State.COMPLETED]
        await world.work(world.destination)
        assert sorted(world.ran) == sorted(ids), f"killed at call {number}"
        assert not [queue.name for queue in await world.source.queues() if queue.name.startswith("holdfast-copy")]
    assert number > 20


async def test_a_copy_waits_for_running_jobs_and_moves_what_they_return(world: World) -> None:
    await world.put(world.job(), world.job())
    (claim,) = await world.claim(world.source)
    with pytest.raises(StoreUnavailable, match="1 jobs still run at the source: let workers of the source end them"):
        await world.copying().run(wait=10.0)
    assert await jobs_of(world.destination) == {}
    assert await world.claim(world.source) == ()
    slept = world.clock.sleep

    async def sleep(seconds: float) -> None:
        await world.source.exchange([moved(claim.job, State.AVAILABLE, record=AttemptOutcome.RELEASED)])
        await slept(seconds)

    world.clock.sleep = sleep  # type: ignore[method-assign]
    assert (await world.copy()).moved == 2
    assert "waiting for 1 running jobs" in world.lines


async def test_what_would_lose_something_stays_at_the_source_and_is_named(world: World) -> None:
    jobs = [world.job(priority=place) for place in range(4)]
    await world.put(*jobs, world.job(priority=9))
    claims = {claim.job.id: claim.job for claim in await world.claim(world.source, 3)}
    stepped, pointed, held = (claims[job.id] for job in jobs[:3])
    step = StepRecord(name="charge", nth=1, place=1, is_sequential=True, result=b"1")
    assert await world.source.record_step(stepped.id, stepped.token, step)
    await world.source.report([ProgressUpdate(job=pointed.id, token=pointed.token, checkpoint=b"5")])
    back = [moved(each, State.AVAILABLE, record=AttemptOutcome.FAILED) for each in (stepped, pointed)]
    await world.source.exchange([*back, moved(held, State.HELD, record=AttemptOutcome.CRASHED, held_for=HeldFor.CRASH)])
    await world.source.enqueue_after(world.chance.uuid4(), [world.job()], After((jobs[3].id,)))
    done = await world.copy()
    assert done.moved == 1
    assert done.stay == {
        Stays.STEPS.value: 2,
        Stays.WORKFLOW.value: 1,
        Stays.HELD.value: 1,
        Stays.BLOCKED.value: 1,
    }
    assert len(await jobs_of(world.source)) == 5


async def test_what_else_the_source_has_is_named(world: World) -> None:
    await world.put(world.job())
    await world.work(world.source)
    await world.source.set_limit(Scope(ScopeKind.TASK, "mail"), Limit(concurrency=1), Origin())
    await world.source.set_queue("default", QueueSettings(weight=2))
    ids = world.chance.uuid4(), world.chance.uuid4()
    await world.source.record_action(
        AuditNote(id=ids[0], write=ids[1], who="ada", origin="app", action="prune", selector="{}"), 1
    )
    done = await world.copying().plan()
    assert done.not_copied == {"finished jobs": 1, "queues with settings": 1, "limits": 1, "actions of operators": 1}


async def test_a_plan_writes_nothing_and_counts_what_a_copy_then_does(world: World) -> None:
    first, *_ = await world.put(*(world.job() for _ in range(5)))
    await world.put(world.job(id=first), store=world.destination)
    await world.claim(world.source)
    before = world.source.snapshot(), world.destination.snapshot()
    plan = await world.copying().plan()
    assert (plan.moved, plan.already_there, plan.running) == (4, 0, 1)
    assert (world.source.snapshot(), world.destination.snapshot()) == before


@pytest.mark.parametrize("payload", [b"{}", b"[]"], ids=["same payload", "another payload"])
async def test_a_job_whose_unique_key_is_taken_stays_and_others_move(world: World, payload: bytes) -> None:
    await world.put(world.job(unique_key="one", payload=payload), store=world.destination)
    taken, _ = await world.put(world.job(unique_key="one"), world.job(unique_key="two"))
    done = await world.copy()
    assert (done.moved, done.stay) == (1, {Stays.KEY_TAKEN.value: 1})
    assert [*await jobs_of(world.source)] == [taken]
    await world.work(world.destination)
    assert (await world.copy()).moved == 1


async def test_a_job_of_another_task_with_its_id_is_left_alone(world: World) -> None:
    job = world.job()
    await world.put(job)
    await world.put(structs.replace(job, task="other"), store=world.destination)
    done = await world.copy()
    assert (done.moved, done.stay) == (0, {Stays.ID_TAKEN.value: 1})
    assert (await jobs_of(world.destination))[job.id].task == "other"


async def test_a_job_that_arrives_with_another_value_stays_at_the_source_only(world: World) -> None:
    altered, _ = await world.put(world.job(payload=b'"ab"'), world.job())
    writing = world.destination.enqueue

    async def enqueue(call: UUID, jobs: Any, **options: Any) -> Any:
        return await writing(call, [structs.replace(job, payload=job.payload[:-2] + b'"') for job in jobs], **options)

    world.destination.enqueue = enqueue  # type: ignore[method-assign]
    done = await world.copy()
    assert done.stay == {Stays.ALTERED.value: 2}
    assert altered in await jobs_of(world.source)
    assert await jobs_of(world.destination) == {}


async def test_a_copy_that_was_killed_before_it_read_a_job_back_compares_it_the_next_time(world: World) -> None:
    job = world.job(payload=b'"ab"')
    await world.put(job)
    await world.put(structs.replace(job, payload=b'"?"'), store=world.destination)
    assert (await world.copy()).stay == {Stays.ALTERED.value: 1}
    assert ([*await jobs_of(world.source)], await jobs_of(world.destination)) == ([job.id], {})


async def test_a_job_that_an_operator_starts_during_the_copy_is_taken_back(world: World) -> None:
    await world.put(world.job(), world.job())
    deleting = world.source.delete

    async def delete(ids: Any, **options: Any) -> Any:
        if not world.ran:
            await world.source.pause(["default"], is_paused=False)
            world.ran += [claim.job.id for claim in await world.claim(world.source)]
        return await deleting(ids, **options)

    world.source.delete = delete  # type: ignore[method-assign]
    done = await world.copy()
    assert done.moved == 1
    assert [*await jobs_of(world.source)] == world.ran
    assert not {*world.ran} & {*await jobs_of(world.destination)}


async def test_two_urls_of_one_store_are_refused_before_anything_is_deleted(world: World) -> None:
    ids = await world.put(world.job())
    world.destination = world.source
    with pytest.raises(ConfigurationError, match="--from and --to name the same store"):
        await world.copy()
    assert [*await jobs_of(world.source)] == ids
    assert [queue.name for queue in await world.source.queues()] == ["default"]
    await world.work(world.source)
    assert world.ran == ids


async def test_large_payloads_go_in_parts(world: World) -> None:
    await world.put(*(world.job(payload=b'"%s"' % (b"a" * 400_000)) for _ in range(7)))
    writing, sizes = world.destination.enqueue, list[int]()

    async def enqueue(call: UUID, jobs: Any, **options: Any) -> Any:
        sizes.append(len(jobs))
        return await writing(call, jobs, **options)

    world.destination.enqueue = enqueue  # type: ignore[method-assign]
    assert (await world.copy()).moved == 7
    assert sizes == [2, 2, 2, 1]
