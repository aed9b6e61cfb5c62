"""Every verdict of the checker on ownership, on histories made by hand: some good ones, and a bad one for each rule."""

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.job import State, Token
from holdfast._core.policy import Policy
from proof.checker.checker import check
from proof.checker.history import FAIL_OVER, IN_CARE, By, Event, History, JobRow, LeaseRow, Phase
from proof.checker.verdicts import PROPERTIES, Rules, percentile
from tests.simulation.hand_made_histories import (
    CHILD,
    FIRST,
    JOB,
    LEASE,
    NO_CLAIM,
    OTHER,
    OTHER_LEASE,
    SECOND,
    WORKER,
    Tale,
    begun,
    dead,
    stopped,
)
from tests.simulation.test_flow_rules import PAIRS as OF_FLOWS
from tests.simulation.test_lanes import PAIRS as OF_LANES
from tests.simulation.test_promises import PAIRS
from tests.simulation.test_schedules import PAIRS as OF_SCHEDULES


def hooked(tale: Tale) -> Tale:
    """The task of the job has an ``on_rescue``."""
    assert tale.row is not None
    tale.row = structs.replace(tale.row, policy=Policy(has_rescue_hook=True))
    return tale


def hook_committed(tale: Tale) -> Tale:
    """The hook of the job commits under the present token."""
    assert tale.row is not None
    return tale.job(By("hook", tale.row.token), is_owed=False, hooks_committed=tale.row.hooks_committed + 1)


GOOD = {
    "its hook commits before the next attempt": hook_committed(hooked(dead()).rescue(is_owed=True))
    .lease(OTHER_LEASE, OTHER)
    .claim(SECOND, OTHER_LEASE, OTHER)
    .life("handler.end", SECOND, OTHER)
    .settle(SECOND, process=OTHER),
    "its hook commits without another attempt": hook_committed(hooked(dead()).rescue(is_owed=True, state=State.FAILED)),
    "it completes although its hook was due": hooked(dead())
    .rescue(is_owed=True)
    .lease(OTHER_LEASE, OTHER)
    .job(By("claim"), OTHER, state=State.RUNNING, token=SECOND, lease=OTHER_LEASE, attempt=2, policy=Policy())
    .settle(SECOND, process=OTHER, is_owed=False),
    "it completes": stopped().settle().answer(Phase.OK, "completed"),
    "it completes, and the same settle sent again is confirmed": stopped()
    .settle()
    .answer(Phase.OK, "completed")
    .answer(Phase.OK, "completed"),
    "it is rescued from a dead worker, charged, and completed by another": dead()
    .rescue()
    .lease(OTHER_LEASE, OTHER)
    .claim(SECOND, OTHER_LEASE, OTHER)
    .life("handler.end", SECOND, OTHER)
    .settle(SECOND, process=OTHER),
    "a former owner is refused": dead().rescue().answer(Phase.FAIL, "completed").job(By("request_cancel"), state=State.CANCELLED),
    "a frozen owner is rescued by expiry, and its code is excused": begun()
    .say("process.freeze", Phase.LIFE, WORKER)
    .later(40)
    .end_lease(by=OTHER, overdue=10, is_judged=True)
    .rescue()
    .lease(OTHER_LEASE, OTHER)
    .claim(SECOND, OTHER_LEASE, OTHER)
    .say("process.thaw", Phase.LIFE, WORKER)
    .life("handler.end", FIRST)
    .life("handler.end", SECOND, OTHER)
    .settle(SECOND, process=OTHER),
    "an operator runs it again": stopped()
    .settle()
    .say("reopen", Phase.INVOKE, job=JOB)
    .job(By("reopen"), state=State.AVAILABLE, token=Token(None, 1), lease=None)
    .claim(SECOND)
    .life("handler.end", SECOND)
    .settle(SECOND),
    "a worker's graceful end is free": stopped()
    .end_lease(is_free=True, overdue=-20)
    .rescue(crashes=0)
    .job(By("request_cancel"), state=State.CANCELLED),
    "it is held for the operator": dead().rescue(state=State.HELD),
    "a store that forgets may lose what it acknowledged": begun().say(
        "job", Phase.TRUTH, job=JOB, before=None, after=None, by=By(FAIL_OVER)
    ),
}

