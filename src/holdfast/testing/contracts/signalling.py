"""Signals: each is consumed at most once, in order, and no job sleeps through one that it waits for."""

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import Answer
from holdfast._core.job import ActiveJob, AttemptOutcome, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.outcome import Cancel, Snooze, StepsChanged, Suspend
from holdfast._core.policy import RETENTION_FLOOR, Policy
from holdfast._core.requests import JobFilter
from holdfast._core.steps import FOREVER, MOST_SIGNALS, Signal, SignalAnswer, SignalTaken, StepRecord
from holdfast._core.uniqueness import Uniqueness
from holdfast._engine import store_defaults
from holdfast._ports.steps import Steps
from holdfast.testing.contracts.scene import (
    EARLY,
    Part,
    Scene,
    answered,
    done,
    in_threads,
    insist,
    needs,
    raised,
    released,
    rescued,
    stale,
    story,
)
from holdfast.testing.contracts.stepping import CHANGED, again, kept, no_steps, verbs

ACCEPTED, REFUSED, MISSING = SignalAnswer.ACCEPTED, SignalAnswer.REFUSED, SignalAnswer.MISSING
NOTHING, LOST = SignalTaken(), SignalTaken(is_lost=True)


def wait(nth: int = 1, place: int = 0) -> StepRecord:
    """Return the step of a wait that has no result yet."""
    return StepRecord(name=":wait_for:go", nth=nth, place=place, is_sequential=True)


async def send(at: Scene, job: UUID, value: bytes = b"1", *, name: str = "go", call: UUID | None = None) -> SignalAnswer:
    """Send a signal to a job."""
    return await verbs(at.store).signal(job, Signal(call or at.chance.uuid4(), name, value))


async def take(at: Scene, job: ActiveJob, step: StepRecord, name: str = "go") -> SignalTaken:
    """Consume a signal as the owner of the job."""
    return await verbs(at.store).take_signal(job.id, job.token, name, step)


async def suspended(at: Scene, seconds: float = FOREVER, *, awaits: str | None = "go") -> ActiveJob:
    """Suspend a new job until the signal comes, and return it as it was."""
    job = await at.running()
    assert await at.settle(answered(job, Suspend(seconds, awaits))) == (Answer.APPLIED,)
    return job


