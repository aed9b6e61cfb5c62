"""Fencing: in a call about several jobs each has its own token, and no other one's."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import Answer
from holdfast._core.job import ActiveJob, RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.outcome import Fail, Snooze
from holdfast._core.policy import CrashPolicy, Policy
from holdfast._core.requests import AttemptNote, ProgressUpdate
from holdfast.testing.contracts.scene import Part, Scene, answered, done, raised, rescued, story

CRASH = LeaseEnd(RescueReason.CRASHED)


async def pair(at: Scene, *, running: bool = True) -> tuple[ActiveJob, ActiveJob]:
    """Claim two jobs at once, in a separate queue."""
    queue = str(at.chance.uuid4())
    await at.enqueue(at.new(queue=queue), at.new(queue=queue))
    limit, prefetch = (2, 0) if running else (0, 2)
    one, two = await at.claim(await at.lease(), limit, prefetch=prefetch, queues=(queue,))
    return one.job, two.job


def swapped(one: ActiveJob, two: ActiveJob) -> tuple[ActiveJob, ActiveJob]:
    """Return each with the other's token."""
    return structs.replace(one, token=two.token), structs.replace(two, token=one.token)


async def in_every_place(at: Scene) -> dict[State, UUID]:
    """Make a job in each state that an operator can find it in."""
    available, scheduled = await at.enqueue(at.new(), at.new(delay=60.0))
    held, completed, failed = [await at.running(policy=Policy(on_crash=CrashPolicy.HOLD)) for _ in range(3)]
    await at.store.end_lease(held.lease, CRASH)
    await at.settle(rescued(held, CRASH), done(completed), answered(failed, Fail("no")))
    return {
        State.AVAILABLE: available,
        State.SCHEDULED: scheduled,
        State.HELD: held.id,
        State.CLAIMED: (await at.prefetched()).id,
        State.RUNNING: (await at.running()).id,
        State.COMPLETED: completed.id,
        State.FAILED: failed.id,
    }


class FenceContract(Part):
    """What is promised to jobs that are written in one call."""

    @story
    async def test_swapped_tokens_move_nothing(self, at: Scene) -> None:
        one, two = await pair(at)
        for move in (done, raised, lambda active: answered(active, Snooze(for_="1s"))):
            assert await at.settle(*map(move, swapped(one, two))) == (Answer.LOST, Answer.LOST)
            (job,) = await at.enqueue(at.new())
            answer = await at.store.exchange([*map(move, swapped(one, two))], at.request(one.lease))
            assert (answer.answers, [claim.job.id for claim in answer.claims]) == ((Answer.LOST, Answer.LOST), [job])
        assert [await at.state(active.id) for active in (one, two)] == [State.RUNNING] * 2
        assert await at.settle(done(one), done(two)) == (Answer.APPLIED, Answer.APPLIED)

    @story
    async def test_swapped_tokens_start_nothing(self, at: Scene) -> None:
        one, two = await pair(at, running=False)
        asked = [(job.id, job.token) for job in swapped(one, two)]
        assert await at.store.start(asked) == {one.id, two.id}
        assert [await at.state(job.id) for job in (one, two)] == [State.CLAIMED] * 2

    @story
    async def test_swapped_tokens_report_nothing(self, at: Scene) -> None:
        one, two = await pair(at)
        updates = [ProgressUpdate(job=job.id, token=job.token, stage="s") for job in swapped(one, two)]
        assert await at.store.report(updates) == {one.id, two.id}
        assert [(await at.row(job.id)).stage for job in (one, two)] == [None, None]

    @story
    async def test_swapped_tokens_note_nothing(self, at: Scene) -> None:
        one, two = await pair(at)
        await at.settle(raised(one), raised(two))
        await at.store.annotate([AttemptNote(job=job.id, token=job.token, stacks="s") for job in swapped(one, two)])
        assert [(await at.row(job.id)).attempts[0].stacks for job in (one, two)] == [None, None]

    @story
    async def test_each_job_of_a_call_is_answered_for_itself(self, at: Scene) -> None:
        waiting, over = (State.AVAILABLE, State.SCHEDULED, State.HELD), (State.COMPLETED, State.FAILED)

        async def answers(verb: Callable[[Sequence[UUID]], Awaitable[Mapping[UUID, State]]]) -> dict[State, State]:
            jobs = await in_every_place(at)
            found = await verb([*jobs.values(), at.chance.uuid7()])
            assert set(found) <= set(jobs.values())
            changed = {state: found[job] for state, job in jobs.items() if found.get(job) is not state and job in found}
            assert [state for state, job in jobs.items() if job not in found] in ([], [*waiting, *over])
            return changed

        assert await answers(at.store.request_cancel) == dict.fromkeys(waiting, State.CANCELLED)
        assert await answers(at.store.reschedule) == {State.SCHEDULED: State.AVAILABLE}
        assert await answers(lambda ids: at.store.reschedule(ids, delay=9.0)) == {State.AVAILABLE: State.SCHEDULED}
        assert await answers(at.store.delete) == {}

        async def reopened(ids: Sequence[UUID]) -> Mapping[UUID, State]:
            return (await at.store.reopen(ids)).states

        assert await answers(reopened) == dict.fromkeys((*waiting[1:], *over), State.AVAILABLE)

    @story
    async def test_a_job_that_never_was_is_missing_among_all_others(self, at: Scene) -> None:
        await in_every_place(at)
        job, over = await at.running(), await at.running()
        await at.settle(raised(job), done(over))
        for settle in (raised(job), done(over)):
            assert await at.settle(settle) == (Answer.APPLIED,)
            assert await at.settle(structs.replace(settle, job=at.chance.uuid7())) == (Answer.MISSING,)

    @story
    async def test_of_several_tokens_those_that_hold_are_obeyed(self, at: Scene) -> None:
        one, two = await pair(at)
        late = [Token(two.token.claim, two.token.number - 1), Token(at.chance.uuid4(), two.token.number)]
        for token in late:
            answers = await at.settle(done(structs.replace(two, token=token)), raised(one))
            assert answers == (Answer.LOST, Answer.APPLIED)
            await at.enqueue(at.new())
            answer = await at.exchange(done(structs.replace(two, token=token)), at.request(one.lease))
            assert (answer.answers, len(answer.claims)) == ((Answer.LOST,), 1)
        updates = [ProgressUpdate(job=job.id, token=job.token, stage="s") for job in (one, two)]
        assert await at.store.report(updates) == {one.id}
        assert await at.settle(done(two)) == (Answer.APPLIED,)
