"""Jobs that depend on jobs that exist already, which may belong to workflows."""

from uuid import UUID

from msgspec import structs

from holdfast._core.answers import Answer, EnqueueAnswer
from holdfast._core.dependencies import After
from holdfast._core.job import ActiveJob, Reason, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, release
from holdfast._core.outcome import Cancel, Retry
from holdfast._core.policy import Backoff, CrashPolicy, Policy
from holdfast._core.record import JobRecord
from holdfast._core.requests import JobFilter
from holdfast._core.workflow import FlowVerb, SteerFlow
from holdfast._engine import store_defaults
from holdfast._ports.store import Store
from holdfast._ports.workflows import DependentJobs
from holdfast.errors import JobNotFound, Unsupported
from holdfast.testing.contracts.limiting import LATEST, LIMIT, seen, started
from holdfast.testing.contracts.scene import EARLY, Part, Scene, answered, done, needs, rescued, stale, story
from holdfast.testing.contracts.workflow_children import added, waiting
from holdfast.testing.contracts.workflow_scene import FAILED, Graph, verbs

AVAILABLE, BLOCKED = State.AVAILABLE, State.BLOCKED
DONE, LOST, CANCELLED = State.COMPLETED, State.FAILED, State.CANCELLED
CRASH = LeaseEnd(RescueReason.CRASHED, "SIGKILL")


async def no_dependents(at: Scene) -> None:
    """Check that a store without this verb refuses such jobs, and names one that keeps them."""
    remedy = ""
    try:
        store_defaults.dependents(at.store)
    except Unsupported as error:
        remedy = str(error)
    assert "use one that does" in remedy


def dependents(store: Store) -> DependentJobs:
    """Return the store as one that has the verb."""
    return store_defaults.dependents(store)


async def after(
    at: Scene, *parents: UUID, required: int | None = None, tolerates: bool = False, number: int = 1, **options: object
) -> tuple[UUID, ...]:
    """Enqueue jobs after others, and return their ids."""
    jobs = [at.new(**options) for _ in range(number)]  # type: ignore[arg-type]
    wish = After(tuple(parents), required, tolerates)
    assert await dependents(at.store).enqueue_after(at.chance.uuid4(), jobs, wish) == EnqueueAnswer()
    return tuple(job.id for job in jobs)


async def start(at: Scene, job: UUID) -> ActiveJob:
    """Claim a job under a new lease."""
    (claim,) = await at.claim(await at.lease(), ids=[job])
    return claim.job


async def complete(at: Scene, *jobs: UUID) -> None:
    """Run jobs, one after the other."""
    for job in jobs:
        assert await at.settle(done(await start(at, job))) == (Answer.APPLIED,)


async def fail(at: Scene, *jobs: UUID) -> None:
    """Let jobs fail, one after the other."""
    for job in jobs:
        assert await at.settle(answered(await start(at, job), FAILED)) == (Answer.APPLIED,)


async def states(at: Scene, *jobs: UUID) -> list[State]:
    """Read the states of jobs."""
    return [await at.state(job) for job in jobs]


async def is_intact(at: Scene) -> bool:
    """Return whether the counters of all workflows are those of the states of their parents."""
    return (await verbs(at.store).revive(999)).repairs == ()


async def failed_because_of(at: Scene, job: UUID, *nodes: str) -> bool:
    """Return whether a job has failed because of these nodes."""
    row = await at.row(job)
    named = row.error is not None and all(node in row.error.message for node in nodes)
    return (row.state, row.reason) == (LOST, Reason.DEPENDENCY_FAILED) and named


def without(row: JobRecord) -> JobRecord:
    """Return a row without what others that depend on it change."""
    return structs.replace(row, member=None)


