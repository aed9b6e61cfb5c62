"""Claims of jobs that a transport delivered, and the look at what could be delivered again."""

from datetime import timedelta
from uuid import UUID

from holdfast._core.answers import DueJob
from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.policy import Policy
from holdfast._core.requests import IsolatedJobs
from holdfast._engine import store_defaults
from holdfast._ports.store import Republishing
from holdfast.testing.contracts.isolating import with_last_try
from holdfast.testing.contracts.scene import EARLY, TTL, Part, Scene, done, needs, nothing_due, raised, rescued, story

UNKNOWN_LEASE = UUID(int=7)


class DeliverContract(Part):
    """What a claim by ids promises, and what ``due`` answers."""

    @story
    async def test_a_claim_by_ids_takes_these_and_no_other(self, at: Scene) -> None:
        first, second, third = await at.enqueue(at.new(), at.new(), at.new())
        lease = await at.lease()
        assert [claim.job.id for claim in await at.claim(lease, 10, ids=[third, first])] == [first, third]
        assert await at.claim(lease, 10, ids=[]) == ()
        assert await at.state(second) is State.AVAILABLE
        assert [claim.job.id for claim in await at.claim(lease, 10)] == [second]

    @story
    async def test_more_ids_than_asked_are_taken_in_the_order_of_claims(self, at: Scene) -> None:
        jobs = [at.new(priority=priority, queue=queue) for priority in (1, 0) for queue in "abc"]
        ids = await at.enqueue(*jobs)
        lease = await at.lease()
        claims = await at.claim(lease, 2, prefetch=2, ids=ids)
        assert [claim.job.id for claim in claims] == [*ids[3:], ids[0]]
        assert [claim.job.state for claim in claims] == [State.RUNNING] * 2 + [State.CLAIMED] * 2
        assert await at.claim(lease, 0, ids=ids) == ()
        assert [claim.job.id for claim in await at.claim(lease, 9, ids=ids)] == list(ids[1:3])

    @story
    async def test_ids_that_come_twice_or_are_unknown_change_nothing(self, at: Scene) -> None:
        (job,) = await at.enqueue(at.new(payload=b'{"n": 1}'))
        lease = await at.lease()
        request = at.request(lease, 5, ids=[UNKNOWN_LEASE, job, job, UNKNOWN_LEASE])
        (claim,) = (await at.store.exchange((), request)).claims
        assert (claim.job.id, claim.job.state, claim.job.attempt, claim.payload) == (job, State.RUNNING, 1, b'{"n": 1}')
        assert claim.job.token.claim == request.claim
        assert (await at.row(job)).token == claim.job.token
        assert await at.store.held(lease) == (claim.job,)
        assert await at.claim(await at.lease(), 5, ids=[job]) == ()
        await at.settle(done(claim.job))
        assert await at.claim(lease, 5, ids=[job]) == ()

    @story
    async def test_ids_make_nothing_claimable_that_is_not(self, at: Scene) -> None:
        jobs = [
            at.new(delay=10.0),
            at.new(queue="paused"),
            at.new(queue="elsewhere"),
            at.new(task="unknown"),
            at.new(expires_in=1.0),
        ]
        ids = await at.enqueue(*jobs)
        await at.store.pause(["paused"], is_paused=True)
        at.advance(2.0)
        lease = await at.lease()
        assert await at.claim(lease, 10, queues=("default", "paused"), ids=ids) == ()
        await at.store.pause(["paused"], is_paused=False)
        at.advance(8.0 - EARLY)
        assert [claim.job.id for claim in await at.claim(lease, 10, queues=("default", "paused"), ids=ids)] == [ids[1]]
        at.advance(EARLY)
        claims = await at.claim(lease, 10, tasks=["task", "unknown"], ids=ids)
        assert {claim.job.id for claim in claims} == {ids[0], ids[2], ids[3]}

    @story
    async def test_last_tries_are_left_unless_they_are_asked_for(self, at: Scene) -> None:
        last, (plain,) = (await with_last_try(at)).id, await at.enqueue(at.new(task="last"))
        lease, both = await at.lease(), (plain, last)
        assert await at.claim(lease, 5, tasks=["last"], ids=[last]) == ()
        assert await at.claim(lease, 5, tasks=["last"], isolated=IsolatedJobs.ONLY, ids=[plain]) == ()
        claims = await at.claim(lease, 5, tasks=["last"], isolated=IsolatedJobs.INCLUDE, ids=both)
        assert [claim.job.id for claim in claims] == [last, plain]

    @story
    async def test_only_a_living_lease_claims_by_ids(self, at: Scene) -> None:
        (job,) = await at.enqueue(at.new())
        ended, old = await at.lease(), await at.lease()
        await at.store.end_lease(ended, LeaseEnd(RescueReason.CLOSED))
        assert await at.claim(ended, ids=[job]) == ()
        assert await at.claim(UNKNOWN_LEASE, ids=[job]) == ()
        at.advance(TTL + EARLY)
        assert await at.claim(old, ids=[job]) == ()
        assert await at.state(job) is State.AVAILABLE

    @story
    async def test_an_exchange_settles_and_claims_by_ids_in_one(self, at: Scene) -> None:
        active = await at.running()
        (job,) = await at.enqueue(at.new())
        answer = await at.exchange(done(active), at.request(active.lease, 3, ids=[job, active.id]))
        assert [claim.job.id for claim in answer.claims] == [job]
        assert await at.state(active.id) is State.COMPLETED

    @story
    async def test_numbers_go_on_for_every_way_of_claiming(self, at: Scene) -> None:
        lease, numbers = await at.lease(), []
        for ids in (True, False, True, True, False):
            (job,) = await at.enqueue(at.new())
            (claim,) = await at.claim(lease, ids=[job] if ids else None)
            numbers.append(claim.job.token.number)
            await at.settle(done(claim.job))
        assert numbers == sorted(set(numbers))

    @story
    async def test_an_active_job_names_its_queue(self, at: Scene) -> None:
        lease = await at.lease()
        await at.enqueue(at.new(queue="mail"), at.new(queue="post", policy=Policy(timeout=1.0)))
        claims = await at.claim(lease, 2, policy=Policy(timeout=1.0))
        assert [claim.job.queue for claim in claims] == ["mail", "post"]
        assert [job.queue for job in await at.store.held(lease)] == ["mail", "post"]
        for _ in range(10):
            at.advance(TTL - 1.0)
            await at.store.beat([lease])
        assert sorted(each.job.queue for each in await at.store.overdue(5)) == ["mail", "post"]

    @story
    @needs(Republishing, nothing_due)
    async def test_due_lists_what_a_claim_would_take_in_its_order(self, at: Scene) -> None:
        jobs = [at.new(priority=1), at.new(queue="b"), at.new(priority=-1), at.new(delay=5.0), at.new(task="unknown")]
        late, second, first, _, _ = await at.enqueue(*jobs)
        found = await store_defaults.due(at.store, ["task", "other"], 10)
        assert found == (DueJob(first, "default", 0), DueJob(second, "b", 0), DueJob(late, "default", 0))
        assert await store_defaults.due(at.store, ["task"], 2) == found[:2]
        assert await store_defaults.due(at.store, ["task"], 10, queues=("b",)) == found[1:2]
        assert await store_defaults.due(at.store, [], 10) == await store_defaults.due(at.store, ["task"], 10, queues=()) == ()
        assert [claim.job.id for claim in await at.claim(await at.lease(), 2)] == [each.job for each in found[:2]]
        assert await store_defaults.due(at.store, ["task"], 10) == found[2:]

    @story
    @needs(Republishing, nothing_due)
    async def test_due_leaves_out_what_no_claim_would_take(self, at: Scene) -> None:
        await at.enqueue(at.new(queue="paused"), at.new(expires_in=1.0))
        last = await with_last_try(at)
        await at.store.pause(["paused"], is_paused=True)
        at.advance(1.0)
        assert await store_defaults.due(at.store, ["task", "last"], 10) == ()
        found = await store_defaults.due(at.store, ["task", "last"], 10, isolated=IsolatedJobs.ONLY)
        assert found == (DueJob(last.id, "default", last.token.number),)

    @story
    @needs(Republishing, nothing_due)
    async def test_due_counts_its_age_from_when_a_job_became_due(self, at: Scene) -> None:
        (later,) = await at.enqueue(at.new(delay=3.0))
        (now,) = await at.enqueue(at.new())
        at.advance(5.0 - EARLY)
        assert await store_defaults.due(at.store, ["task"], 10, age=5.0) == ()
        at.advance(EARLY)
        assert [each.job for each in await store_defaults.due(at.store, ["task"], 10, age=5.0)] == [now]
        assert [each.job for each in await store_defaults.due(at.store, ["task"], 10, age=2.0)] == [now, later]

    @story
    @needs(Republishing, nothing_due)
    async def test_due_returns_which_wait_of_a_job_it_is(self, at: Scene) -> None:
        (job,) = await at.enqueue(at.new())
        (claim,) = await at.claim(await at.lease())
        await at.settle(raised(claim.job))
        at.advance(10.0)
        assert await store_defaults.due(at.store, ["task"], 10) == (DueJob(job, "default", claim.job.token.number),)
        (again,) = await at.claim(await at.lease())
        await at.store.end_lease(again.job.lease, LeaseEnd(RescueReason.CLOSED, is_free=True))
        await at.settle(rescued(again.job, LeaseEnd(RescueReason.CLOSED, is_free=True)))
        assert await store_defaults.due(at.store, ["task"], 10) == (DueJob(job, "default", again.job.token.number),)

    @story
    @needs(Republishing, nothing_due)
    async def test_an_instant_given_by_the_user_counts_too(self, at: Scene) -> None:
        (job,) = await at.enqueue(at.new(run_at=at.now + timedelta(seconds=4)))
        assert await store_defaults.due(at.store, ["task"], 10) == ()
        at.advance(4.0)
        assert [each.job for each in await store_defaults.due(at.store, ["task"], 10)] == [job]
