"""Unique keys: one unfinished job per task and key, for every caller and at every time."""

from collections.abc import Awaitable, Callable
from uuid import UUID

from holdfast._core.answers import Duplicate, EnqueueAnswer, ReopenAnswer
from holdfast._core.job import ActiveJob, NewJob, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, cancelled, deadline_exceeded
from holdfast._core.outcome import Cancel, Fail, Retry, Snooze
from holdfast._core.policy import CrashPolicy, Policy
from holdfast._engine import store_defaults
from holdfast.testing.contracts.scene import Part, Scene, answered, done, raised, released, rescued, story

CRASH = LeaseEnd(RescueReason.CRASHED)
HOSTILE = ("", " ", "'; DROP TABLE jobs; --", "ä€🎁", "%s{0}\\", "key\x01", "x" * 1000)
FINISHED = (State.COMPLETED, State.FAILED, State.CANCELLED)
Ending = Callable[[Scene, ActiveJob], Awaitable[object]]


def copy_of(job: UUID, *, is_same: bool = True) -> Duplicate:
    """Make the answer that this job has the key."""
    return Duplicate(job, is_same)


async def crash(at: Scene, job: ActiveJob) -> None:
    """End its lease, and rescue it by its policy."""
    await at.store.end_lease(job.lease, CRASH)
    await at.settle(rescued(job, CRASH))


ENDINGS: tuple[Ending, ...] = (
    lambda at, job: at.settle(done(job)),
    lambda at, job: at.settle(answered(job, Fail("no"))),
    lambda at, job: at.settle(answered(job, Cancel("no need"))),
    lambda at, job: at.settle(cancelled(job)),
)
STAYS: tuple[Ending, ...] = (
    lambda at, job: at.settle(raised(job)),
    lambda at, job: at.settle(answered(job, Retry(after="1h"))),
    lambda at, job: at.settle(answered(job, Snooze(for_="1h"))),
    lambda at, job: at.settle(released(job, code_ran=True)),
    lambda at, job: at.settle(deadline_exceeded(job, RescueReason.STALLED, jitter=0.0)),
    crash,
    lambda at, job: at.store.request_cancel([job.id]),
    lambda at, job: at.store.end_lease(job.lease, CRASH),
)


