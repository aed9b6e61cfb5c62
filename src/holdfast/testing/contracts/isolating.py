"""Isolated attempts: a job whose next crash would be its last runs in a separate worker, so that only it can be to blame."""

from datetime import UTC, datetime
from uuid import UUID

from msgspec import structs

from holdfast._core.job import ActiveJob, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.policy import Policy
from holdfast._core.requests import IsolatedJobs
from holdfast._engine import store_defaults
from holdfast._ports.store import Republishing
from holdfast.testing.contracts.scene import EARLY, Part, Scene, done, needs, nothing_due, raised, rescued, story

CRASH = LeaseEnd(RescueReason.CRASHED)
ONLY, ALSO, LEAVE = IsolatedJobs.ONLY, IsolatedJobs.INCLUDE, IsolatedJobs.EXCLUDE


async def crash(at: Scene, job: ActiveJob) -> None:
    """End the lease of a job as if its worker died, and rescue the job."""
    await at.store.end_lease(job.lease, CRASH)
    await at.settle(rescued(job, CRASH))


async def with_last_try(at: Scene, *, priority: int = 0, max_crashes: int = 2) -> ActiveJob:
    """Make a job that crashed; it waits in the default queue, and its next crash would be its last."""
    policy = Policy(max_crashes=max_crashes)
    (job,) = await at.enqueue(at.new(priority=priority, task="last", policy=policy))
    for _ in range(max_crashes - 1):
        (claim,) = await at.claim(await at.lease(), tasks=["last"], policy=policy)
        assert claim.job.id == job
        await crash(at, claim.job)
        at.advance(10.0)
    return claim.job


