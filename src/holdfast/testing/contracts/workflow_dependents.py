"""Jobs that depend on jobs that exist already, whatever workflows these belong to, or none."""

from uuid import UUID

from msgspec import structs

from holdfast._core.answers import Answer, EnqueueAnswer
from holdfast._core.dependencies import After
from holdfast._core.job import ActiveJob, Reason, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, release
from holdfast._core.member import OnFailure
from holdfast._core.outcome import Cancel, Retry
from holdfast._core.policy import RETENTION_FLOOR, Backoff, CrashPolicy, Policy
from holdfast._core.record import JobRecord
from holdfast._core.workflow import FlowVerb
from holdfast._engine import store_defaults
from holdfast._ports.store import Store
from holdfast._ports.workflows import DependentJobs
from holdfast.errors import JobNotFound, Unsupported
from holdfast.testing.contracts.limiting import LATEST, LIMIT, seen, started
from holdfast.testing.contracts.scene import EARLY, Part, Scene, answered, done, needs, raised, rescued, stale, story
from holdfast.testing.contracts.workflow_children import added, waiting
from holdfast.testing.contracts.workflow_scene import FAILED, Graph, chain, verbs

AVAILABLE, BLOCKED, HELD = State.AVAILABLE, State.BLOCKED, State.HELD
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
    """Claim a job."""
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
    async def test_s18_a_dependent_that_was_scheduled_is_not_due_before(self, at: Scene) -> None:
        (parent,) = await at.enqueue(at.new())
        (child,) = await after(at, parent, delay=60.0)
        await complete(at, parent)
        assert await states(at, child) == [State.SCHEDULED]
        at.advance(61.0)
        await complete(at, child)

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

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s19_a_chain_of_dependents_fails_to_its_end_in_one_write(self, at: Scene) -> None:
        (first,) = await at.enqueue(at.new())
        jobs = [first]
        for _ in range(150):
            jobs += await after(at, jobs[-1])
        tolerant = (await after(at, jobs[-1], tolerates=True))[0]
        await fail(at, first)
        assert await states(at, jobs[1], jobs[-1], tolerant) == [LOST, LOST, AVAILABLE]
        assert await is_intact(at)
        await at.store.reopen([first])
        assert await states(at, first, jobs[1], jobs[-1]) == [AVAILABLE, BLOCKED, BLOCKED]
        assert await is_intact(at)
        await complete(at, *jobs[:3])
        assert await states(at, jobs[2], jobs[3], jobs[4]) == [DONE, AVAILABLE, BLOCKED]

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s18_a_parent_that_runs_again_takes_back_the_dependents_that_failed_because_of_it(self, at: Scene) -> None:
        first, second = await at.enqueue(at.new(), at.new())
        (both,), (lost,) = await after(at, first, second), await after(at, first)
        (behind,) = await after(at, lost)
        await complete(at, first)
        assert await states(at, both, lost, behind) == [BLOCKED, AVAILABLE, BLOCKED]
        await at.store.reopen([first])
        assert await states(at, both, lost, behind) == [BLOCKED, AVAILABLE, BLOCKED]
        assert await is_intact(at)
        await complete(at, second)
        assert await states(at, both) == [BLOCKED]
        await fail(at, first)
        assert await states(at, both, lost, behind) == [LOST, AVAILABLE, BLOCKED]
        await at.store.reopen([first])
        assert await states(at, both, lost, behind) == [BLOCKED, AVAILABLE, BLOCKED]
        await complete(at, first, lost)
        assert await states(at, both, lost, behind) == [AVAILABLE, DONE, AVAILABLE]
        assert await is_intact(at)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s18_a_dependent_that_is_retried_alone_counts_its_parents_again(self, at: Scene) -> None:
        first, second = await at.enqueue(at.new(), at.new())
        (child,) = await after(at, first, second)
        await fail(at, first)
        assert await states(at, child) == [LOST]
        assert (await at.store.reopen([child])).states == {child: LOST}
        await at.store.reopen([first])
        await complete(at, first, second, child)
        assert (await at.store.reopen([child])).states == {child: AVAILABLE}
        await complete(at, child)
        assert await is_intact(at)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s19_members_and_roots_of_workflows_are_parents_and_wait_for_no_dependent(self, at: Scene) -> None:
        graph, other = await chain(at, "a", "b").stored(), await chain(at, "c", "d").stored()
        (of_member,) = await after(at, graph.ids["a"])
        (of_root,) = await after(at, graph.ids["root"])
        (of_both,) = await after(at, graph.ids["b"], other.ids["c"])
        await graph.run("a")
        assert await states(at, of_member, of_root, of_both) == [AVAILABLE, BLOCKED, BLOCKED]
        await graph.run("b")
        assert await graph.root() is DONE
        assert await states(at, of_member, of_root, of_both) == [AVAILABLE, AVAILABLE, BLOCKED]
        await other.fail("c")
        assert await states(at, of_both) == [LOST]
        assert await other.states("c", "d", "root") == [LOST, LOST, LOST]
        assert await is_intact(at)
        await other.steer(FlowVerb.RETRY)
        assert await states(at, of_both) == [BLOCKED]
        assert await is_intact(at)
        await other.run("c")
        assert await states(at, of_both) == [AVAILABLE]

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s20_what_is_done_to_a_workflow_reaches_its_dependents_only_as_the_ends_of_their_parents(
        self, at: Scene
    ) -> None:
        graph = await Graph(at).add("a", on_failure=OnFailure.PAUSE).add("b").add("c", on_failure=OnFailure.CONTINUE).stored()
        (of_a,), (of_b,), (of_c,) = [await after(at, graph.ids[each]) for each in "abc"]
        await graph.fail("c")
        assert await states(at, of_a, of_b, of_c) == [BLOCKED, BLOCKED, AVAILABLE]
        await graph.fail("a")
        (later,) = await after(at, graph.ids["a"])
        assert await states(at, of_a, of_b, of_c, later) == [BLOCKED, BLOCKED, AVAILABLE, BLOCKED]
        assert await is_intact(at)
        await graph.steer(FlowVerb.RESUME, failed=OnFailure.CONTINUE)
        assert await states(at, of_a, of_b, later) == [AVAILABLE, BLOCKED, AVAILABLE]
        await graph.steer(FlowVerb.CANCEL)
        assert await states(at, of_a, of_b, of_c) == [AVAILABLE, LOST, AVAILABLE]
        await graph.steer(FlowVerb.RETRY)
        assert await states(at, of_a, of_b, of_c) == [AVAILABLE, BLOCKED, AVAILABLE]
        assert await is_intact(at)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s20_the_deadline_of_a_workflow_fails_its_dependents(self, at: Scene) -> None:
        graph = await Graph(at, deadline=10.0).add("a").stored()
        (child,) = await after(at, graph.ids["root"])
        at.advance(11.0)
        assert (await verbs(at.store).revive(9)).overdue == (graph.ids["root"],)
        assert await graph.root() is LOST
        assert await failed_because_of(at, child, "workflow did not complete")

    @story
    @needs(DependentJobs, no_dependents)
    async def test_l12_a_parent_may_still_wait_for_children_of_its_own(self, at: Scene) -> None:
        job = await at.running()
        (child,) = await after(at, job.id)
        graph = Graph(at)
        graph.ids = {"root": job.id}
        assert await at.settle(waiting(job, added(at, graph, "x"))) == (Answer.APPLIED,)
        assert await graph.states("root", "x") == [BLOCKED, AVAILABLE]
        await graph.run("x")
        assert await states(at, job.id, child) == [AVAILABLE, BLOCKED]
        await complete(at, job.id)
        assert await states(at, child) == [AVAILABLE]
        dependent = await start(at, child)
        graph.ids = {"root": child}
        assert await at.settle(waiting(dependent, added(at, graph, "y"))) == (Answer.APPLIED,)
        await graph.run("y")
        await complete(at, child)
        assert await is_intact(at)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_a_dependent_is_cancelled_alone(self, at: Scene) -> None:
        (parent,) = await at.enqueue(at.new())
        (child,) = await after(at, parent)
        (behind,) = await after(at, child)
        assert await at.store.request_cancel([child]) == {child: CANCELLED}
        assert (await at.row(child)).reason is Reason.BY_OPERATOR
        assert await states(at, parent, child, behind) == [AVAILABLE, CANCELLED, LOST]
        await complete(at, parent)
        assert await states(at, child, behind) == [CANCELLED, LOST]

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s27_a_parent_is_kept_while_a_dependent_waits_and_pruned_in_the_end(self, at: Scene) -> None:
        short, long = Policy(retention=60.0), Policy(retention=90 * 86_400.0)
        graph = await Graph(at, policy=short).add("a", policy=short).stored()
        parent, other = await at.enqueue(at.new(policy=short), at.new(policy=long))
        (child,) = await after(at, parent, graph.ids["a"], other, policy=long)
        (claim,) = await at.claim(await at.lease(), ids=[parent], policy=short)
        await at.settle(done(claim.job))
        (claim,) = await at.claim(await at.lease(), ids=[graph.ids["a"]], policy=short)
        await at.settle(done(claim.job))
        at.advance(RETENTION_FLOOR + 120.0)
        await at.store.prune(99)
        assert await at.store.delete([parent, graph.ids["a"], graph.ids["root"]]) == dict.fromkeys(
            (parent, graph.ids["a"], graph.ids["root"]), DONE
        )
        assert await states(at, child, parent, *graph.ids.values()) == [BLOCKED, DONE, DONE, DONE]
        assert await is_intact(at)
        await complete(at, other)
        assert await states(at, child) == [AVAILABLE]
        at.advance(1.0)
        await at.store.prune(99)
        assert [await at.store.get(each) for each in (parent, *graph.ids.values())] == [None] * 3
        assert await states(at, child) == [AVAILABLE]
        (claim,) = await at.claim(await at.lease(), ids=[child], policy=long)
        await at.settle(done(claim.job))
        assert (await at.store.reopen([child])).states == {child: AVAILABLE}
        (claim,) = await at.claim(await at.lease(), ids=[child], policy=short)
        await at.settle(done(claim.job))
        at.advance(91 * 86_400.0)
        while (await at.store.prune(99)).total:
            pass
        assert [await at.store.get(each) for each in (child, other)] == [None] * 2

    @story
    @needs(DependentJobs, no_dependents)
    async def test_a_failure_does_not_touch_dependents_that_run_or_have_ended(self, at: Scene) -> None:
        (parent,) = await at.enqueue(at.new())
        (active,), (over,) = await after(at, parent), await after(at, parent)
        await complete(at, parent, over)
        job, kept = await start(at, active), await at.row(over)
        await at.store.reopen([parent])
        await fail(at, parent)
        assert await states(at, active, over) == [State.RUNNING, DONE]
        assert await at.row(over) == kept
        assert await at.settle(raised(job)) == (Answer.APPLIED,)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s19_to_delete_a_waiting_parent_fails_its_dependents(self, at: Scene) -> None:
        keyed, other = at.new(key="k"), at.new()
        await at.enqueue(keyed, other)
        (child,), (either,) = await after(at, keyed.id, other.id), await after(at, keyed.id, other.id, required=1)
        (behind,), (late,) = await after(at, child), await after(at, keyed.id, other.id, tolerates=True)
        assert await at.store.delete([keyed.id]) == {}
        assert await at.store.get(keyed.id) is None
        assert await failed_because_of(at, child)
        assert await states(at, either, behind, late) == [BLOCKED, LOST, BLOCKED]
        assert await is_intact(at)
        await at.enqueue(at.new(key="k"))
        await complete(at, other.id)
        assert await states(at, either, late) == [AVAILABLE, AVAILABLE]
        assert await at.store.delete([child, either, behind]) == {}
        job = await start(at, late)
        assert await at.store.delete([late]) == {late: State.RUNNING}
        assert await at.settle(done(job)) == (Answer.APPLIED,)
        assert await at.store.delete([late]) == {}

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s19_a_purge_deletes_parents_and_dependents_that_wait_and_fails_those_of_other_queues(self, at: Scene) -> None:
        first, second, elsewhere = await at.enqueue(at.new(queue="mail"), at.new(queue="mail"), at.new())
        (child,), (released,) = await after(at, first), await after(at, elsewhere, queue="mail")
        await complete(at, elsewhere)
        graph = await Graph(at).add("a", queue="mail").stored()
        assert (await store_defaults.purge(at.store, "mail", 99)).jobs == 3
        assert [await at.store.get(each) for each in (first, second, released)] == [None] * 3
        assert await failed_because_of(at, child)
        assert await graph.states("a") == [AVAILABLE]
        assert await is_intact(at)