class KeyContract(Part):
    """What a unique key promises."""

    @story
    async def test_a_key_is_read_as_it_was_given(self, at: Scene) -> None:
        for key in HOSTILE:
            (job,) = await at.enqueue(at.new(key=key))
            assert (await at.row(job)).unique_key == key
            assert (await at.send(second := at.new(key=key))).duplicates == {second.id: copy_of(job)}
        (without,) = await at.enqueue(at.new())
        assert (await at.row(without)).unique_key is None

    @story
    async def test_while_a_job_is_unfinished_another_with_its_key_is_answered_and_not_inserted(self, at: Scene) -> None:
        available, scheduled = await at.enqueue(at.new(key="available"), at.new(key="scheduled", delay=60.0))
        running = (await at.running(key="running")).id
        (prefetched,) = await at.enqueue(at.new(key="prefetched", queue="b"))
        await at.claim(await at.lease(), 0, prefetch=1, queues=("b",))
        held = await at.running(key="held", policy=Policy(on_crash=CrashPolicy.HOLD))
        await crash(at, held)
        holders = {"available": available, "scheduled": scheduled, "running": running, "prefetched": prefetched}
        holders["held"] = held.id
        assert {await at.state(job) for job in holders.values()} == {*State} - {*FINISHED} - {State.BLOCKED}
        for key, holder in holders.items():
            before = await at.row(holder)
            second = at.new(key=key)
            assert await at.send(second) == EnqueueAnswer({second.id: copy_of(holder)})
            assert await at.store.get(second.id) is None
            assert await at.row(holder) == before

    @story
    async def test_a_key_belongs_to_its_task(self, at: Scene) -> None:
        await at.enqueue(at.new(task="a", key="k"), at.new(task="b", key="k"), at.new(task="a", key="K"), at.new(task="ak"))
        assert await at.store.counts() == {("", State.AVAILABLE): 4}

    @story
    async def test_jobs_without_a_key_never_stand_in_each_others_way(self, at: Scene) -> None:
        await at.enqueue(*(at.new() for _ in range(3)))
        await at.enqueue(at.new(), at.new(key="k"))
        assert await at.store.counts() == {("", State.AVAILABLE): 5}

    @story
    async def test_another_payload_under_a_taken_key_refuses_the_whole_call(self, at: Scene) -> None:
        (holder,) = await at.enqueue(at.new(key="k", payload=b"1"))
        other, same, free = at.new(key="k", payload=b"2"), at.new(key="k", payload=b"1"), at.new()
        answer = await at.send(free, same, other)
        assert answer == EnqueueAnswer({same.id: copy_of(holder), other.id: copy_of(holder, is_same=False)})
        assert answer.is_refused
        assert [row.id for row in await at.store.list(at.everything)] == [holder]

    @story
    async def test_payloads_are_the_same_byte_for_byte_at_every_length(self, at: Scene) -> None:
        for number, size in enumerate((0, 1, 512, 513, 200_000)):
            (holder,) = await at.enqueue(at.new(key=str(number), payload=b"x" * size))
            same, other = at.new(key=str(number), payload=b"x" * size), at.new(key=str(number), payload=b"x" * size + b" ")
            assert (await at.send(same)).duplicates == {same.id: copy_of(holder)}
            assert (await at.send(other)).duplicates == {other.id: copy_of(holder, is_same=False)}

    @story
    async def test_what_is_not_a_duplicate_in_a_call_is_inserted(self, at: Scene) -> None:
        (holder,) = await at.enqueue(at.new(key="taken"))
        news = [at.new(), at.new(key="taken"), at.new(key="free"), at.new(task="other", key="taken")]
        assert await at.send(*news) == EnqueueAnswer({news[1].id: copy_of(holder)})
        found = {row.id for row in await at.store.list(at.everything)}
        assert found == {holder, news[0].id, news[2].id, news[3].id}

    @story
    async def test_each_job_of_a_call_with_keys_has_its_own_long_payload(self, at: Scene) -> None:
        (holder,) = await at.enqueue(at.new(key="taken", payload=b"t" * 2000))
        news = [at.new(key=key, payload=key[:1].encode() * 2000) for key in ("taken", "a", "b")]
        assert await at.send(*news) == EnqueueAnswer({news[0].id: copy_of(holder)})
        assert [(await at.row(job.id)).payload for job in news[1:]] == [job.payload for job in news[1:]]

    @story
    async def test_of_several_with_one_key_in_a_call_the_first_is_inserted(self, at: Scene) -> None:
        first, second, third = at.new(key="k"), at.new(key="k"), at.new(key="k")
        apart = at.new(key="other")
        answer = await at.send(first, apart, second, third)
        assert answer == EnqueueAnswer({second.id: copy_of(first.id), third.id: copy_of(first.id)})
        assert {row.id for row in await at.store.list(at.everything)} == {first.id, apart.id}

    @story
    async def test_several_with_one_key_and_different_payloads_in_a_call_are_refused(self, at: Scene) -> None:
        first, second, third = at.new(key="k", payload=b"1"), at.new(key="k", payload=b"1"), at.new(key="k", payload=b"2")
        answer = await at.send(first, second, third, at.new())
        assert answer == EnqueueAnswer({second.id: copy_of(first.id), third.id: copy_of(first.id, is_same=False)})
        assert await at.store.counts() == {}
        await at.enqueue(at.new(key="k"))

    @story
    async def test_a_key_is_free_once_its_job_has_finished(self, at: Scene) -> None:
        for number, end in enumerate(ENDINGS):
            job = await at.running(key=str(number))
            await end(at, job)
            assert await at.state(job.id) in FINISHED
            await at.enqueue(at.new(key=str(number)))

    @story
    async def test_a_key_is_free_once_its_job_crashed_for_the_last_time(self, at: Scene) -> None:
        job = await at.running(key="k", policy=Policy(max_crashes=1))
        await crash(at, job)
        assert await at.state(job.id) is State.FAILED
        await at.enqueue(at.new(key="k"))

    @story
    async def test_a_key_is_free_once_its_waiting_job_is_cancelled_or_gone(self, at: Scene) -> None:
        removals: tuple[Callable[[UUID], Awaitable[object]], ...] = (
            lambda job: at.store.request_cancel([job]),
            lambda job: at.store.delete([job]),
            lambda job: store_defaults.purge(at.store, "default", 10),
            lambda job: at.store.expire(10),
        )
        for remove in removals:
            (job,) = await at.enqueue(at.new(key="k", expires_in=1.0))
            at.advance(1.0)
            await remove(job)
            (again,) = await at.enqueue(at.new(key="k"))
            await at.store.delete([again])

    @story
    async def test_a_marked_job_gives_its_key_back_when_it_ends_cancelled(self, at: Scene) -> None:
        job = await at.running(key="k")
        await at.store.request_cancel([job.id])
        assert (await at.send(at.new(key="k"))).duplicates
        await at.settle(raised(job))
        assert await at.state(job.id) is State.CANCELLED
        await at.enqueue(at.new(key="k"))

    @story
    async def test_a_key_stays_with_its_job_until_it_finishes(self, at: Scene) -> None:
        for number, move in enumerate(STAYS):
            job = await at.running(key=str(number))
            await move(at, job)
            second = at.new(key=str(number))
            assert await at.send(second) == EnqueueAnswer({second.id: copy_of(job.id)}), number

    @story
    async def test_a_settle_sent_again_takes_no_key_from_another(self, at: Scene) -> None:
        job = await at.running(key="k")
        await at.settle(done(job))
        (holder,) = await at.enqueue(at.new(key="k"))
        await at.settle(done(job), raised(job))
        await at.store.request_cancel([job.id])
        await at.store.delete([job.id])
        assert (await at.send(second := at.new(key="k"))).duplicates == {second.id: copy_of(holder)}

    @story
    async def test_a_copy_of_a_call_gets_the_answer_of_the_first_even_when_the_key_has_changed_hands(self, at: Scene) -> None:
        (holder,) = await at.enqueue(at.new(key="k", payload=b"1"))
        calls: list[tuple[UUID, list[NewJob]]] = [
            (at.chance.uuid4(), [at.new(key="k", payload=b"1")]),
            (at.chance.uuid4(), [at.new(key="k", payload=b"2"), at.new()]),
            (at.chance.uuid4(), [at.new(key="twice"), at.new(key="twice")]),
        ]
        answers = [await at.store.enqueue(call, jobs) for call, jobs in calls]
        assert [answer.is_refused for answer in answers] == [False, True, False]
        await at.store.delete([row.id for row in await at.store.list(at.everything)])
        for store in (at.store, at.another()):
            assert [await store.enqueue(call, jobs) for call, jobs in calls] == answers
        assert await at.store.counts() == {}
        assert answers[0].duplicates[calls[0][1][0].id] == copy_of(holder)
        await at.enqueue(at.new(key="k"), at.new(key="twice"))

    @story
    async def test_a_reopened_job_has_its_key_again(self, at: Scene) -> None:
        job = await at.running(key="k")
        await at.settle(done(job))
        assert await at.store.reopen([job.id]) == ReopenAnswer({job.id: State.AVAILABLE})
        second = at.new(key="k")
        assert await at.send(second) == EnqueueAnswer({second.id: copy_of(job.id)})

    @story
    async def test_a_job_whose_key_was_given_away_stays_finished(self, at: Scene) -> None:
        job = await at.running(key="k")
        await at.settle(done(job))
        before = await at.row(job.id)
        (holder,) = await at.enqueue(at.new(key="k"))
        free = await at.running()
        await at.settle(done(free))
        (scheduled,) = await at.enqueue(at.new(delay=60.0))
        states = {job.id: State.COMPLETED, free.id: State.AVAILABLE, scheduled: State.AVAILABLE}
        assert await at.store.reopen([*states]) == ReopenAnswer(states, {job.id: holder})
        assert await at.row(job.id) == before
        await at.store.delete([holder])
        assert await at.store.reopen([job.id]) == ReopenAnswer({job.id: State.AVAILABLE})

    @story
    async def test_a_lost_key_is_reported_only_for_the_jobs_asked_for_and_only_to_their_task(self, at: Scene) -> None:
        asked, unasked = await at.running(key="k"), await at.running(key="l")
        await at.settle(done(asked), done(unasked))
        await at.enqueue(at.new(task="other", key="k"), at.new(key="l"))
        assert await at.store.reopen([asked.id]) == ReopenAnswer({asked.id: State.AVAILABLE})

    @story
    async def test_jobs_of_different_tasks_that_had_one_key_are_reopened_together(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new(task=task, key="k") for task in "abc"))
        await at.store.request_cancel(jobs)
        assert await at.store.reopen(jobs) == ReopenAnswer(dict.fromkeys(jobs, State.AVAILABLE))

    @story
    async def test_of_two_that_had_one_key_the_first_asked_for_is_reopened(self, at: Scene) -> None:
        jobs = []
        for _ in range(3):
            job = await at.running(key="k")
            await at.settle(done(job))
            jobs.append(job.id)
        second, first, third = jobs
        states = {first: State.AVAILABLE, second: State.COMPLETED, third: State.COMPLETED}
        assert await at.store.reopen([first, second, third]) == ReopenAnswer(states, {second: first, third: first})

    @story
    async def test_waiting_jobs_are_reopened_with_the_key_they_have(self, at: Scene) -> None:
        held = await at.running(key="held", policy=Policy(on_crash=CrashPolicy.HOLD))
        await crash(at, held)
        (scheduled,) = await at.enqueue(at.new(key="scheduled", delay=60.0))
        both = [held.id, scheduled]
        assert await at.store.reopen(both) == ReopenAnswer(dict.fromkeys(both, State.AVAILABLE))
        for key, job in zip(("held", "scheduled"), both, strict=True):
            assert (await at.send(second := at.new(key=key))).duplicates == {second.id: copy_of(job)}

    @story
    async def test_hundreds_of_keys_are_one_call(self, at: Scene) -> None:
        jobs = [at.new(key=str(number), payload=b"%d" % number) for number in range(300)]
        await at.enqueue(*jobs[::2])
        again = [at.new(key=job.unique_key, payload=job.payload) for job in jobs]
        answer = await at.send(*again)
        taken = {second.id: copy_of(job.id) for second, job in list(zip(again, jobs, strict=True))[::2]}
        assert answer == EnqueueAnswer(taken)
        assert await at.store.counts() == {("", State.AVAILABLE): 300}
