"""Many outcomes in one call are settled by several transactions on MongoDB, and each has its answer."""

from msgspec import structs

from holdfast._core.answers import Answer
from holdfast._core.job import State
from holdfast.stores.mongo.store import MOST_TOGETHER
from holdfast.testing.contracts.scene import Scene, done, raised, stale, story
from tests.contract.test_mongo import AtHome


class TestSettling(AtHome):
    @story
    async def test_each_of_many_outcomes_has_its_answer(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new() for _ in range(2 * MOST_TOGETHER + 1)))
        active = [each.job for each in await at.claim(await at.lease(), len(jobs))]
        lost = structs.replace(active[-1], token=stale(active[-1].token))
        answers = await at.settle(*(raised(each) for each in (*active[:-1], lost)))
        assert answers == (*[Answer.APPLIED] * (len(jobs) - 1), Answer.LOST)
        assert [await at.state(each.id) for each in (active[0], active[-2], active[-1])] == [
            State.SCHEDULED,
            State.SCHEDULED,
            State.RUNNING,
        ]

    @story
    async def test_of_two_outcomes_of_a_job_the_first_counts(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new() for _ in range(MOST_TOGETHER + 1)))
        active = [each.job for each in await at.claim(await at.lease(), len(jobs))]
        second = done(active[0])
        assert await at.settle(*map(raised, active), second) == (*[Answer.APPLIED] * len(jobs), Answer.LOST)
        assert await at.state(active[0].id) is State.SCHEDULED
