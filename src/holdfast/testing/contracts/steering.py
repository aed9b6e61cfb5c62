"""Steer: an operator's verb reaches a chosen job only if the job still matches when it is written."""

from collections.abc import Awaitable, Callable
from uuid import UUID

from holdfast._core.job import Reason, State
from holdfast._core.outcome import Fail
from holdfast._core.requests import JobFilter, Steer, SteerVerb
from holdfast._engine import store_defaults
from holdfast.testing.contracts.scene import Part, Scene, answered, done, story


async def ended(at: Scene, *, well: bool) -> UUID:
    """Run a job to its end, and return its id."""
    job = await at.running()
    await at.settle(done(job) if well else answered(job, Fail("no")))
    return job.id


async def begin(at: Scene, job: UUID) -> None:
    """Have a worker claim the job."""
    assert [claim.job.id for claim in (await at.store.exchange((), at.request(await at.lease(), ids=[job]))).claims] == [job]


async def due_now(at: Scene, job: UUID) -> None:
    """Make a job due that was scheduled."""
    await at.store.reschedule([job])


async def run_again(at: Scene, job: UUID) -> None:
    """Make a finished job available again."""
    await at.store.reopen([job])


async def completed_since(at: Scene, job: UUID) -> None:
    """Run a failed job once more, which now completes."""
    await at.store.reopen([job])
    answer = await at.store.exchange((), at.request(await at.lease(), ids=[job]))
    await at.settle(done(answer.claims[0].job))


Make = Callable[[Scene], Awaitable[UUID]]
Move = Callable[[Scene, UUID], Awaitable[None]]


async def waiting(at: Scene) -> UUID:
    """Enqueue a job that is due."""
    return (await at.enqueue(at.new()))[0]


async def scheduled(at: Scene) -> UUID:
    """Enqueue a job that is due later."""
    return (await at.enqueue(at.new(delay=100.0)))[0]


async def completed(at: Scene) -> UUID:
    """Make a completed job."""
    return await ended(at, well=True)


async def failed(at: Scene) -> UUID:
    """Make a failed job."""
    return await ended(at, well=False)


CASES: tuple[tuple[Steer, JobFilter, Make, Move, State | None], ...] = (
    (Steer(SteerVerb.CANCEL), JobFilter(state=State.AVAILABLE), waiting, begin, State.CANCELLED),
    (Steer(SteerVerb.CANCEL), JobFilter(state=State.SCHEDULED), scheduled, due_now, State.CANCELLED),
    (Steer(SteerVerb.RESCHEDULE, delay=50.0), JobFilter(state=State.SCHEDULED), scheduled, due_now, State.SCHEDULED),
    (Steer(SteerVerb.REOPEN), JobFilter(reason=Reason.PERMANENT), failed, completed_since, State.AVAILABLE),
    (Steer(SteerVerb.DELETE), JobFilter(state=State.COMPLETED), completed, run_again, None),
)


class SteerContract(Part):
    """What an operator's verb with a selector promises."""

    @story
    async def test_a_verb_changes_chosen_jobs_that_still_match_and_no_others(self, at: Scene) -> None:
        for how, which, make, move, becomes in CASES:
            stays, moves, unnamed = await make(at), await make(at), await make(at)
            await move(at, moves)
            before = [await at.row(moves), await at.row(unnamed)]
            unknown = at.chance.uuid4()
            answer = await store_defaults.steer(at.store, how, [stays, moves, unknown], which)
            assert answer.left == {moves, unknown}, how
            after = {moves: before[0].state} if becomes is None else {moves: before[0].state, stays: becomes}
            assert answer.states == after, how
            assert [await at.row(moves), await at.row(unnamed)] == before, how
            row = await at.store.get(stays)
            assert (None if row is None else row.state) == becomes, how
            await at.store.delete([stays, unnamed])
            await at.store.request_cancel([moves])
