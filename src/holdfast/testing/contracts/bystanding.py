"""Bystanders: an action on one job changes no other job, in any state and with any data."""

from collections.abc import Callable
from uuid import UUID

from holdfast._core.job import PLACE_OF, ActiveJob, Place, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, Transition
from holdfast._core.outcome import Cancel, Fail, Snooze
from holdfast._core.policy import CrashPolicy, Policy
from holdfast._core.record import JobRecord
from holdfast._core.requests import AttemptNote, ProgressUpdate
from holdfast._engine import store_defaults
from holdfast.testing.contracts.scene import Part, Scene, answered, done, raised, released, rescued, story

CRASH = LeaseEnd(RescueReason.CRASHED)
LONG = b'"' + b"x" * 5000 + b'"'
HOLD = Policy(on_crash=CrashPolicy.HOLD, has_rescue_hook=True)
FAIL = Policy(on_crash=CrashPolicy.FAIL, has_rescue_hook=True)
MARK = "of a bystander"


class Crowd:
    """Jobs in every state, each with a key, a long payload, a checkpoint and, if it ran, an attempt."""

    def __init__(self, at: Scene) -> None:
        self._at = at
        self.jobs: list[UUID] = []

    async def gather(self) -> None:
        """Make two of each, so that nothing depends on which comes first."""
        for _ in range(2):
            for job in [await self._waiting(0.0), await self._waiting(1e6), (await self._again(prefetch=True)).id]:
                self.jobs.append(job)
            for end in (
                None,
                done,
                raised,
                lambda active: answered(active, Fail("no")),
                lambda active: answered(active, Cancel("no")),
            ):
                active = await self._again()
                if end is not None:
                    await self._at.settle(end(active))
                self.jobs.append(active.id)
            for policy in (HOLD, FAIL, Policy(has_rescue_hook=True)):
                active = await self._again(policy=policy)
                await self._at.store.end_lease(active.lease, CRASH)
                await self._at.settle(rescued(active, CRASH))
                self.jobs.append(active.id)
        self._at.advance(1000.0)  # so that nothing becomes due during the test

    async def picture(self) -> list[object]:
        """Read all that can be seen of them."""
        rows = [await self._at.row(job) for job in self.jobs]
        leases = sorted((view.id, view.seen, view.holds) for view in await self._at.store.workers() if view.worker == MARK)
        return [*rows, leases, [await self._holder(row) for row in rows if PLACE_OF[row.state] is not Place.FINISHED]]

    async def _holder(self, row: JobRecord) -> object:
        answer = await self._at.send(self._at.new(task=row.task, key=row.unique_key, payload=LONG))
        return [each.job for each in answer.duplicates.values()]

    async def _waiting(self, delay: float) -> UUID:
        queue = str(self._at.chance.uuid4())
        job = self._at.new(queue=queue, delay=delay, key=f"key of {queue}", payload=LONG, policy=Policy(retention=1e6))
        await self._at.enqueue(job)
        return job.id

    async def _again(self, *, prefetch: bool = False, policy: Policy | None = None) -> ActiveJob:
        """Claim again a job that failed once and reported progress."""
        at, job = self._at, await self._waiting(0.0)
        queue, lease = (await at.row(job)).queue, await at.lease(worker=MARK)
        (claim,) = await at.claim(lease, queues=(queue,), policy=policy)
        await at.store.report([ProgressUpdate(job=job, token=claim.job.token, stage="s", checkpoint=b"1")])
        await at.settle(raised(claim.job))
        at.advance(2.0)
        limit, more = (0, 1) if prefetch else (1, 0)
        (claim,) = await at.claim(lease, limit, prefetch=more, queues=(queue,), policy=policy)
        return claim.job


async def settled(at: Scene) -> None:
    """Settle jobs in every way, by itself and together with a claim."""
    moves: list[Callable[[ActiveJob], Transition]] = [
        done,
        raised,
        released,
        lambda job: answered(job, Fail("no")),
        lambda job: answered(job, Snooze(for_="1s")),
    ]
    for place, move in enumerate(moves):
        await at.settle(move(await at.running(key=f"own {place}")))
        job = await at.running(key=f"own too {place}")
        await at.enqueue(at.new(queue="next"))
        await at.exchange(move(job), at.request(job.lease, queues=("next",)))


async def owned(at: Scene) -> None:
    """Start jobs, report on them, renew their lease, and take them from their owner."""
    job = await at.prefetched()
    assert await at.store.start([(job.id, job.token)]) == frozenset()
    await at.store.report([ProgressUpdate(job=job.id, token=job.token, stage="t", checkpoint=b"2")])
    await at.store.beat([job.lease], draining=True)
    await at.store.end_lease(job.lease, CRASH)
    await at.settle(rescued(job, CRASH))
    await at.store.annotate([AttemptNote(job=job.id, token=job.token, stacks="s", late_result=b"1")])


async def operated(at: Scene) -> None:
    """Do all that operators can do to a job that waits, runs and has finished; each answer is about that job only."""
    store = at.store
    (job,) = await at.enqueue(at.new(queue="own", key="own", payload=LONG))
    assert await store.reschedule([job], delay=5.0) == {job: State.SCHEDULED}
    assert (await store.reopen([job])).states == {job: State.AVAILABLE}
    (claim,) = await at.claim(await at.lease(), queues=("own",))
    for verb in (store.request_cancel, store.delete, store.reschedule):
        assert await verb([job]) == {job: State.RUNNING}
    assert (await store.reopen([job])).states == {job: State.RUNNING}
    await at.settle(done(claim.job))
    for verb in (store.request_cancel, store.reschedule):
        assert await verb([job]) == {job: State.COMPLETED}
    assert (await store.reopen([job])).states == {job: State.AVAILABLE}
    assert await store.request_cancel([job]) == {job: State.CANCELLED}
    assert await store.delete([job]) == {}
    await at.enqueue(at.new(queue="own", payload=LONG))
    assert (await store_defaults.purge(store, "own", 10)).jobs == 1


async def expired(at: Scene) -> None:
    """Let a job expire that no worker started in time."""
    await at.enqueue(at.new(queue="own", key="own", expires_in=1.0))
    at.advance(1.0)
    assert len(await at.store.expire(10)) == 1


class BystandContract(Part):
    """What is promised to jobs that a call does not name."""

    @story
    async def test_no_action_on_one_job_changes_another(self, at: Scene) -> None:
        crowd = Crowd(at)
        await crowd.gather()
        before = await crowd.picture()
        for deed in (settled, owned, operated, expired):
            await deed(at)
            assert await crowd.picture() == before, deed.__name__
