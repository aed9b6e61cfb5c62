"""Rates: in any window of ``w`` seconds at most ``burst + w / T`` jobs start, for the whole scope or for each key."""

from collections import Counter

from holdfast._core.job import RescueReason
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.limits import Limit
from holdfast._engine import store_defaults
from holdfast._ports.limits import Limits
from holdfast.testing.contracts.capacity import ALL, OPERATOR, ids, limit, limited, no_limits, queue, task
from holdfast.testing.contracts.scene import EARLY, Part, Scene, done, needs, raised, released, rescued, story

CRASH = LeaseEnd(RescueReason.CRASHED)


class RateContract(Part):
    """What a limit on starts promises."""

    @story
    @needs(Limits, no_limits)
    async def test_s24_starts_are_spaced_evenly_without_a_burst(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new() for _ in range(5)))
        await limit(at, queue(), rate="30/m")
        worker = await limited(at)
        assert ids(await worker.claim(5)) == [jobs[0]]
        at.advance(2.0 - EARLY)
        assert await worker.claim(5) == []
        at.advance(EARLY)
        assert ids(await worker.claim(5)) == [jobs[1]]
        at.advance(20.0)
        assert ids(await worker.claim(5)) == [jobs[2]]

    @story
    @needs(Limits, no_limits)
    async def test_s24_a_burst_may_start_at_once_and_then_the_rate_holds(self, at: Scene) -> None:
        await at.enqueue(*(at.new() for _ in range(20)))
        await limit(at, task(), rate="10/s", burst=4)
        worker, numbers = await limited(at), list[int]()
        for _ in range(6):
            numbers.append(len(await worker.claim(20)))
            at.advance(0.25)
        assert numbers == [4, 2, 3, 2, 3, 2]

    @story
    @needs(Limits, no_limits)
    async def test_s24_each_key_has_its_own_rate(self, at: Scene) -> None:
        await at.enqueue(*(at.new(lane=key) for key in "aaab" for _ in range(3)))
        await limit(at, queue(), rate_per_key="1/s", burst=2)
        worker = await limited(at)
        assert Counter(claim.key for claim in await worker.claim(20)) == {"a": 2, "b": 2}
        at.advance(1.0)
        assert Counter(claim.key for claim in await worker.claim(20)) == {"a": 1, "b": 1}
        at.advance(1.0)
        assert Counter(claim.key for claim in await worker.claim(20)) == {"a": 1}

    @story
    @needs(Limits, no_limits)
    async def test_s24_retries_and_rescues_start_by_the_rate_and_nothing_is_refunded(self, at: Scene) -> None:
        (job,) = await at.enqueue(at.new())
        await limit(at, ALL, rate="1/s", burst=3)
        worker = await limited(at)
        (claim,) = await worker.claim(5)
        await at.settle(released(claim.job))
        (claim,) = await worker.claim(5)
        await at.store.end_lease(worker.lease, CRASH)
        await at.settle(rescued(claim.job, CRASH))
        other = await limited(at)
        assert ids(await other.claim(5)) == [job]
        (later,) = await at.enqueue(at.new())
        assert await other.claim(5) == []
        at.advance(1.0)
        assert ids(await other.claim(5)) == [later]

    @story
    @needs(Limits, no_limits)
    async def test_a_full_queue_uses_no_start_of_its_rate(self, at: Scene) -> None:
        await at.enqueue(*(at.new() for _ in range(9)))
        await limit(at, queue(), concurrency=1, rate="1/s", burst=3)
        worker = await limited(at)
        first = await worker.claim(5)
        for _ in range(3):
            assert await worker.claim(5) == []
        for _ in range(2):
            await at.settle(done(first[0].job))
            first = await worker.claim(5)
            assert len(first) == 1
        await at.settle(done(first[0].job))
        assert await worker.claim(5) == []

    @story
    @needs(Limits, no_limits)
    async def test_rates_of_several_scopes_are_judged_together(self, at: Scene) -> None:
        await at.enqueue(*(at.new(queue=line) for line in "ab" for _ in range(5)))
        await limit(at, queue("a"), rate="1/s")
        await limit(at, ALL, rate="1/s", burst=4)
        worker = await limited(at)
        found = Counter(claim.job.queue for claim in [*await worker.claim(10), *await worker.claim(10)])
        assert (found["a"], found.total() <= 4) == (1, True)

    @story
    @needs(Limits, no_limits)
    async def test_next_due_knows_when_the_next_start_is_allowed(self, at: Scene) -> None:
        await at.enqueue(at.new(), at.new())
        await limit(at, queue(), rate="1/5s")
        assert await at.store.next_due(["task"]) == 0.0
        await (await limited(at)).claim(1)
        at.advance(1.5)
        assert await at.store.next_due(["task"]) == 3.5

    @story
    @needs(Limits, no_limits)
    async def test_a_clock_that_was_set_back_does_not_stop_a_rate(self, at: Scene) -> None:
        await at.enqueue(*(at.new() for _ in range(9)))
        await limit(at, queue(), rate="1/s", burst=2)
        worker = await limited(at)
        assert len(await worker.claim(9)) == 2
        at.step_wall(-3600.0)
        more = await at.enqueue(*(at.new() for _ in range(9)))  # those before are not due for an hour
        assert len(await worker.claim(9)) == 1
        assert not await worker.claim(9)
        at.advance(1.0)
        (next_one,) = ids(await worker.claim(9))
        assert next_one in more

    @story
    @needs(Limits, no_limits)
    async def test_rates_that_are_unused_again_are_pruned(self, at: Scene) -> None:
        await at.enqueue(*(at.new(lane=key) for key in "abc"))
        await limit(at, queue(), rate_per_key="1/s")
        worker = await limited(at)
        assert len(await worker.claim(9)) == 3
        at.advance(2.0)
        await at.store.prune(100)
        await at.enqueue(at.new(lane="a"), at.new(lane="a"))
        assert len(await worker.claim(9)) == 1

    @story
    @needs(Limits, no_limits)
    async def test_a_limit_that_is_removed_forgets_its_starts(self, at: Scene) -> None:
        await at.enqueue(*(at.new() for _ in range(3)))
        await limit(at, queue(), rate="1/h")
        worker = await limited(at)
        (claim,) = await worker.claim(3)
        await at.settle(raised(claim.job))
        await store_defaults.limits(at.store).set_limit(queue(), None, OPERATOR)
        await store_defaults.limits(at.store).set_limit(queue(), Limit(rate="1/h"), OPERATOR)
        assert len(await worker.claim(3)) == 1