class LastTryContract(Part):
    """What claims promise about a job whose next crash would be its last: only claims that ask for it get it."""

    @story
    async def test_a_last_try_is_left_unless_it_is_asked_for(self, at: Scene) -> None:
        last, (plain,) = await with_last_try(at, priority=-1), await at.enqueue(at.new(task="last"))
        lease = await at.lease()
        assert [claim.job.id for claim in await at.claim(lease, 10, tasks=["last"])] == [plain]
        assert [claim.job.id for claim in await at.claim(lease, 10, tasks=["last"], isolated=ONLY)] == [last.id]

    @story
    async def test_only_means_nothing_else(self, at: Scene) -> None:
        last = await with_last_try(at, priority=9, max_crashes=3)
        await at.enqueue(at.new(task="last", priority=-9))
        claims = await at.claim(await at.lease(), 10, tasks=["last"], isolated=ONLY)
        assert [(claim.job.id, claim.job.crashes) for claim in claims] == [(last.id, 2)]

    @story
    async def test_include_means_in_the_usual_order(self, at: Scene) -> None:
        last, (later, sooner) = await with_last_try(at), await at.enqueue(at.new(task="last"), at.new(task="last", priority=-1))
        claims = await at.claim(await at.lease(), 10, tasks=["last"], isolated=ALSO)
        assert [claim.job.id for claim in claims] == [sooner, last.id, later]

    @story
    async def test_last_tries_hide_no_others_in_their_line_nor_others_them(self, at: Scene) -> None:
        early = [(await with_last_try(at)).id for _ in range(2)]
        plain = await at.enqueue(*(at.new(task="last") for _ in range(3)))
        (late,) = await at.enqueue(at.new(task="last", priority=-9, policy=Policy(max_crashes=2)))
        (claim,) = await at.claim(await at.lease(), tasks=["last"], policy=Policy(max_crashes=2))
        await crash(at, claim.job)
        lease = await at.lease()
        assert [claim.job.id for claim in await at.claim(lease, 2, tasks=["last"])] == list(plain[:2])
        claims = await at.claim(lease, 3, tasks=["last"], isolated=ONLY)
        assert [claim.job.id for claim in claims] == [late, *early]

    @story
    async def test_only_jobs_that_crashed_have_last_tries(self, at: Scene) -> None:
        policy = Policy(max_crashes=1, max_attempts=2)
        (job,) = await at.enqueue(at.new(policy=policy))
        lease = await at.lease()
        assert await at.claim(lease, policy=policy, isolated=ONLY) == ()
        (claim,) = await at.claim(lease, policy=policy)
        await at.settle(raised(claim.job))
        at.advance(10.0)
        (claim,) = await at.claim(lease, policy=policy)
        assert claim.job.id == job

    @story
    @needs(Republishing, nothing_due)
    async def test_a_job_that_may_expire_has_no_last_try_before_its_first(self, at: Scene) -> None:
        for is_by_ids in (False, True):
            (job,), lease = await at.enqueue(at.new(expires_in=60.0)), await at.lease()
            ids = [job] if is_by_ids else None
            assert await at.store.next_due(["task"], None, ONLY) is None
            assert await store_defaults.due(at.store, ["task"], 10, isolated=ONLY) == ()
            assert await at.claim(lease, isolated=ONLY, ids=ids) == ()
            assert await at.store.next_due(["task"]) == 0.0
            assert [each.job for each in await store_defaults.due(at.store, ["task"], 10)] == [job]
            assert [claim.job.id for claim in await at.claim(lease, ids=ids)] == [job]

    @story
    async def test_a_last_try_never_expires(self, at: Scene) -> None:
        last = await with_last_try(at)
        at.advance(1e6)
        assert await at.store.expire(10) == ()
        assert await at.state(last.id) is State.AVAILABLE

    @story
    @needs(Republishing, nothing_due)
    async def test_due_hides_nothing_behind_what_it_leaves_out(self, at: Scene) -> None:
        async def first(isolated: IsolatedJobs, age: float = 0.0) -> list[UUID]:
            return [due.job for due in await store_defaults.due(at.store, ["last"], 1, isolated=isolated, age=age)]

        gone, patient = await at.enqueue(at.new(task="last", expires_in=1.0), at.new(task="last", expires_in=600.0, delay=2.0))
        at.advance(2.0)
        assert await first(LEAVE) == [patient]
        await at.store.delete([gone, patient])
        last = await with_last_try(at)
        assert await first(ONLY) == [last.id]
        assert await first(ONLY, age=60.0) == []
        (plain,) = await at.enqueue(at.new(task="last"))
        assert await first(LEAVE) == [plain]
        (again,) = await at.enqueue(at.new(task="last", expires_in=600.0))
        await at.store.reschedule([again], run_at=datetime(1970, 1, 2, tzinfo=UTC))
        assert (await first(ONLY), await first(LEAVE)) == ([last.id], [again])
        await at.store.delete([again])
        assert await first(ALSO) == [last.id]

    @story
    async def test_a_first_crash_of_three_needs_no_isolation(self, at: Scene) -> None:
        job = await at.running(policy=Policy(max_crashes=3))
        await crash(at, job)
        lease = await at.lease()
        assert await at.claim(lease, isolated=ONLY) == ()
        assert len(await at.claim(lease)) == 1

    @story
    async def test_the_policy_on_the_row_decides(self, at: Scene) -> None:
        last = await with_last_try(at)
        lease, generous = await at.lease(), Policy(max_crashes=9)
        assert await at.claim(lease, tasks=["last"], policy=generous) == ()
        (claim,) = await at.claim(lease, tasks=["last"], policy=generous, isolated=ONLY)
        assert claim.job.id == last.id
        await crash(at, claim.job)
        at.advance(10.0)
        assert len(await at.claim(await at.lease(), tasks=["last"])) == 1

    @story
    async def test_a_reopened_job_has_tries_before_the_last(self, at: Scene) -> None:
        last = await with_last_try(at)
        (claim,) = await at.claim(await at.lease(), tasks=["last"], isolated=ONLY)
        await crash(at, structs.replace(claim.job, policy=Policy(max_crashes=2)))
        assert await at.state(last.id) is State.FAILED
        await at.store.reopen([last.id])
        lease = await at.lease()
        assert await at.claim(lease, tasks=["last"], isolated=ONLY) == ()
        assert len(await at.claim(lease, tasks=["last"])) == 1

    @story
    async def test_next_due_counts_what_the_claim_would_take(self, at: Scene) -> None:
        last = await with_last_try(at)
        await at.enqueue(at.new(task="last", delay=30.0))
        waits = [await at.store.next_due(["last"], None, each) for each in (LEAVE, ONLY, ALSO)]
        assert [round(wait or 0.0, 1) for wait in waits] == [30.0, 0.0, 0.0]
        (claim,) = await at.claim(await at.lease(), tasks=["last"], isolated=ONLY)
        await at.settle(done(claim.job))
        assert await at.store.next_due(["last"], None, ONLY) is None
        again = await at.store.next_due(["last"], ("default",), ALSO)
        assert again is not None
        assert abs(again - 30.0) < EARLY
        assert claim.job.id == last.id

    @story
    async def test_a_lease_shows_that_it_is_for_isolated_attempts(self, at: Scene) -> None:
        isolated = structs.replace(at.new_lease(), is_isolated=True, slots=1, grace=3.5)
        plain = structs.replace(at.new_lease(), slots=10)
        for lease in (isolated, plain):
            await at.store.open_lease(lease)
        views = {view.id: (view.is_isolated, view.slots, view.grace) for view in await at.store.workers()}
        assert views == {isolated.id: (True, 1, 3.5), plain.id: (False, 10, 20.0)}
        at.advance(1000.0)
        views = {view.id: (view.is_isolated, view.slots, view.grace) for view in await at.store.expired(10)}
        assert views == {isolated.id: (True, 1, 3.5), plain.id: (False, 10, 20.0)}

    @story
    async def test_s9_a_lease_for_isolated_attempts_holds_one_at_a_time_after_any_number_of_claims(self, at: Scene) -> None:
        busy = await at.lease()
        await at.enqueue(at.new())
        await at.claim(busy)
        for is_by_ids in (False, True):
            last = [(await with_last_try(at)).id for _ in range(2)]
            isolated = structs.replace(at.new_lease(), is_isolated=True, slots=1)
            await at.store.open_lease(isolated)
            request = at.request(isolated.id, tasks=["last"], isolated=ONLY, ids=last if is_by_ids else None)
            for _ in range(2):
                await at.store.exchange([], request)
            (job,) = await at.store.held(isolated.id)
            assert job.id == last[0]
            await at.settle(done(job))
            request = structs.replace(request, claim=at.chance.uuid4())
            (claim,) = (await at.store.exchange([], request)).claims
            assert claim.job.id == last[1]
            await at.settle(done(claim.job))
