"""Limits: how many jobs of the cluster, a task, a queue or a key are active at once; the active row is the slot."""

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from holdfast._core.answers import UNREAD
from holdfast._core.job import Claim, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.limits import KeyUse, Limit, Scope, ScopeKind
from holdfast._core.origin import Origin
from holdfast._core.requests import ClaimKind
from holdfast._core.schedule import Source
from holdfast._engine import store_defaults
from holdfast._ports.limits import Limits
from holdfast.testing.contracts.scene import Part, Scene, done, in_threads, needs, raised, released, rescued, story
from holdfast.testing.contracts.turns import Claimer

CRASH = LeaseEnd(RescueReason.CRASHED)
OPERATOR = Origin(Source.OPERATOR)
ALL = Scope(ScopeKind.ALL)


def task(name: str = "task") -> Scope:
    """Return the scope of a task."""
    return Scope(ScopeKind.TASK, name)


def queue(name: str = "default") -> Scope:
    """Return the scope of a queue."""
    return Scope(ScopeKind.QUEUE, name)


async def limit(at: Scene, scope: Scope, **limits: int | str) -> None:
    """Set a limit as an operator does."""
    await store_defaults.limits(at.store).set_limit(scope, Limit(**limits), OPERATOR)  # type: ignore[arg-type]


async def no_limits(at: Scene) -> None:
    """Check that a store without limits has none to claim from."""
    await at.enqueue(at.new())
    assert not (await at.store.exchange((), at.request(await at.lease(), 1))).has_limited
    assert not store_defaults.offers(at.store, Limits)


class LimitedClaimer(Claimer):
    """A worker whose claims take from limited lanes."""

    kind = ClaimKind.LIMITED


async def limited(at: Scene, tasks: Sequence[str] = ("task",)) -> LimitedClaimer:
    """Return a new worker that claims from limited lanes."""
    return LimitedClaimer(at, await at.lease(), tasks)


def ids(claims: Sequence[Claim]) -> list[UUID]:
    """Return the ids of the claimed jobs."""
    return [claim.job.id for claim in claims]


