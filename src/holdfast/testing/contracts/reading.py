"""Reads, and keeping house."""

from collections import Counter
from typing import Literal

from msgspec import structs

from holdfast._core.answers import Check
from holdfast._core.job import Failure, Reason, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.outcome import Fail
from holdfast._core.policy import Policy
from holdfast._core.record import JobRecord
from holdfast._core.requests import JobFilter, Steer, SteerVerb
from holdfast._core.schedule import tag_of
from holdfast._engine import store_defaults
from holdfast.testing.contracts.scene import EARLY, Part, Scene, answered, done, raised, rescued, story

CRASH = LeaseEnd(RescueReason.CRASHED)


async def one_of_each(at: Scene) -> dict[State, JobRecord]:
    """Make a job in each state that this store can show."""
    completed, failed, retried = await at.running(), await at.running(), await at.running()
    await at.settle(done(completed), answered(failed, Fail("no")), raised(retried))
    prefetched, running = await at.prefetched(), await at.running()
    available, cancelled = await at.enqueue(at.new(), at.new())
    await at.store.request_cancel([cancelled])
    held = (completed, failed, retried, prefetched, running)
    rows = [await at.row(job) for job in (*(active.id for active in held), available, cancelled)]
    return {row.state: row for row in rows}


class ReadContract(Part):
    """What readers are promised."""

    @story
    async def test_an_unknown_job_is_none(self, at: Scene) -> None:
        assert await at.store.get(at.chance.uuid7()) is None

    @story
    async def test_attempts_are_read_in_order_with_their_job_only(self, at: Scene) -> None:
        job = await at.running()
        for attempt in (1, 2):
            (current,) = await at.store.held(job.lease)
            assert current.attempt == attempt
            await at.settle(raised(current))
            at.advance(10.0)
            await at.claim(job.lease)
        await at.settle(raised(await at.running()))
        row = await at.row(job.id)
        assert [record.attempt for record in row.attempts] == [1, 2]
        assert {record.job for record in row.attempts} == {job.id}
        assert row.attempts[0].token.number < row.attempts[1].token.number
        (listed,) = await at.store.list(JobFilter(state=State.RUNNING))
        assert (listed.id, listed.attempts) == (job.id, ())

    @story
    async def test_lists_are_newest_first_and_go_on_where_the_last_page_ended(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new() for _ in range(7)))
        newest = list(reversed(jobs))
        pages, before = [], None
        while page := await at.store.list(JobFilter(limit=3, before=before)):
            pages.append([row.id for row in page])
            before = page[-1].id
        assert pages == [newest[:3], newest[3:6], newest[6:]]
        assert await at.store.list(JobFilter(limit=0)) == ()
        for which, found in (
            (JobFilter(skip=2, limit=3), newest[2:5]),
            (JobFilter(skip=6), newest[6:]),
            (JobFilter(skip=7), []),
            (JobFilter(skip=1, before=newest[1], down_to=newest[4]), newest[3:5]),
            (JobFilter(task="task", skip=5, limit=1), newest[5:6]),
            (JobFilter(down_to=newest[1]), newest[:2]),
            (JobFilter(task="other", down_to=newest[1]), []),
        ):
            assert [row.id for row in await at.store.list(which)] == found, which

    @story
    async def test_lists_are_of_what_was_asked_for(self, at: Scene) -> None:
        rows = await one_of_each(at)
        assert set(rows) == set(State) - {State.BLOCKED, State.HELD}
        for state in State:
            found = await at.store.list(JobFilter(state=state))
            assert [row.id for row in found] == ([rows[state].id] if state in rows else [])
            assert all(row.state is state for row in found)
        tagged = at.new(task="a", queue="b", tags=("x", "y"))
        await at.enqueue(tagged, at.new(task="a", tags=("xy",)), at.new(queue="b"))
        for which in (JobFilter(tag="x"), JobFilter(tag="y"), JobFilter(task="a", queue="b")):
            assert [row.id for row in await at.store.list(which)] == [tagged.id]
        assert await at.store.list(JobFilter(tag="x", queue="other")) == ()
        assert len(await at.store.list(JobFilter(task="a"))) == 2

    @story
    async def test_lists_are_of_reason_key_age_and_attempts(self, at: Scene) -> None:
        failed, retried = await at.running(), await at.running()
        await at.settle(answered(failed, Fail("no")), raised(retried))
        keyed = at.new(lane="tenant")
        at.advance(100.0)
        (waiting,) = await at.enqueue(keyed)
        at.advance(10.0)
        last = await at.running()
        at.advance(5.0)
        await at.settle(done(last))
        both = [retried.id, failed.id]
        for which, found in (
            (JobFilter(reason=Reason.PERMANENT), [failed.id]),
            (JobFilter(reason=Reason.HANDLER_ERROR), []),
            (JobFilter(key="tenant"), [waiting]),
            (JobFilter(key=""), [last.id, *both]),
            (JobFilter(key="other"), []),
            (JobFilter(older_than=15.0 - EARLY), [waiting, *both]),
            (JobFilter(older_than=115.0 - EARLY), both),
            (JobFilter(older_than=116.0), []),
            (JobFilter(older_than=0.0), [last.id, waiting, *both]),
            (JobFilter(attempts_at_least=1), [last.id, *both]),
            (JobFilter(attempts_at_least=2), []),
            (JobFilter(older_than=50.0, state=State.FAILED, reason=Reason.PERMANENT, attempts_at_least=1), [failed.id]),
        ):
            assert sorted(row.id for row in await at.store.list(which)) == sorted(found), which

    @story
    async def test_a_condition_with_several_values_holds_for_a_job_with_one_of_them(self, at: Scene) -> None:
        rows = await one_of_each(at)
        both = at.new(task="a", queue="b", tags=("x", "y"))
        (later, second) = await at.enqueue(at.new(task="a", tags=("z", "x,y"), delay=50.0), at.new(queue="b"))
        await at.enqueue(both)
        ended = {rows[State.CANCELLED].id, rows[State.FAILED].id}
        for which, found in (
            (JobFilter(state=(State.FAILED, State.CANCELLED)), ended),
            (JobFilter(state=(State.SCHEDULED, State.FAILED)), {later, rows[State.FAILED].id, rows[State.SCHEDULED].id}),
            (JobFilter(state=(State.BLOCKED, State.HELD)), set()),
            (JobFilter(state=()), set()),
            (JobFilter(reason=(Reason.PERMANENT, Reason.BY_OPERATOR)), ended),
            (JobFilter(task=("a", "none")), {later, both.id}),
            (JobFilter(queue=("b", "none")), {second, both.id}),
            (JobFilter(tag=("y", "z")), {later, both.id}),
            (JobFilter(tag=("y", "none"), task=("a", "task"), queue="b"), {both.id}),
        ):
            assert {row.id for row in await at.store.list(which)} == found, which

    @story
    async def test_lists_are_of_workers_schedules_rescues_and_strings(self, at: Scene) -> None:
        await at.enqueue(at.new(), at.new())
        failed, well = [
            (await at.claim(await at.lease(worker=each), policy=Policy(max_attempts=1)))[0].job for each in ("w1", "w2")
        ]
        lost = await at.running()
        await at.store.end_lease(lost.lease, CRASH)
        error = Failure(type="KeyError", message="'Söck\\n' \"x\"\nmissing\0", traceback="in pack")
        await at.settle(rescued(lost, CRASH), raised(failed, error), done(well))
        (of_schedule,) = await at.enqueue(at.new(task="Pack.socks", tags=(tag_of("nightly"), "schedule")))
        for which, found in (
            (JobFilter(worker="w1"), [failed.id]),
            (JobFilter(worker=("w1", "w2", "w3")), [failed.id, well.id]),
            (JobFilter(worker="w3"), []),
            (JobFilter(schedule="nightly"), [of_schedule]),
            (JobFilter(schedule="night"), []),
            (JobFilter(is_rescued=True), [lost.id]),
            (JobFilter(is_rescued=False, state=State.COMPLETED), [well.id]),
            (JobFilter(text="PACK"), [of_schedule]),
            (JobFilter(text="ack.so"), [of_schedule]),
            (JobFilter(text="keyERROR: '"), [failed.id]),
            (JobFilter(text="'Söck\\n' \"X\"\nmiss"), [failed.id]),
            (JobFilter(text="missing\0"), [failed.id]),
            (JobFilter(text="SÖCK"), []),
            (JobFilter(text="message"), []),
            (JobFilter(text="%"), []),
        ):
            assert sorted(row.id for row in await at.store.list(which)) == sorted(found), which

    @story
    async def test_lists_up_to_a_time_are_of_jobs_that_were_enqueued_and_had_ended_if_they_have_ended(self, at: Scene) -> None:
        early, late, (waiting,) = await at.running(), await at.running(), await at.enqueue(at.new(task="other"))
        await at.settle(done(early))
        at.advance(1.0)
        (seen,) = [row.finished_at for row in await at.store.list(JobFilter(state=State.COMPLETED))]
        assert {row.id for row in await at.store.list(JobFilter(up_to=seen))} == {early.id, late.id, waiting}
        await at.settle(done(late))
        (new,) = await at.enqueue(at.new())
        assert {row.id for row in await at.store.list(JobFilter(up_to=seen))} == {early.id, waiting}
        answer = await store_defaults.steer(at.store, Steer(SteerVerb.DELETE), [early.id, late.id, new], JobFilter(up_to=seen))
        assert answer.left == {late.id, new}

    @story
    async def test_lists_are_of_times_of_creation_due_and_end(self, at: Scene) -> None:
        first = await at.running()
        at.advance(100.0)
        await at.settle(done(first))
        await at.enqueue(at.new(delay=50.0))
        at.advance(5.0)
        await at.settle(done(await at.running()))
        rows = await at.store.list(JobFilter())
        for name in ("created", "available", "finished"):
            times = {row.id: getattr(row, f"{name}_at") for row in rows}
            assert len({each for each in times.values() if each is not None}) > 1
            for bound in filter(None, times.values()):
                later = {job for job, time in times.items() if time is not None and time >= bound}
                earlier = {job for job, time in times.items() if time is not None and time < bound}
                for end, expected in (("after", later), ("before", earlier)):
                    which = structs.replace(JobFilter(), **{f"{name}_{end}": bound})
                    assert {row.id for row in await at.store.list(which)} == expected, which

    @story
    async def test_a_listed_job_is_the_one_that_get_reads(self, at: Scene) -> None:
        await one_of_each(at)
        for row in await at.store.list(JobFilter()):
            full = await at.row(row.id)
            assert {name: getattr(row, name) for name in row.__struct_fields__ if name != "attempts"} == {
                name: getattr(full, name) for name in full.__struct_fields__ if name != "attempts"
            }

    @story
    async def test_counts_are_by_state_and_group(self, at: Scene) -> None:
        rows = await one_of_each(at)
        await at.enqueue(at.new(task="other", queue="mail"), at.new(task="other"))
        assert await at.store.counts() == {("", state): 3 if state is State.AVAILABLE else 1 for state in rows}
        tasks, queues = await at.store.counts("task"), await at.store.counts("queue")
        assert (tasks["other", State.AVAILABLE], tasks["task", State.AVAILABLE]) == (2, 1)
        assert (queues["mail", State.AVAILABLE], queues["default", State.AVAILABLE]) == (1, 2)
        assert sum(tasks.values()) == sum(queues.values()) == len(rows) + 2

    @story
    async def test_counts_may_stop_at_one_more_finished_job_of_a_state_than_was_asked_for(self, at: Scene) -> None:
        for _ in range(2):
            jobs = [await at.running() for _ in range(4)]
            await at.settle(done(jobs[0]), done(jobs[1]), answered(jobs[2], Fail("no")), answered(jobs[3], Fail("no")))
            await at.store.request_cancel(await at.enqueue(at.new(), at.new()))
        await at.enqueue(*(at.new(queue="mail") for _ in range(3)), at.new(delay=50.0))
        exact = await at.store.counts()
        cases: tuple[tuple[Literal["queue", "task"] | None, int], ...] = ((None, 1), ("task", 2), ("queue", 3))
        for by, most in cases:
            found = Counter[State]()
            for (_, state), number in (await at.store.counts(by, most)).items():
                found[state] += number
            assert all(most + 1 <= found[state] <= 4 for state in (State.COMPLETED, State.FAILED, State.CANCELLED))
            assert (found[State.AVAILABLE], found[State.SCHEDULED]) == (3, 1)
        assert await at.store.counts(None, 4) == exact
        (mail,) = [view for view in await at.store.queues(0) if view.name == "mail"]
        assert mail.counts == {State.AVAILABLE: 3}

    @story
    async def test_only_a_job_that_waits_is_scheduled_whenever_it_was_to_be_due(self, at: Scene) -> None:
        jobs = await at.enqueue(at.new(delay=60.0))
        await at.store.request_cancel(jobs)
        assert [(row.id, row.state) for row in await at.store.list(JobFilter())] == [(jobs[0], State.CANCELLED)]
        assert [row.id for row in await at.store.list(JobFilter(state=State.CANCELLED))] == list(jobs)
        assert await at.store.list(JobFilter(state=State.SCHEDULED)) == ()
        assert await at.store.counts() == {("", State.CANCELLED): 1}
        assert [view.counts for view in await at.store.queues()] == [{State.CANCELLED: 1}]

    @story
    async def test_next_due_is_the_time_until_the_first_job_that_could_be_claimed(self, at: Scene) -> None:
        assert await at.store.next_due(["task"]) is None
        await at.enqueue(at.new(delay=90.0, priority=-1), at.new(delay=90.0), at.new(delay=30.0), at.new(delay=99.0, priority=1))
        await at.enqueue(at.new(delay=99.0, queue="slow"), at.new(delay=20.0, queue="slow", priority=5), at.new(task="other"))
        for queues, wait in ((None, 20.0), (("default",), 30.0), (("slow", "default"), 20.0), ((), None), (("none",), None)):
            due = await at.store.next_due(["task", "unknown"], queues)
            assert due == wait or (due is not None and wait is not None and abs(due - wait) < EARLY)
        assert await at.store.next_due(["task", "other"]) == 0.0
        assert await at.store.next_due([]) is None
        at.advance(25.0)
        assert await at.store.next_due(["task"]) == 0.0
        await at.claim(await at.lease())
        due = await at.store.next_due(["task"])
        assert due is not None
        assert abs(due - 5.0) < EARLY

    @story
    async def test_a_store_that_was_closed_opens_again(self, at: Scene) -> None:
        (job,) = await at.enqueue(at.new())
        await at.store.close()
        await at.store.close()
        assert await at.state(job) is State.AVAILABLE

    @story
    async def test_the_schema_is_there_and_up_to_date(self, at: Scene) -> None:
        before, after = await at.store.migrate()
        assert before <= after
        assert await at.store.migrate() == (after, after)

    @story
    async def test_a_check_reports_what_is_right_and_wrong(self, at: Scene) -> None:
        found = await at.store.check()
        assert found
        assert all(isinstance(finding, Check) and finding.name and finding.message for finding in found)
        assert all(finding.remedy for finding in found if finding.level == "warning")
        assert not [finding for finding in found if finding.level == "error"]

    @story
    async def test_a_store_has_a_name(self, at: Scene) -> None:
        assert at.store.capabilities.name
        assert at.store.capabilities.lease_clock in ("kernel", "server", "none")
