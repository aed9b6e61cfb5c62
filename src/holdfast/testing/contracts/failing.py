"""Failed jobs as errors: grouped by the fingerprint of their failure, listed and steered by it."""

from uuid import UUID

from holdfast._core.error_groups import MESSAGE_LIMIT, ErrorList
from holdfast._core.job import Failure, Reason, State
from holdfast._core.outcome import Invalid, Raised
from holdfast._core.policy import Policy
from holdfast._core.requests import JobFilter, Steer, SteerVerb
from holdfast._engine import store_defaults
from holdfast.testing.contracts.scene import Part, Scene, answered, done, raised, story

TRACE = 'Traceback (most recent call last):\n  File "/srv/shop/orders.py", line 7, in sync\nKeyError: 1\n'
FIRST, SECOND = "0123456789abcdef", "fedcba9876543210"


async def failing(at: Scene, key: str, message: str = "no", policy: Policy | None = None) -> UUID:
    """Let a job fail for good, a second after the last one; return its id."""
    at.advance(1.0)
    job = await at.running(policy=policy)
    assert await at.settle(answered(job, Raised(Failure("KeyError", message, TRACE, key=key), is_final=True)))
    return job.id


async def errors(at: Scene, look: int = 100, limit: int = 100) -> ErrorList:
    """Return the groups of failed jobs."""
    return await store_defaults.errors(at.store, look, limit)


class ErrorContract(Part):
    """What is promised about errors."""

    @story
    async def test_failed_jobs_are_grouped_by_their_key_and_described_by_the_newest(self, at: Scene) -> None:
        assert await errors(at) == ErrorList()
        old = [await failing(at, FIRST, "first"), await failing(at, SECOND, "other"), await failing(at, FIRST, "last")]
        await at.settle(done(await at.running()))
        await at.settle(raised(await at.running()))
        found = await errors(at)
        newest, other = found.groups
        rows = [await at.row(job) for job in old]
        assert (newest.key, newest.count, newest.message, newest.job) == (FIRST, 2, "last", old[2])
        assert (newest.task, newest.reason, newest.type) == ("task", Reason.HANDLER_ERROR, "KeyError")
        assert newest.where == "shop/orders.py:7 in sync"
        assert (newest.first_at, newest.last_at) == (rows[0].finished_at, rows[2].finished_at)
        assert (other.key, other.count, other.first_at, other.last_at) == (SECOND, 1, rows[1].finished_at, rows[1].finished_at)
        assert (found.kinds, found.looked_at, found.back_to) == (2, 3, rows[0].finished_at)

    @story
    async def test_a_look_at_errors_is_bounded_and_states_how_far_it_went(self, at: Scene) -> None:
        jobs = [await failing(at, key) for key in (FIRST, FIRST, SECOND, FIRST)]
        found = await errors(at, look=3, limit=1)
        assert [(group.key, group.count) for group in found.groups] == [(FIRST, 2)]
        assert (found.kinds, found.looked_at, found.back_to) == (2, 3, (await at.row(jobs[1])).finished_at)

    @story
    async def test_jobs_without_a_key_are_grouped_by_task_and_reason(self, at: Scene) -> None:
        late = [at.new(expires_in=1.0), at.new(task="other", expires_in=1.0), at.new(expires_in=1.0)]
        await at.enqueue(*late)
        at.advance(2.0)
        assert len(await at.store.expire(10)) == 3
        await failing(at, FIRST, "x" * 2 * MESSAGE_LIMIT)
        newest, *others = (await errors(at)).groups
        assert newest.message == "x" * MESSAGE_LIMIT + "…"
        assert {(group.key, group.task, group.reason, group.count) for group in others} == {
            ("", "task", Reason.EXPIRED, 2),
            ("", "other", Reason.EXPIRED, 1),
        }

    @story
    async def test_jobs_with_one_key_are_one_group_of_any_task_and_reason(self, at: Scene) -> None:
        failure = Failure("KeyError", "no", TRACE, key=FIRST)
        await failing(at, FIRST)
        await at.settle(answered(await at.running(), Invalid(Reason.RESULT_INVALID, failure)))
        await at.enqueue(at.new(task="other"))
        (claim,) = await at.claim(await at.lease(), 1, tasks=["other"])
        await at.settle(answered(claim.job, Raised(failure, is_final=True)))
        (group,) = (await errors(at)).groups
        assert (group.key, group.count) == (FIRST, 3)

    @story
    async def test_the_newest_job_of_a_group_ended_last_though_it_was_not_enqueued_last(self, at: Scene) -> None:
        early, late, other = [await at.running() for _ in range(3)]
        failures = [Raised(Failure("KeyError", "no", TRACE, key=key), is_final=True) for key in (FIRST, SECOND)]
        await at.settle(answered(late, failures[0]))
        at.advance(1.0)
        await at.settle(answered(early, failures[0]), answered(other, failures[1]))
        found = {group.key: group for group in (await errors(at)).groups}
        assert {key: group.job for key, group in found.items()} == {FIRST: early.id, SECOND: other.id}
        assert found[FIRST].last_at == found[SECOND].last_at

    @story
    async def test_a_stub_has_lost_its_error(self, at: Scene) -> None:
        job = await failing(at, FIRST, policy=Policy(retention=1.0))
        at.advance(2.0)
        await at.store.prune(10)
        assert (await at.row(job)).is_stub
        assert await errors(at) == ErrorList()
        assert await at.store.list(JobFilter(error_key=FIRST)) == ()

    @story
    async def test_lists_are_of_the_key_of_an_error_in_any_state(self, at: Scene) -> None:
        jobs = [await failing(at, key) for key in (FIRST, SECOND, FIRST)]
        waiting = await at.running()
        await at.settle(raised(waiting, Failure("KeyError", "no", TRACE, key=FIRST)))
        own = [waiting.id, jobs[2], jobs[0]]
        assert [row.id for row in await at.store.list(JobFilter(error_key=FIRST))] == own
        assert [row.id for row in await at.store.list(JobFilter(error_key=FIRST, state=State.FAILED))] == own[1:]
        assert [row.id for row in await at.store.list(JobFilter(error_key=FIRST, before=jobs[2]))] == own[2:]
        assert [row.id for row in await at.store.list(JobFilter(error_key=FIRST, limit=1))] == own[:1]
        for which in (JobFilter(error_key="0" * 16), JobFilter(error_key=""), JobFilter(error_key=FIRST, queue="other")):
            assert await at.store.list(which) == ()

    @story
    async def test_only_jobs_that_still_have_that_error_are_retried_by_its_key(self, at: Scene) -> None:
        first, second = await failing(at, FIRST), await failing(at, SECOND)
        which = JobFilter(error_key=FIRST, state=State.FAILED)
        answer = await store_defaults.steer(at.store, Steer(SteerVerb.REOPEN), [first, second], which)
        assert answer.states == {first: State.AVAILABLE, second: State.FAILED}
        assert answer.left == {second}
        assert [group.key for group in (await errors(at)).groups] == [SECOND]
        assert await at.store.list(JobFilter(error_key=FIRST)) == ()