BAD = {
    "owner changes without a move": ("S1", begun().job(token=SECOND)),
    "claimed while held": ("S1", Tale().job().job(state=State.HELD).lease().claim()),
    "one token sent to two workers": ("S1", begun().say("claim", Phase.OK, OTHER, job=JOB, token=FIRST)),
    "answered with a token that was never made": ("S1", begun().say("claim", Phase.OK, job=JOB, token=SECOND)),
    "code starts with a token that was never made": ("S1", begun().life("handler.start", SECOND, OTHER)),
    "the same token again": ("S2", dead().rescue().lease(OTHER_LEASE, OTHER).claim(FIRST, OTHER_LEASE, OTHER)),
    "claim number goes down": ("S2", dead().rescue().job(token=NO_CLAIM)),
    "progress of another claim": ("S3", begun().job(By("report", SECOND), witness=str(FIRST))),
    "progress with another token": ("S3", begun().job(witness=str(SECOND))),
    "settled by another claim": ("S3", stopped().settle(SECOND)),
    "completed with another one's result": ("S13", stopped().job(state=State.COMPLETED, result=str(SECOND))),
    "an ended lease is active again": ("S3", stopped().end_lease().lease()),
    "a finished job returns": ("S4", stopped().settle().job(state=State.AVAILABLE)),
    "a finished job changes": ("S4", stopped().settle().job(state=State.FAILED)),
    "rescued from a living worker": ("S5", stopped().rescue()),
    "lease judged before it expired": ("S5", begun().end_lease(by=OTHER, overdue=-0.5, is_judged=True)),
    "lease of a living process ended": ("S5", begun().end_lease(by=OTHER)),
    "acknowledged and missing": ("S6", Tale().say("enqueue", Phase.OK, job=JOB)),
    "removed": ("S6", begun().say("job", Phase.TRUTH, job=JOB, before=None, after=None)),
    "claimed for an ended lease": ("S8", Tale().job().lease().end_lease().claim()),
    "claimed for a lease that ran out": ("S8", Tale().job().lease().later(31).claim()),
    "code starts past the deadline": ("S8", Tale().job().lease().later(26).claim()),
    "moved while its code runs": ("S8", begun().settle()),
    "two attempts run at once": (
        "S8",
        begun().job(By("exchange", FIRST), state=State.AVAILABLE, token=Token(None, 1), lease=None).claim(SECOND),
    ),
    "crash not counted": ("S9", dead().rescue(crashes=0)),
    "charged for a free end": ("S9", stopped().end_lease(is_free=True).rescue(crashes=1)),
    "runs beyond its crash budget": ("S9", dead().rescue(crashes=3)),
    "runs beyond its attempts": (
        "S9",
        stopped().settle(state=State.AVAILABLE, token=Token(None, 1), lease=None, failures=3),
    ),
    "attempt not counted": ("S9", Tale().job().lease().job(By("claim"), state=State.RUNNING, token=FIRST, lease=LEASE)),
    "inserted twice": ("S10", begun().say("job", Phase.TRUTH, job=JOB, before=None, after=JobRow(State.AVAILABLE, NO_CLAIM))),
    "done and denied": ("S10", stopped().settle().answer(Phase.FAIL, "completed")),
    "confirmed and not done": ("S10", stopped().answer(Phase.OK, "completed")),
    "confirmed although another outcome was done": ("S10", stopped().settle().answer(Phase.OK, "failed")),
    "present and reported missing": ("S10", stopped().answer(Phase.FAIL, "completed", note="missing")),
    "code starts twice": ("S10", begun().life("handler.start", FIRST)),
    "left running": ("L2", begun()),
    "rescued without a due hook": ("S7", hooked(dead()).rescue()),
    "its hook forgotten by the next claim": (
        "S7",
        hooked(dead()).rescue(is_owed=True).lease(OTHER_LEASE, OTHER).job(By("claim"), is_owed=False),
    ),
    "code starts before its hook has committed": (
        "S7",
        hooked(dead()).rescue(is_owed=True).lease(OTHER_LEASE, OTHER).claim(SECOND, OTHER_LEASE, OTHER),
    ),
    "the hook commits twice": ("S7", hook_committed(hook_committed(hooked(dead()).rescue(is_owed=True)))),
    "the hook of a former owner commits": (
        "S3",
        hooked(dead()).rescue(is_owed=True).job(By("hook", FIRST), is_owed=False, hooks_committed=1),
    ),
    "pruned while its hook is due": (
        "S7",
        hooked(dead())
        .rescue(is_owed=True, state=State.FAILED, token=FIRST)
        .say("job", Phase.TRUTH, job=JOB, before=JobRow(State.FAILED, FIRST, is_owed=True), after=None, by=By("prune")),
    ),
    "its hook is due until the end": ("L2", hooked(dead()).rescue(is_owed=True, state=State.HELD)),
}