class CapacityContract(Part):
    """What a limit on active jobs promises."""

    @story
    @needs(Limits, no_limits)
    async def test_s12_no_more_jobs_of_a_queue_are_active_than_its_limit(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new() for _ in range(6)))
        await limit(at, queue(), concurrency=2)
        worker = await limited(at)
        first = await worker.claim(10)
        assert (ids(first), await worker.claim(10)) == ([*jobs[:2]], [])
        assert await (await limited(at)).claim(10) == []
        await at.settle(done(first[0].job))
        assert ids(await worker.claim(10)) == [jobs[2]]

    @story
    @needs(Limits, no_limits)
    async def test_s12_a_claim_that_settles_sees_the_slots_that_it_frees(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new() for _ in range(5)))
        await limit(at, task(), concurrency=2)
        worker = await limited(at)
        first = await worker.claim(5)
        answer = await at.store.exchange(
            [done(claim.job) for claim in first], at.request(worker.lease, 5, kind=ClaimKind.LIMITED, cursor=worker.cursor)
        )
        assert ids(answer.claims) == [*jobs[2:4]]

    @story
    @needs(Limits, no_limits)
    async def test_s12_claimed_jobs_and_those_of_dead_workers_hold_their_slots(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new() for _ in range(4)))
        await limit(at, queue(), concurrency=2)
        owner, worker = await at.lease(), await limited(at)
        answer = await at.store.exchange((), at.request(owner, 1, prefetch=5, kind=ClaimKind.LIMITED))
        assert [claim.job.state for claim in answer.claims] == [State.RUNNING, State.CLAIMED]
        await at.store.end_lease(owner, CRASH)
        assert await worker.claim(5) == []
        await at.settle(rescued(answer.claims[0].job, CRASH))
        assert ids(await worker.claim(5)) == [jobs[0]]

    @story
    @needs(Limits, no_limits)
    async def test_s12_a_job_that_waits_holds_no_slot(self, at: Scene) -> None:
        _, second, third = await at.enqueue(*(at.new() for _ in range(3)))
        await limit(at, queue(), concurrency=1)
        worker = await limited(at)
        (claim,) = await worker.claim(5)
        await at.settle(raised(claim.job))
        (claim,) = await worker.claim(5)
        assert claim.job.id == second
        await at.settle(released(claim.job))
        assert ids(await worker.claim(5)) == [second]
        assert await at.state(third) is State.AVAILABLE

    @story
    @needs(Limits, no_limits)
    async def test_s12_limits_hold_under_concurrent_claims(self, at: Scene) -> None:
        await at.enqueue(*(at.new(lane=key) for key in "abcd" for _ in range(15)))
        await limit(at, queue(), concurrency=7, per_key=3)
        requests = [at.request(await at.lease(), 5, kind=ClaimKind.LIMITED) for _ in range(8)]

        async def claim(request: object) -> tuple[Claim, ...]:
            store = at.another()
            try:
                return (await store.exchange((), request)).claims  # type: ignore[arg-type]
            finally:
                await store.close()

        found = in_threads(*(lambda each=each: claim(each) for each in requests))
        taken = [claim for claims in found for claim in claims]
        assert len(set(ids(taken))) == len(taken) <= 7
        assert max(Counter(claim.key for claim in taken).values()) <= 3
        assert len(taken) + len(await (await limited(at)).claim(10)) == 7

    @story
    @needs(Limits, no_limits)
    async def test_all_limits_of_a_job_are_judged_together(self, at: Scene) -> None:
        await at.enqueue(*(at.new(task=name, queue=line) for name in "ab" for line in "xy" for _ in range(5)))
        await limit(at, task("a"), concurrency=3)
        await limit(at, queue("x"), concurrency=4)
        await limit(at, ALL, concurrency=9)
        worker = await limited(at, "ab")
        found = Counter((claim.job.task, claim.job.queue) for claim in await worker.claim(100))
        assert found.total() == 9
        assert found["a", "x"] + found["a", "y"] <= 3
        assert found["a", "x"] + found["b", "x"] <= 4
        assert await worker.claim(100) == []

    @story
    @needs(Limits, no_limits)
    async def test_a_full_task_does_not_use_up_the_seats_of_its_queue(self, at: Scene) -> None:
        await at.enqueue(*(at.new(task="a") for _ in range(30)))
        at.advance(1.0)
        others = await at.enqueue(*(at.new(task="b") for _ in range(3)))
        await limit(at, task("a"), concurrency=1)
        await limit(at, queue(), concurrency=4)
        worker = await limited(at, "ab")
        (first,) = await worker.claim(1)
        assert first.job.task == "a"
        assert ids(await worker.claim(10)) == [*others]

    @story
    @needs(Limits, no_limits)
    async def test_per_key_limits_count_each_key_and_keys_take_turns(self, at: Scene) -> None:
        await at.enqueue(*(at.new(lane=key) for key in ["acme"] * 20 + ["b"] * 3 + [""] * 3))
        await limit(at, queue(), per_key=2)
        worker = await limited(at)
        first = await worker.claim(100)
        assert Counter(claim.key for claim in first) == {"acme": 2, "b": 2, "": 2}
        await at.settle(*(done(claim.job) for claim in first if claim.key == "acme"))
        assert Counter(claim.key for claim in await worker.claim(100)) == {"acme": 2}

    @story
    @needs(Limits, no_limits)
    async def test_l13_one_slot_of_a_queue_goes_round_its_keys(self, at: Scene) -> None:
        keys = [f"t{n:02}" for n in range(20)]
        await at.enqueue(*(at.new(lane=key) for key in keys for _ in range(3)))
        await limit(at, queue(), concurrency=1)
        worker, served = await limited(at), list[str]()
        for _ in range(40):
            (claim,) = await worker.claim(16)
            served.append(claim.key)
            await at.settle(done(claim.job))
        assert served == keys * 2

    @story
    @needs(Limits, no_limits)
    async def test_plain_claims_leave_limited_lanes_alone_and_answer_that_there_are_some(self, at: Scene) -> None:
        (bound, free) = await at.enqueue(at.new(queue="a"), at.new(queue="b"))
        lease = await at.lease()
        assert not (await at.store.exchange((), at.request(lease, 0))).has_limited
        await limit(at, queue("a"), concurrency=5)
        answer = await at.store.exchange((), at.request(lease, 5))
        assert (ids(answer.claims), answer.has_limited) == ([free], True)
        assert ids((await at.store.exchange((), at.request(lease, 5, ids=[bound]))).claims) == []
        answer = await at.store.exchange((), at.request(lease, 5, kind=ClaimKind.LIMITED))
        assert (ids(answer.claims), answer.has_limited) == ([bound], True)

    @story
    @needs(Limits, no_limits)
    async def test_priority_is_strict_among_limited_lanes(self, at: Scene) -> None:
        later, soon, urgent = await at.enqueue(at.new(priority=1), at.new(priority=0), at.new(lane="k", priority=-1))
        await limit(at, queue(), concurrency=1)
        worker, taken = await limited(at), []
        for _ in range(3):
            (claim,) = await worker.claim(5)
            taken.append(claim.job.id)
            await at.settle(done(claim.job))
        assert taken == [urgent, soon, later]

    @story
    @needs(Limits, no_limits)
    async def test_a_limit_that_is_raised_lowered_or_removed_counts_from_then_on(self, at: Scene) -> None:
        await at.enqueue(*(at.new() for _ in range(10)))
        await limit(at, queue(), concurrency=3)
        worker = await limited(at)
        first = await worker.claim(10)
        await limit(at, queue(), concurrency=1)
        await at.settle(done(first[0].job))
        assert await worker.claim(10) == []
        await limit(at, queue(), concurrency=4)
        assert len(await worker.claim(10)) == 2
        await store_defaults.limits(at.store).set_limit(queue(), None, OPERATOR)
        assert await worker.claim(10) == []
        answer = await at.store.exchange((), at.request(worker.lease, 10))
        assert (len(answer.claims), answer.has_limited) == (5, False)

    @story
    @needs(Limits, no_limits)
    async def test_jobs_that_run_when_a_limit_is_set_count(self, at: Scene) -> None:
        await at.enqueue(*(at.new() for _ in range(5)))
        await at.claim(await at.lease(), 2)
        await limit(at, queue(), concurrency=3)
        assert len(await (await limited(at)).claim(10)) == 1

    @story
    @needs(Limits, no_limits)
    async def test_a_limit_of_nothing_stops_its_queue(self, at: Scene) -> None:
        await at.enqueue(at.new())
        await limit(at, queue(), concurrency=0)
        assert await (await limited(at)).claim(10) == []
        assert await at.store.next_due(["task"]) is None

    @story
    @needs(Limits, no_limits)
    async def test_next_due_counts_no_job_whose_slots_are_taken(self, at: Scene) -> None:
        await at.enqueue(at.new(), at.new(), at.new(queue="b", delay=9.0))
        await limit(at, queue(), concurrency=1)
        assert await at.store.next_due(["task"]) == 0.0
        (claim,) = await (await limited(at)).claim(5)
        assert await at.store.next_due(["task"]) == 9.0
        await at.settle(done(claim.job))
        assert await at.store.next_due(["task"]) == 0.0

    @story
    @needs(Limits, no_limits)
    async def test_next_due_is_at_most_a_second_if_more_lanes_than_it_reads_can_give_no_job(self, at: Scene) -> None:
        lanes = [at.new(queue="a", lane=f"{number:03}") for number in range(256)]
        await at.enqueue(*lanes[:254], at.new(queue="b", delay=9.0))
        await limit(at, queue("a"), concurrency=0)
        assert await at.store.next_due(["task"]) == 9.0
        await at.enqueue(*lanes[254:], at.new(queue="c"))
        due = await at.store.next_due(["task"])
        assert due is not None
        assert due <= UNREAD

    @story
    @needs(Limits, no_limits)
    async def test_limits_are_listed_with_what_holds_them(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new(lane=key) for key in "abc"))
        await limit(at, queue(), concurrency=2, rate="60/m", burst=2)
        await store_defaults.limits(at.store).set_limit(task(), Limit(per_key=1), Origin(Source.CODE, ("old",)))
        owner = await at.lease(worker="web-1")
        await at.store.exchange((), at.request(owner, 2, kind=ClaimKind.LIMITED))
        at.advance(0.25)
        of_queue, of_task = await store_defaults.limits(at.store).limits()
        assert (of_queue.scope, of_task.scope) == (queue(), task())
        assert (of_queue.limit, of_task.limit) == (Limit(concurrency=2, rate="60/m", burst=2), Limit(per_key=1))
        assert (of_queue.active, of_queue.wait, of_queue.origin) == (2, 0.75, OPERATOR)
        assert [(holder.job, holder.worker, holder.held) for holder in of_queue.holders] == [
            (job, "web-1", 0.25) for job in jobs[:2]
        ]
        assert (of_task.active, of_task.wait, of_task.origin) == (2, 0.0, Origin(Source.CODE, ("old",)))
        await store_defaults.limits(at.store).set_limit(task(), None, OPERATOR)
        assert [view.scope for view in await store_defaults.limits(at.store).limits()] == [queue()]

    @story
    @needs(Limits, no_limits)
    async def test_limits_are_read_with_what_a_key_uses(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new(lane=key) for key in ("a", "a", "b")))
        await limit(at, queue(), per_key=2, rate_per_key="1/s", burst=2)
        await at.store.exchange((), at.request(await at.lease(worker="web-1"), 9, kind=ClaimKind.LIMITED))
        at.advance(0.25)
        (view,) = await store_defaults.limits(at.store).limits("a")
        assert view.of_key is not None
        assert (view.active, view.of_key.key, view.of_key.active, view.of_key.wait) == (3, "a", 2, 0.75)
        assert [holder.job for holder in view.of_key.holders] == [*jobs[:2]]
        (view,) = await store_defaults.limits(at.store).limits("c")
        assert view.of_key == KeyUse("c")
        (view,) = await store_defaults.limits(at.store).limits()
        assert view.of_key is None

    @story
    @needs(Limits, no_limits)
    async def test_l14_full_lanes_hide_no_free_lane(self, at: Scene) -> None:
        await at.enqueue(*(at.new(lane=f"t{n:03}") for n in range(200) for _ in range(2)))
        await limit(at, queue(), per_key=1)
        worker = await limited(at)
        assert sum([len(await worker.claim(50)) for _ in range(6)]) == 200
        (job,) = await at.enqueue(at.new(lane="z"))
        assert ids(await worker.claim(5)) == [job]
        assert await worker.claim(5) == []
