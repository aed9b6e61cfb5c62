"""The story of a job: twelve lives, each made by the moves of the state machine, are compared with those in ``stories``."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self
from uuid import UUID

import msgspec
import pytest
from msgspec import structs

from holdfast._core.job import AttemptOutcome, Failure, HeldFor, NewJob, Reason, RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd, Transition, cancelled, deadline_exceeded, finish, release, rescue
from holdfast._core.outcome import Done, Fail, Outcome, Raised, Snooze, Suspend
from holdfast._core.points import Point, points_text, track_of
from holdfast._core.policy import Backoff, CrashPolicy, Policy
from holdfast._core.record import (
    AttemptRecord,
    active_job,
    as_read,
    attempt_to_keep,
    begun,
    new_record,
    record_of_finished,
    reopened,
    settled,
)
from holdfast._core.story import Story, story_of
from holdfast._core.story_runs import AttemptFacts, StoryFacts
from holdfast._core.story_words import CRASH_KIND_OF, ENDINGS, HELD, KIND_OF, OUTCOMES_OF, REASONS, Kind, ending_of
from holdfast._core.view import JobView
from holdfast.cli.story import lines_of

STORIES = Path(__file__).parent / "stories"
START = datetime(2030, 1, 31, 8, 0, tzinfo=UTC)
BOOM = Failure(
    "KeyError", "'chart'", "Traceback (most recent call last):\n  File \"shop.py\", line 7, in analyze\nKeyError: 'chart'"
)
STACKS = "Thread 1, most recent call first:\n  shop.py:12 in read"


class Life:
    """A job, moved by the functions that the reference store uses; each method takes the seconds since the enqueue."""

    def __init__(self, policy: Policy | None = None, **fields: object) -> None:
        given = policy or Policy(backoff=Backoff.fixed("10s"))
        new = NewJob(id=UUID(int=1), payload=b"{}", task="analyze", policy=given, **fields)  # type: ignore[arg-type]
        self.row = new_record(new, START)
        self.attempts: list[AttemptRecord] = []

    def claim(self, at: float, worker: str) -> Self:
        token = Token(UUID(int=self.row.token.number + 1), self.row.token.number + 1)
        self.row = structs.replace(
            self.row, state=State.CLAIMED, token=token, lease=UUID(int=9), worker=worker, claimed_at=_at(at)
        )
        return self

    def start(self, at: float, worker: str) -> Self:
        self.row = begun(self.claim(at, worker).row)
        return self

    def report(self, at: float, stage: str, fraction: float) -> Self:
        assert self.row.started_at is not None
        seconds = (_at(at) - self.row.started_at).total_seconds()
        points = points_text(track_of(self.row.points).after(seconds, stage=stage, fraction=fraction, message=None))
        self.row = structs.replace(self.row, stage=stage, fraction=fraction, last_progress_at=_at(at), points=points)
        return self

    def finish(self, at: float, outcome: Outcome) -> Self:
        return self.move(at, finish(active_job(self.row), outcome, jitter=0.0))

    def lose(self, at: float, why: LeaseEnd, by: str | None = None) -> Self:
        return self.move(at, rescue(active_job(self.row), why, jitter=0.0, by=by))

    def move(self, at: float, moved: Transition) -> Self:
        kept = attempt_to_keep(self.row, moved, _at(at))
        if kept is not None and kept.record is not None:
            self.attempts.append(kept.record)
        self.row = settled(self.row, moved.with_cancellation(cancel_requested=self.row.cancel_requested), _at(at))
        return self

    def answer_late(self, result: bytes, at: float | None = None) -> Self:
        late_at = None if at is None else _at(at)
        self.attempts[-1] = structs.replace(self.attempts[-1], late_result=result, late_at=late_at)
        return self

    def reopen(self, at: float) -> Self:
        record = record_of_finished(self.row).record
        if record is not None and all(each.token != record.token for each in self.attempts):
            self.attempts.append(record)
        self.row = reopened(self.row, _at(at))
        return self

    def end(self, at: float, state: State, reason: Reason) -> Self:
        self.row = structs.replace(self.row, state=state, reason=reason, finished_at=_at(at))
        return self

    def story(self, at: float, facts: StoryFacts | None = None) -> Story:
        job = JobView.of(structs.replace(as_read(self.row, _at(at)), attempts=tuple(self.attempts)))
        return story_of(job, job.attempts, _at(at)) if facts is None else story_of(job, job.attempts, _at(at), facts)


def _at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def first_try() -> Story:
    return Life().start(0.9, "web1-4711-9f3a").report(2.0, "chart", 0.9).finish(3.0, Done(b"1")).story(60)


def retried() -> Story:
    life = Life().start(0.9, "web1-4711-9f3a").finish(2.0, Raised(BOOM)).start(12.0, "web2-1207-07be").finish(15.5, Done(b"1"))
    return life.story(60)


def killed() -> Story:
    life = Life().start(0.9, "web1-4711-9f3a").report(125, "analyze", 0.52)
    life.lose(130.3, LeaseEnd(RescueReason.CRASHED, "SIGKILL (out of memory)"), by="supervisor web1-4700")
    life.start(130.8, "web2-1207-07be").report(160, "analyze", 0.61).lose(170, LeaseEnd(RescueReason.CRASHED, "SIGSEGV"))
    return life.start(180.7, "web1-4833-c41d").report(300, "chart", 1.0).finish(324.4, Done(b"1")).story(400)


def silent() -> Story:
    life = Life().start(1, "web2-1207-07be").report(60, "analyze", 0.71).lose(95, LeaseEnd(RescueReason.EXPIRED))
    return life.start(96, "web1-4711-9f3a").report(200, "chart", 0.64).story(316)


def stalled() -> Story:
    life = Life(Policy(max_attempts=2, progress_within=30.0, backoff=Backoff.fixed("10s")))
    life.start(1, "web1-4711-9f3a").report(20, "read", 0.2)
    life.move(51, deadline_exceeded(active_job(life.row), RescueReason.STALLED, jitter=0.0)).start(61, "web1-4711-9f3a")
    why = LeaseEnd(RescueReason.CRASHED, "SIGKILL", True, {life.row.id: RescueReason.STALLED}, STACKS)
    return life.lose(92, why).story(100)


def late_result() -> Story:
    life = Life().start(1, "web2-1207-07be").lose(95, LeaseEnd(RescueReason.EXPIRED)).answer_late(b'{"commits":400}', 118)
    return life.start(96, "web1-4711-9f3a").finish(130, Done(b"1")).story(3600)


def held() -> Story:
    life = Life(Policy(on_crash=CrashPolicy.HOLD)).start(1, "web1-4711-9f3a")
    return life.lose(4, LeaseEnd(RescueReason.CRASHED, "SIGKILL")).story(7200)


def expired() -> Story:
    return Life(expires_in=60.0, queue="slow").end(61.5, State.FAILED, Reason.EXPIRED).story(90)


def cancelled_by_operator() -> Story:
    life = Life().start(1, "web1-4711-9f3a").report(5, "read", 0.1)
    life.row = structs.replace(life.row, cancel_requested=True)
    return life.move(9, cancelled(active_job(life.row))).story(90)


def snoozed() -> Story:
    return Life().start(1, "web1-4711-9f3a").finish(2, Snooze(600)).story(62)


def released() -> Story:
    life = Life().start(1, "web1-4711-9f3a").report(30, "read", 0.4)
    return life.move(41, release(active_job(life.row), code_ran=True)).story(53)


def blocked() -> Story:
    return Life().start(1, "web1-4711-9f3a").finish(3, Suspend(86_400, "approved")).story(3603)


GOLDEN: dict[str, Callable[[], Story]] = {
    "first_try": first_try,
    "retried": retried,
    "killed": killed,
    "silent": silent,
    "stalled": stalled,
    "late_result": late_result,
    "held": held,
    "expired": expired,
    "cancelled": cancelled_by_operator,
    "snoozed": snoozed,
    "released": released,
    "blocked": blocked,
}


def text_of(story: Story) -> str:
    """Return a story as the terminal prints it, then the details of its entries, then its lanes."""
    parts = [
        f"{entry.kind.value}, attempt {entry.attempt}, {detail.title}:\n{detail.text}"
        for entry in story.entries
        for detail in entry.details
    ]
    lanes = [msgspec.json.encode(lane).decode() for lane in story.lanes]
    return "\n".join([*lines_of(story), "", *parts, *lanes]).rstrip() + "\n"


@pytest.mark.parametrize("name", GOLDEN)
def test_a_life_is_described_as_its_golden_story(name: str) -> None:
    assert text_of(GOLDEN[name]()) == (STORIES / f"{name}.txt").read_text(encoding="utf-8")


def test_each_golden_file_belongs_to_a_story() -> None:
    assert {path.stem for path in STORIES.iterdir()} == set(GOLDEN)


def test_each_way_to_end_or_wait_has_words() -> None:
    assert set(KIND_OF) == set(AttemptOutcome)
    assert set(CRASH_KIND_OF) == set(OUTCOMES_OF) == set(RescueReason)
    assert set(REASONS) == set(Reason)
    assert set(HELD) == set(HeldFor)
    possible = {
        ending_of(outcome, signal, rescued)
        for outcome in AttemptOutcome
        for signal in (None, "SIGKILL", "exit code 1")
        for rescued in (None, *RescueReason)
    }
    assert possible == set(ENDINGS)


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("error", [None, Failure("Fail", "{not a field}\nsecond line"), Failure("Fail", "")])
def test_each_reason_makes_a_whole_sentence(reason: Reason, error: Failure | None) -> None:
    life = Life().end(5, State.FAILED, reason)
    life.row = structs.replace(life.row, error=error)
    summary = life.story(9).summary
    assert summary.startswith("Failed before its first attempt, 5 s after it was enqueued: ")
    assert summary.endswith(".")
    assert not summary.endswith((":.", ": .", ",."))
    assert "second line" not in summary


@pytest.mark.parametrize("state", State)
def test_each_state_has_a_summary_and_a_last_entry(state: State) -> None:
    life = Life()
    life.row = structs.replace(life.row, state=state, worker="web1", finished_at=_at(5), claimed_at=_at(1), started_at=_at(1))
    story = life.story(9)
    assert story.summary[0].isupper()
    assert story.entries[-1].kind is not Kind.ENQUEUED or state is State.RUNNING


def test_a_job_that_fails_for_good_has_its_spent_budget_in_its_last_entry() -> None:
    life = Life(Policy(max_attempts=1)).start(1, "w").finish(2, Raised(BOOM))
    assert life.story(9).entries[-1].text == "The job failed: no attempts are left, 1 of 1 failed"
    life = Life(Policy(max_crashes=1)).start(1, "w").lose(2, LeaseEnd(RescueReason.CRASHED, "exit code 3"))
    story = life.story(9)
    assert [entry.text for entry in story.entries[-2:]] == [
        "Lost: its process ended while it ran (exit code 3)",
        "The job failed: no crashes are left, 1 of 1 are spent",
    ]
    assert story.summary.endswith(": its process ended while it ran, 1 of 1 crashes.")
    life = Life().start(1, "w").finish(2, Fail("no such repository"))
    assert life.story(9).entries[-1].text == "The job failed: the handler gave it up: no such repository"


def test_a_summary_counts_the_attempts_if_there_are_many() -> None:
    life = Life(Policy(max_attempts=9, backoff=Backoff.fixed("1s")))
    for number in range(4):
        life.start(10 * number, "w").finish(10 * number + 1, Raised(BOOM))
    life.start(50, "w").lose(51, LeaseEnd(RescueReason.CRASHED, "SIGKILL")).start(60, "w").finish(61, Done(b"1"))
    assert life.story(99).summary == (
        "Completed on its sixth attempt, 1 min 1 s after it was enqueued. Five earlier attempts: 4 failed, 1 killed."
    )


def test_a_summary_names_attempts_that_ended_alike_together() -> None:
    life = Life(Policy(max_attempts=9, backoff=Backoff.fixed("1s")))
    for number in range(2):
        life.start(10 * number, "w").finish(10 * number + 1, Raised(BOOM))
    story = life.start(50, "w").finish(51, Done(b"1")).story(99)
    assert story.summary.endswith("was enqueued. Attempts 1 and 2 failed.")


def test_budgets_are_counted_from_the_last_retry_of_an_operator() -> None:
    life = Life(Policy(max_attempts=1)).start(1, "w").finish(2, Raised(BOOM)).reopen(10).start(11, "w").finish(12, Raised(BOOM))
    first, second = (entry.text for entry in life.story(99).entries if entry.kind is Kind.FAILED and entry.attempt)
    assert first == "Failed: KeyError: 'chart'"
    assert second == "Failed: KeyError: 'chart', failure 1 of 1"


def test_a_completed_job_that_runs_again_was_run_again_by_an_operator() -> None:
    story = Life().start(1, "w").finish(2, Done(b"1")).reopen(10).start(11, "w").story(20)
    assert story.entries[-1].text == "Attempt 2 on w, after an operator ran the job again"
    assert story.summary == "Running for 9 s on its second attempt, on w. Attempt 1 completed."


def test_a_job_cancelled_while_it_waits_ends_after_its_attempt_not_on_it() -> None:
    story = Life().start(1, "w").finish(2, Raised(BOOM)).end(5, State.CANCELLED, Reason.BY_OPERATOR).story(9)
    assert (
        story.summary
        == "Cancelled after its first attempt, 5 s after it was enqueued: an operator asked for it. Attempt 1 failed."
    )


def test_a_late_failure_is_reported_as_one() -> None:
    life = Life().start(1, "w").lose(5, LeaseEnd(RescueReason.EXPIRED))
    life.attempts[-1] = structs.replace(life.attempts[-1], error=BOOM)  # by a release that kept no time
    late = life.story(9).entries[-2]
    assert (late.kind, late.text) == (
        Kind.LATE_RESULT,
        "Late failure (KeyError: 'chart') of attempt 1 refused, and kept: the job had been taken from w",
    )
    assert life.story(9).lanes[0].has_late_result


def test_what_an_attempt_answers_after_the_end_of_its_job_is_the_last_entry() -> None:
    life = Life(Policy(max_crashes=1)).start(1, "w").lose(5, LeaseEnd(RescueReason.EXPIRED)).answer_late(b"1", 60)
    story = life.story(90)
    assert [(entry.kind, entry.after) for entry in story.entries[-2:]] == [(Kind.FAILED, 5), (Kind.LATE_RESULT, 60)]
    assert story.lanes[0].late_at == 60


def test_attempts_without_a_record_are_counted() -> None:
    life = Life().start(1, "w").finish(2, Snooze(1)).start(4, "w").finish(5, Snooze(1)).start(7, "w")
    life.attempts.clear()
    story = life.story(9)
    assert [entry.text for entry in story.entries[1:]] == ["Not listed: two attempts without a record", "Attempt 3 on w"]


def test_facts_that_a_store_may_remember_later_appear_in_the_story() -> None:
    life = Life().start(1, "w").lose(61, LeaseEnd(RescueReason.EXPIRED)).answer_late(b"1").start(62, "v").report(70, "chart", 0.5)
    points = (Point(2, 0.1, "clone"), Point(20, 0.2), Point(25, 0.2, "clone"), Point(30, 0.3, "read"))
    first = AttemptFacts(points=points, stage="read", fraction=0.3, rescued_by="the supervisor of web1", late_at=_at(90))
    story = life.story(99, StoryFacts(trace="00-4bf92f35-00f067aa-01", attempts={1: first}))
    texts = [(entry.after, entry.text) for entry in story.entries]
    assert texts[:4] == [
        (0, "Enqueued to queue default, trace 00-4bf92f35-00f067aa-01"),
        (1, "Attempt 1 on w"),
        (3, "Stage clone"),
        (31, "Stage read"),
    ]
    assert (61, "Rescued by the supervisor of web1: the job returned to its queue, crash 1 of 3") in texts
    assert (90, "Late result of attempt 1 refused, and kept: the job had been taken from w") in texts
    assert (story.lanes[0].points, story.lanes[0].fraction, story.lanes[1].fraction) == (points, 0.3, 0.5)
    assert "Attempt 1 was lost when the lease of its worker ran out at 30 %." in story.summary


def test_a_story_is_one_json_document() -> None:
    story = killed()
    assert msgspec.json.decode(msgspec.json.encode(story), type=Story) == story