@pytest.mark.parametrize("name", GOOD)
def test_nothing_is_found_where(name: str) -> None:
    report = GOOD[name].check()
    assert not report.violations, report.explain(History(GOOD[name].events))


@pytest.mark.parametrize("name", BAD)
def test_found(name: str) -> None:
    wanted, tale = BAD[name]
    assert not tale.check().verdict(wanted)


def test_the_recovery_bound_counts_from_the_owners_death() -> None:
    rules = Rules(bound=10.0)
    slow = begun().say("process.end", Phase.LIFE, WORKER).later(12).end_lease(by=OTHER).rescue()
    fast = begun().say("process.end", Phase.LIFE, WORKER).later(5).end_lease(by=OTHER).rescue()
    assert not slow.check(rules).verdict("L1")
    assert fast.check(rules).verdict("L1")
    assert fast.check(rules).recoveries == [pytest.approx(5.2, abs=0.11)]
    assert fast.check(rules).slowest_recovery == fast.check(rules).recoveries[0]


def test_the_recovery_bound_is_that_of_the_lease_that_is_judged() -> None:
    rules = Rules(bound=1.0, lease_ttls=1.0, lease_amnesties=1.0)
    tale = Tale().job(By("enqueue")).lease(ttl=10.0, margin=2.0, beat=2.0).claim().say("process.end", Phase.LIFE, WORKER)
    longer = Tale().job(By("enqueue")).lease(ttl=20.0, margin=2.0, beat=2.0).claim().say("process.end", Phase.LIFE, WORKER)
    assert not tale.later(18).end_lease(by=OTHER).rescue().check(rules).verdict("L1")
    assert longer.later(18).end_lease(by=OTHER).rescue().check(rules).verdict("L1")


def test_the_recovery_bound_of_a_locked_row_counts_from_its_unlock() -> None:
    died = begun().say("process.end", Phase.LIFE, WORKER)
    own = died.later(12).say("row.unlock", Phase.LIFE, "a stranger", job=JOB).end_lease(by=OTHER).rescue()
    other = begun().say("process.end", Phase.LIFE, WORKER).later(12).say("row.unlock", Phase.LIFE, "a stranger", job=CHILD)
    assert own.check(Rules(bound=10.0, local_bound=0.1)).verdict("L1")
    assert not other.end_lease(by=OTHER).rescue().check(Rules(bound=10.0)).verdict("L1")


def test_a_busy_answer_about_a_locked_row_denies_nothing() -> None:
    assert stopped().settle().answer(Phase.FAIL, "completed", note="busy").check().verdict("S10")


def test_a_worker_of_a_healthy_core_is_recovered_at_once_and_never_killed_without_a_reason() -> None:
    killed = begun().say("process.end", Phase.LIFE, WORKER, note=f"SIGKILL, {IN_CARE}").later(2).end_lease(by=OTHER).rescue()
    report = killed.check(Rules(bound=60.0, local_bound=1.0, has_kills=False))
    assert not report.verdict("L1")
    assert not report.verdict("L3")
    assert killed.check(Rules(bound=60.0)).verdict("L1")
    assert killed.check(Rules(bound=60.0)).verdict("L3")