class DependentJobsContract(Part):
    """What is promised to jobs that depend on others, and to those on which they depend."""

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s18_a_job_runs_once_all_its_parents_have_completed(self, at: Scene) -> None:
        first, second, bystander = await at.enqueue(at.new(), at.new(), at.new())
        (child,) = await after(at, first, second)
        assert await states(at, first, second, bystander, child) == [AVAILABLE, AVAILABLE, AVAILABLE, BLOCKED]
        await complete(at, second)
        assert await states(at, child) == [BLOCKED]
        assert await is_intact(at)
        await complete(at, first)
        assert await states(at, child, bystander) == [AVAILABLE, AVAILABLE]
        await complete(at, child)
        assert await states(at, child) == [DONE]

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s18_a_plain_job_given_a_dependent_while_it_is_active_settles_and_releases_it(self, at: Scene) -> None:
        parent, plain = await at.running(), await at.running()
        assert parent.flow is None
        (child,) = await after(at, parent.id)
        assert await at.settle(done(plain), done(parent)) == (Answer.APPLIED, Answer.APPLIED)
        assert await states(at, plain.id, parent.id, child) == [DONE, DONE, AVAILABLE]
        assert await at.settle(done(parent)) == (Answer.APPLIED,)
        assert await states(at, child) == [AVAILABLE]
        await complete(at, child)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s19_every_way_to_end_an_active_parent_releases_or_fails_its_dependents(self, at: Scene) -> None:
        hold = Policy(on_crash=CrashPolicy.HOLD)
        fails = Policy(on_crash=CrashPolicy.FAIL)
        for outcome, expected in ((FAILED, LOST), (Cancel("no"), LOST), (Retry(after="0s"), BLOCKED)):
            job = await at.running()
            child, late = (*await after(at, job.id), *await after(at, job.id, tolerates=True))
            assert await at.settle(answered(job, outcome)) == (Answer.APPLIED,)
            assert await states(at, child, late) == [expected, AVAILABLE if expected is LOST else BLOCKED]
        for policy, expected in ((hold, BLOCKED), (fails, LOST), (Policy(), BLOCKED)):
            job = await at.running(policy=policy)
            (child,) = await after(at, job.id)
            await at.store.end_lease(job.lease, CRASH)
            assert await at.settle(rescued(job, CRASH)) == (Answer.APPLIED,)
            assert await states(at, child) == [expected]
        assert await is_intact(at)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s19_an_overrun_parent_fails_its_dependents(self, at: Scene) -> None:
        job = await started(at, Policy(timeout=LIMIT, backoff=Backoff.fixed("5s"), max_attempts=1))
        (child,) = await after(at, job.id)
        at.advance(LATEST + EARLY)
        await at.store.beat([job.lease])
        assert await at.settle(seen(job, RescueReason.TIMED_OUT)) == (Answer.APPLIED,)
        assert await states(at, job.id, child) == [LOST, LOST]

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s19_every_way_to_end_a_waiting_parent_fails_its_dependents(self, at: Scene) -> None:
        late, stopped, steered = await at.enqueue(at.new(expires_in=1.0), at.new(), at.new())
        children = [(await after(at, each))[0] for each in (late, stopped, steered)]
        assert await at.store.request_cancel([stopped]) == {stopped: CANCELLED}
        assert await states(at, *children) == [BLOCKED, LOST, BLOCKED]
        at.advance(2.0)
        assert [each.job for each in await at.store.expire(9)] == [late]
        assert await states(at, *children) == [LOST, LOST, BLOCKED]
        assert await failed_because_of(at, children[0], "task did not complete")
        assert await is_intact(at)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s18_parents_that_have_ended_are_counted_at_once(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new() for _ in range(3)))
        completed, failed, stopped = jobs
        await complete(at, completed)
        await fail(at, failed)
        await at.store.request_cancel([stopped])
        kept = [without(await at.row(job)) for job in jobs]
        (now,) = await after(at, completed)
        (lost,) = await after(at, completed, failed)
        (finished,) = await after(at, *jobs, tolerates=True)
        (either,) = await after(at, failed, completed, required=1)
        (neither,) = await after(at, failed, stopped, required=1)
        assert await states(at, now, lost, finished, either, neither) == [AVAILABLE, LOST, AVAILABLE, AVAILABLE, LOST]
        assert await failed_because_of(at, lost, "task did not complete")
        assert [without(await at.row(job)) for job in jobs] == kept
        assert await is_intact(at)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s18_joins_count_as_those_of_workflows_in_every_order(self, at: Scene) -> None:
        for outcomes, required, tolerates, expected in (
            ("sss", 1, False, [AVAILABLE] * 3),
            ("ffs", 1, False, [BLOCKED, BLOCKED, AVAILABLE]),
            ("fff", 1, False, [BLOCKED, BLOCKED, LOST]),
            ("sfs", 2, False, [BLOCKED, BLOCKED, AVAILABLE]),
            ("ff", 2, False, [BLOCKED, LOST]),
            ("sf", None, False, [BLOCKED, LOST]),
            ("ff", None, True, [BLOCKED, AVAILABLE]),
            ("fs", 1, True, [AVAILABLE, AVAILABLE]),
        ):
            parents = await at.enqueue(*(at.new() for _ in range(max(3, len(outcomes)) if required == 2 else len(outcomes))))
            (child,) = await after(at, *parents, required=required, tolerates=tolerates)
            seen = list[State]()
            for parent, outcome in zip(parents, outcomes, strict=False):
                await (complete(at, parent) if outcome == "s" else fail(at, parent))
                seen += await states(at, child)
            assert seen == expected, outcomes
            assert await is_intact(at)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_an_unknown_parent_is_named_and_nothing_is_stored(self, at: Scene) -> None:
        (parent,) = await at.enqueue(at.new())
        before, unknown, job, message = await at.row(parent), at.chance.uuid7(), at.new(), ""
        try:
            await dependents(at.store).enqueue_after(at.chance.uuid4(), [job], After((parent, unknown)))
        except JobNotFound as error:
            message = str(error)
        assert str(unknown) in message
        assert await at.store.get(job.id) is None
        assert await at.row(parent) == before
        await complete(at, parent)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_a_call_that_is_sent_again_inserts_once(self, at: Scene) -> None:
        (parent,), job, call = await at.enqueue(at.new()), at.new(), at.chance.uuid4()
        for _ in range(2):
            assert await dependents(at.store).enqueue_after(call, [job], After((parent,))) == EnqueueAnswer()
        await complete(at, parent)
        assert await dependents(at.store).enqueue_after(call, [job], After((parent,))) == EnqueueAnswer()
        assert await states(at, job.id) == [AVAILABLE]
        await complete(at, job.id)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_many_jobs_of_one_call_wait_for_the_same_parents(self, at: Scene) -> None:
        first, second = await at.enqueue(at.new(), at.new())
        released = await after(at, first, number=5)
        lost = await after(at, second, number=3)
        await complete(at, first)
        await fail(at, second)
        assert await states(at, *released, *lost) == [AVAILABLE] * 5 + [LOST] * 3
        assert await states(at, *await after(at, first, number=2), *await after(at, second, number=2)) == [
            AVAILABLE,
            AVAILABLE,
            LOST,
            LOST,
        ]
        assert await is_intact(at)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s20_of_jobs_that_wait_for_the_same_parent_only_a_paused_one_is_held(self, at: Scene) -> None:
        (parent,) = await at.enqueue(at.new())
        jobs = await after(at, parent, number=3)
        await verbs(at.store).steer_flow(jobs[1], SteerFlow(verb=FlowVerb.PAUSE))
        await complete(at, parent)
        assert await states(at, *jobs) == [AVAILABLE, State.HELD, AVAILABLE]

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s18_a_dependent_that_was_scheduled_is_not_due_before(self, at: Scene) -> None:
        (parent,) = await at.enqueue(at.new())
        (child,) = await after(at, parent, delay=60.0)
        await complete(at, parent)
        assert await states(at, child) == [State.SCHEDULED]
        at.advance(61.0)
        await complete(at, child)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_jobs_that_only_depend_on_each_other_are_not_listed_as_workflows(self, at: Scene) -> None:
        job, graph = await at.running(), await Graph(at).stored()
        await after(at, job.id, graph.ids["root"])
        parts = {row.id for row in await at.store.list(JobFilter(workflow=graph.ids["root"]))}
        assert parts == {*graph.ids.values()}
        which = JobFilter(only_workflows=True)
        assert [row.id for row in await at.store.list(which)] == [graph.ids["root"]]
        graph.ids = {"root": job.id}
        assert await at.settle(waiting(job, added(at, graph, "x"))) == (Answer.APPLIED,)
        assert job.id in [row.id for row in await at.store.list(which)]

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s18_a_zombie_releases_nothing(self, at: Scene) -> None:
        job = await at.running()
        (child,) = await after(at, job.id)
        zombie = structs.replace(done(job), token=stale(job.token))
        assert await at.settle(zombie) == (Answer.LOST,)
        await at.store.end_lease(job.lease, CRASH)
        assert await at.settle(rescued(job, CRASH)) == (Answer.APPLIED,)
        assert await at.settle(done(job)) == (Answer.LOST,)
        assert await states(at, child) == [BLOCKED]
        again = await start(at, job.id)
        assert await at.settle(done(job)) == (Answer.LOST,)
        assert await at.settle(release(again, code_ran=False)) == (Answer.APPLIED,)
        assert await states(at, child) == [BLOCKED]
        await complete(at, job.id)
        assert await states(at, child) == [AVAILABLE]