class SignalContract(Part):
    """What signals promise."""

    @story
    @needs(Steps, no_steps)
    async def test_s23_signals_are_consumed_once_and_in_their_order_under_the_token(self, at: Scene) -> None:
        job, other = await at.running(), await at.running()
        assert await send(at, other.id, b"9") is ACCEPTED
        for value, name in ((b"1", "go"), (b"2", "stop"), (b"3", "go")):
            assert await send(at, job.id, value, name=name) is ACCEPTED
        thief = structs.replace(job, token=stale(job.token))
        assert await take(at, thief, wait(7)) == LOST
        assert await take(at, structs.replace(job, token=structs.replace(job.token, claim=at.chance.uuid4())), wait(8)) == LOST
        assert await take(at, structs.replace(job, id=at.chance.uuid7()), wait(9)) == LOST
        assert await take(at, job, wait(1)) == SignalTaken(b"1")
        assert await take(at, job, wait(2, 1)) == SignalTaken(b"3")
        assert await take(at, job, wait(3, 2)) == NOTHING
        assert await take(at, other, wait()) == SignalTaken(b"9")
        assert await kept(at, job.id) == (structs.replace(wait(1), result=b"1"), structs.replace(wait(2, 1), result=b"3"))

    @story
    @needs(Steps, no_steps)
    async def test_s23_asking_again_for_a_step_answers_the_same_and_consumes_nothing(self, at: Scene) -> None:
        job = await at.running()
        await send(at, job.id, b"1")
        await send(at, job.id, b"2")
        assert await take(at, job, wait(1)) == await take(at, job, wait(1)) == SignalTaken(b"1")
        await verbs(at.store).record_step(job.id, job.token, wait(2, 1))
        assert await take(at, job, wait(2, 1)) == NOTHING
        assert await take(at, job, wait(3, 2)) == SignalTaken(b"2")

    @story
    @needs(Steps, no_steps)
    async def test_s23_of_two_copies_of_a_request_at_once_one_consumes(self, at: Scene) -> None:
        job = await at.running()
        for value in (b"1", b"2"):
            await send(at, job.id, value)
        in_threads(*[partial(verbs(at.another()).take_signal, job.id, job.token, "go", wait()) for _ in range(4)])
        (record,) = await kept(at, job.id)
        assert record.result == b"1"
        assert await take(at, job, wait(2)) == SignalTaken(b"2")

    @story
    @needs(Steps, no_steps)
    async def test_s23_a_lost_owner_consumes_nothing(self, at: Scene) -> None:
        job = await at.running()
        await send(at, job.id)
        await at.store.end_lease(job.lease, why := LeaseEnd(RescueReason.CRASHED))
        await at.settle(rescued(job, why))
        assert await take(at, job, wait()) == LOST
        owner = await again(at, job)
        assert await take(at, job, wait()) == LOST
        assert await take(at, owner, wait()) == SignalTaken(b"1")
        await send(at, job.id)
        await at.settle(done(owner))
        assert await take(at, owner, wait(2)) == LOST
        assert await kept(at, job.id) == (structs.replace(wait(), result=b"1"),)

    @story
    @needs(Steps, no_steps)
    async def test_s23_a_job_that_awaits_a_signal_is_blocked_until_it_comes(self, at: Scene) -> None:
        job, other = await suspended(at), await suspended(at)
        row = await at.row(job.id)
        assert (row.state, row.awaits, row.failures, row.attempts[0].outcome) == (State.BLOCKED, "go", 0, AttemptOutcome.SNOOZED)
        await at.store.next_due(["task"])
        assert await send(at, job.id, name="stop") is ACCEPTED
        assert await at.state(job.id) is State.BLOCKED
        assert await at.claim(await at.lease(), queues=(row.queue,)) == ()
        assert await send(at, job.id) is ACCEPTED
        row = await at.row(job.id)
        assert (row.state, row.awaits) == (State.AVAILABLE, None)
        assert await at.state(other.id) is State.BLOCKED
        assert await take(at, await again(at, job), wait()) == SignalTaken(b"1")

    @story
    @needs(Steps, no_steps)
    async def test_s23_a_job_that_suspends_after_its_signal_came_is_due_at_once(self, at: Scene) -> None:
        job, other = await at.running(), await at.running()
        await send(at, job.id)
        await send(at, other.id, name="stop")
        moves = [answered(each, Suspend(FOREVER, "go")) for each in (job, other)]
        assert await at.settle(*moves) == (Answer.APPLIED,) * 2
        row = await at.row(job.id)
        assert (row.state, row.awaits) == (State.AVAILABLE, None)
        assert await at.state(other.id) is State.BLOCKED
        assert await take(at, await again(at, job), wait()) == SignalTaken(b"1")

    @story
    @needs(Steps, no_steps)
    async def test_s23_signal_and_suspension_at_the_same_time_never_miss_each_other(self, at: Scene) -> None:
        for _ in range(12):
            job = await at.running()
            stores = at.another(), at.another()
            moves = partial(insist, stores[0], [answered(job, Suspend(FOREVER, "go"))])
            sends = partial(verbs(stores[1]).signal, job.id, Signal(at.chance.uuid4(), "go", b"1"))
            assert in_threads(moves, sends)[1] is ACCEPTED
            assert await at.state(job.id) is State.AVAILABLE
            assert await take(at, await again(at, job), wait()) == SignalTaken(b"1")

    @story
    @needs(Steps, no_steps)
    async def test_a_wait_is_over_at_its_timeout_and_a_later_wait_of_any_kind_forgets_the_signal(self, at: Scene) -> None:
        job = await suspended(at, 10.0)
        at.advance(10.0 - EARLY)
        assert await at.state(job.id) is State.BLOCKED
        at.advance(2 * EARLY)
        assert (await at.state(job.id)) is State.AVAILABLE
        owner = await again(at, job)
        assert (await at.row(job.id)).awaits is None
        await at.settle(answered(owner, Snooze(for_="1h")))
        row = await at.row(job.id)
        assert (row.state, row.awaits) == (State.SCHEDULED, None)
        await send(at, job.id)
        assert await at.state(job.id) is State.SCHEDULED

    @story
    @needs(Steps, no_steps)
    async def test_a_released_job_awaits_nothing(self, at: Scene) -> None:
        job = await suspended(at, 1.0)
        at.advance(1.0 + EARLY)
        owner = await again(at, job)
        await at.settle(released(owner, code_ran=True))
        row = await at.row(job.id)
        assert (row.state, row.awaits) == (State.AVAILABLE, None)

    @story
    @needs(Steps, no_steps)
    async def test_a_blocked_job_is_listed_counted_rescheduled_reopened_and_cancelled(self, at: Scene) -> None:
        jobs = [(await suspended(at)).id for _ in range(4)]
        (scheduled,) = await at.enqueue(at.new(delay=60.0))
        for state, ids in ((State.BLOCKED, jobs[::-1]), (State.SCHEDULED, [scheduled]), (State.AVAILABLE, [])):
            assert [row.id for row in await at.store.list(JobFilter(state=state))] == ids
        assert await at.store.counts() == {("", State.BLOCKED): 4, ("", State.SCHEDULED): 1}
        counted = {state: count for view in await at.store.queues() for state, count in view.counts.items()}
        assert counted == {State.BLOCKED: 1, State.SCHEDULED: 1}
        assert await at.store.reschedule([jobs[0]], delay=60.0) == {jobs[0]: State.BLOCKED}
        assert await at.store.reschedule([jobs[1]]) == {jobs[1]: State.AVAILABLE}
        assert (await at.store.reopen([jobs[2]])).states == {jobs[2]: State.AVAILABLE}
        assert (await at.row(jobs[2])).awaits is None
        assert await at.store.request_cancel([jobs[3]]) == {jobs[3]: State.CANCELLED}
        assert (await at.row(jobs[3])).awaits is None
        assert await send(at, jobs[0]) is ACCEPTED
        assert await at.state(jobs[0]) is State.AVAILABLE

    @story
    @needs(Steps, no_steps)
    async def test_who_may_be_signalled(self, at: Scene) -> None:
        waiting, held, prefetched = at.new(), await at.running(), await at.prefetched()
        await at.enqueue(waiting)
        await at.settle(answered(held, StepsChanged(CHANGED)))
        for job in (waiting.id, held.id, prefetched.id):
            assert await send(at, job) is ACCEPTED
        assert [await at.state(job) for job in (waiting.id, held.id)] == [State.AVAILABLE, State.HELD]
        over, failed = await at.running(), await at.running(policy=Policy(max_attempts=1))
        cancelled = await at.running()
        await at.settle(done(over), raised(failed), answered(cancelled, Cancel("no")))
        for job in (over.id, failed.id, cancelled.id):
            assert await send(at, job) is REFUSED
        assert await send(at, at.chance.uuid7()) is MISSING
        await at.store.reopen([failed.id])
        assert await take(at, await again(at, failed), wait()) == NOTHING

    @story
    @needs(Steps, no_steps)
    async def test_a_call_sent_again_early_or_late_keeps_one_signal(self, at: Scene) -> None:
        job, call = await at.running(), at.chance.uuid4()
        assert await send(at, job.id, call=call) is await send(at, job.id, call=call) is ACCEPTED
        assert await take(at, job, wait(1)) == SignalTaken(b"1")
        assert await send(at, job.id, call=call) is ACCEPTED
        assert await take(at, job, wait(2)) == NOTHING
        await at.settle(answered(job, Suspend(FOREVER, "go")))
        assert await send(at, job.id, call=call) is ACCEPTED
        assert await at.state(job.id) is State.BLOCKED
        await at.store.request_cancel([job.id])
        assert await send(at, job.id, call=call) is ACCEPTED
        assert await send(at, job.id) is REFUSED

    @story
    @needs(Steps, no_steps)
    async def test_copies_of_a_call_at_once_keep_one_signal(self, at: Scene) -> None:
        job = await suspended(at)
        signal = Signal(at.chance.uuid4(), "go", b"1")
        assert in_threads(*[partial(verbs(at.another()).signal, job.id, signal) for _ in range(4)]) == (ACCEPTED,) * 4
        owner = await again(at, job)
        assert await take(at, owner, wait(1)) == SignalTaken(b"1")
        assert await take(at, owner, wait(2)) == NOTHING

    @story
    @needs(Steps, no_steps)
    async def test_each_job_keeps_a_limited_number_of_signals(self, at: Scene) -> None:
        job, other = await at.running(), await at.running()
        calls = [at.chance.uuid4() for _ in range(MOST_SIGNALS)]
        for call in calls:
            assert await send(at, job.id, b"0", name="stop", call=call) is ACCEPTED
        assert await send(at, job.id) is SignalAnswer.FULL
        assert await send(at, job.id, call=calls[0]) is ACCEPTED
        assert await send(at, other.id) is ACCEPTED
        assert await take(at, job, wait(), "stop") == SignalTaken(b"0")
        assert await send(at, job.id) is ACCEPTED
        assert await send(at, job.id) is SignalAnswer.FULL

    @story
    @needs(Steps, no_steps)
    async def test_signals_go_with_their_job(self, at: Scene) -> None:
        completed, deleted, purged, kept_one = await at.running(), await suspended(at), await suspended(at), await suspended(at)
        ids = [completed.id, deleted.id, purged.id, kept_one.id]
        for job in ids:
            await send(at, job, name="stop")
        await at.settle(structs.replace(done(completed), forgets_steps=True))
        await at.store.delete([deleted.id])
        await store_defaults.purge(at.store, (await at.row(purged.id)).queue, 10)
        await at.store.reopen([completed.id], is_fresh=True)
        assert await take(at, await again(at, completed), wait(), "stop") == NOTHING
        await enqueued_again(at, [deleted.id, purged.id])
        await at.store.reopen([kept_one.id], is_fresh=True)
        for gone, answer in ((deleted, NOTHING), (purged, NOTHING), (kept_one, SignalTaken(b"1"))):
            assert await take(at, await again(at, gone), wait(), "stop") == answer

    @story
    @needs(Steps, no_steps)
    async def test_signals_of_finished_jobs_are_pruned_with_them(self, at: Scene) -> None:
        job, later = await at.running(policy=Policy(retention=0.0)), await at.running(policy=Policy(retention=1e6))
        for each in (job, later):
            await send(at, each.id)
            await at.settle(done(each))
        at.advance(RETENTION_FLOOR + EARLY)
        await at.store.prune(1000)
        assert await at.store.get(job.id) is None
        await enqueued_again(at, [job.id])
        await at.store.reopen([later.id])
        assert await take(at, await again(at, job), wait()) == NOTHING
        assert await take(at, await again(at, later), wait()) == SignalTaken(b"1")

    @story
    @needs(Steps, no_steps)
    async def test_a_job_is_found_by_its_unique_key_while_it_is_unfinished(self, at: Scene) -> None:
        job, other = await at.running(key="order-7"), await at.running(key="order-8")
        find = verbs(at.store).job_with_key
        assert await find("task", "order-7") == job.id
        assert await find("task", "order-8") == other.id
        assert await find("task", "order-9") is await find("other", "order-7") is None
        await at.settle(done(job))
        assert await find("task", "order-7") is None
        night = structs.replace(at.new(key="night"), uniqueness=Uniqueness(seconds=3600.0))
        await at.enqueue(night)
        assert await find("task", "night") == night.id
        (claim,) = await at.claim(await at.lease())
        await at.settle(done(claim.job))
        assert await find("task", "night") is None

    @story
    @needs(Steps, no_steps)
    async def test_signals_to_a_job_that_moves_all_the_time_are_all_kept(self, at: Scene) -> None:
        job, stores = await at.running(), (at.another(), at.another())
        queue = (await at.row(job.id)).queue

        async def move() -> ActiveJob:
            owner = job
            for _ in range(20):
                await insist(stores[0], [released(owner)])
                (claim,) = (await stores[0].exchange((), at.request(job.lease, queues=(queue,)))).claims or (None,)
                assert claim is not None
                owner = claim.job
            return owner

        async def signal() -> list[SignalAnswer]:
            return [await verbs(stores[1]).signal(job.id, Signal(at.chance.uuid4(), "go", b"%d" % n)) for n in range(20)]

        owner, answers = in_threads(move, signal)
        assert answers == [ACCEPTED] * 20
        assert isinstance(owner, ActiveJob)
        values = [(await take(at, owner, wait(n))).value for n in range(1, 22)]
        assert values == [*(b"%d" % n for n in range(20)), None]


async def enqueued_again(at: Scene, jobs: Sequence[UUID]) -> None:
    """Enqueue jobs with the ids of deleted ones, each in a separate queue."""
    for job in jobs:
        new = structs.replace(at.new(queue=str(at.chance.uuid4())), id=job)
        await at.enqueue(new)