def test_no_crash_may_be_charged_where_none_happened() -> None:
    assert not dead().rescue().check(Rules(has_crashes=False)).verdict("L8")
    assert dead().rescue().check().verdict("L8")


def test_overlap_is_counted_apart_when_clocks_are_beyond_their_assumptions() -> None:
    tale = begun().end_lease(by=OTHER, is_judged=True).rescue().lease(OTHER_LEASE, OTHER).claim(SECOND, OTHER_LEASE, OTHER)
    inside, outside = tale.check(), tale.check(Rules(is_timed=False, is_complete=False))
    assert (inside.overlaps_inside, inside.overlaps_outside) == (1, 0)
    assert (outside.overlaps_inside, outside.overlaps_outside) == (0, 1)
    assert not outside.violations


def test_unknown_outcomes_are_counted_apart_until_the_row_shows_them() -> None:
    tale = stopped().answer(Phase.UNKNOWN, "completed").answer(Phase.UNKNOWN, "completed")
    assert tale.check().unknown == {"settle": 2}
    assert tale.check().checked["S15"] == 0
    assert tale.settle().answer(Phase.OK, "completed").check().checked["S15"] == 2


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1.0), (0.5, 2.0), (0.75, 3.0), (0.99, 4.0), (1.0, 4.0)])
def test_percentiles_are_values_that_occurred(share: float, expected: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], share) == expected
    assert percentile([], share) == 0.0


def crowd(many: int) -> History:
    """That many workers, each with a job, each of which dies."""
    history = History()
    for number in range(many):
        job, lease, process = UUID(int=1000 + number), UUID(int=100_000 + number), f"m-{number}-0"
        token = Token(UUID(int=10 + number), number + 1)
        waiting, row = JobRow(State.AVAILABLE, NO_CLAIM), LeaseRow(process, "w", 30.0, 5.0, -30.0, slots=1)
        running = structs.replace(waiting, state=State.RUNNING, token=token, lease=lease, attempt=1)
        event = partial(Event, time=0.1, process=process, phase=Phase.TRUTH, job=job, token=token, lease=lease)
        history.add(event(what="lease", job=None, after=row))
        history.add(event(what="job", lease=None, after=waiting))
        history.add(event(what="job", before=waiting, after=running))
        history.add(event(what="handler.start", phase=Phase.LIFE))
    for number in range(many):
        history.add(Event(time=0.2, process=f"m-{number}-0", what="process.end", phase=Phase.LIFE))
    return history


def test_a_long_history_costs_no_more_for_each_event_than_a_short_one() -> None:
    few, many = (lines_run(partial(check, crowd(size), Rules(is_complete=False, prompt=9.0))) / size for size in (50, 500))
    assert many < 1.1 * few


def lines_run(work: Callable[[], object]) -> int:
    """The number of lines of code that the call runs: unlike a time, it is the same in each run."""
    count, before = 0, sys.gettrace()

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_each_property_has_a_bad_history() -> None:
    shown = {name for name, _ in BAD.values()} | {name for name, *_ in (PAIRS | OF_SCHEDULES | OF_LANES | OF_FLOWS).values()}
    assert shown | {"L1", "L6", "L9"} == set(PROPERTIES)


def test_the_raw_events_of_a_job_can_be_listed() -> None:
    story = History(begun().settle().events).story(JOB)
    assert "handler.start token=1:" in story
    assert "running[1:" in story
    assert "completed[1:" in story
    assert len(story.splitlines()) == 6
    assert History(begun().events).story(JOB, longest=2).startswith("… 3 earlier events")


def test_two_different_histories_have_different_digests() -> None:
    assert History(begun().events).digest() == History(begun().events).digest()
    assert History(begun().events).digest() != History(stopped().events).digest()
