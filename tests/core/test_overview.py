"""What needs an operator: one sentence and one step for each situation, and nothing when all is well."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.answers import LeaseView, QueueView
from holdfast._core.audit import AuditEntry
from holdfast._core.error_groups import ErrorGroup, ErrorList
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import Reason, RescueReason, State, Token
from holdfast._core.limits import Holder, Limit, LimitView, Scope, ScopeKind
from holdfast._core.overview import LOOK_AT_FAILED, LOST, MOST_HELD, Overview, needs_of, tasks_to_count
from holdfast._core.policy import Policy
from holdfast._core.record import JobRecord
from holdfast._core.schedule import Overlap, ScheduleView, Source
from holdfast._core.timing import LeaseTiming
from holdfast._core.view import JobView

NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)
PROCESS = ProcessIdentity("web1", 7)


def worker(
    name: str = "web1-7-aa",
    *,
    overdue: float = -5.0,
    age: float = 36_000.0,
    holds: int = 0,
    tasks: tuple[str, ...] = ("mail",),
    queues: tuple[str, ...] = (),
) -> LeaseView:
    return LeaseView(
        id=UUID(int=1),
        worker=name,
        process=PROCESS,
        timing=LeaseTiming.of(10.0),
        overdue=overdue,
        seen="",
        age=age,
        holds=holds,
        tasks=tasks,
        queues=queues,
    )


def queue(name: str, available: int, *, paused: timedelta | None = None) -> QueueView:
    return QueueView(name=name, paused_at=None if paused is None else NOW - paused, counts={State.AVAILABLE: available})


def held(task: str) -> JobView:
    return job(State.HELD, task)


def job(state: State, task: str = "mail") -> JobView:
    record = JobRecord(
        id=UUID(int=2),
        token=Token(None, 1),
        task=task,
        queue="default",
        priority=0,
        state=state,
        payload=b"{}",
        policy=Policy(),
        attempt=1,
        failures=0,
        crashes=1,
        created_at=NOW,
        available_at=NOW,
    )
    return JobView.of(record)


def limit(
    active: int,
    *holders: str,
    held: float = 9.0,
    scope: Scope = Scope(ScopeKind.TASK, "render"),  # noqa: B008
) -> LimitView:
    found = tuple(Holder(UUID(int=2 + len(holders) - place), each, held + 10.0 * place) for place, each in enumerate(holders))
    return LimitView(scope=scope, limit=Limit(concurrency=3, rate="9/m", burst=2), active=active, holders=found)


def schedule(late: float) -> ScheduleView:
    return ScheduleView(
        name="nightly",
        when="@daily",
        task="mail",
        queue="default",
        next=(NOW - timedelta(seconds=late),),
        last_tick=None,
        last_job=None,
        paused_at=None,
        source=Source.CODE,
        catch_up=1,
        overlap=Overlap.SKIP,
        jitter=0.0,
        grace=60.0,
        declared_at=None,
    )


def rescued(worker: str, reason: RescueReason, minutes: int, state: State = State.HELD, now_on: str | None = None) -> JobView:
    at = NOW - timedelta(minutes=minutes)
    return structs.replace(job(state), rescued=reason, rescued_from=worker, rescued_at=at, worker=now_on)


def holder(ago: float | None, *, fraction: float | None = None, stage: str | None = None) -> JobView:
    """Return the job that holds the limits of these tests, and reported progress a while ago."""
    at = None if ago is None else NOW - timedelta(seconds=ago)
    view = structs.replace(job(State.RUNNING, "render"), id=UUID(int=3), started_at=NOW, last_progress_at=at)
    return structs.replace(view, fraction=fraction, stage=stage)


def paused(who: str, queue: str) -> AuditEntry:
    selector = json.dumps({"queues": ["other", queue]})
    return AuditEntry(id=UUID(int=5), at=NOW, who=who, origin="app", action="pause", selector=selector, reason="too fast")


def group(task: str, count: int, *, minutes: int) -> ErrorGroup:
    return ErrorGroup(
        key="5a41ab",
        task=task,
        reason=Reason.HANDLER_ERROR,
        type="KeyError",
        message="",
        where="shop/orders.py:118 in sync_line",
        count=count,
        first_at=NOW - timedelta(minutes=minutes),
        last_at=NOW,
        job=UUID(int=4),
    )


def failed(*groups: ErrorGroup) -> ErrorList:
    return ErrorList(groups=groups, kinds=len(groups), looked_at=sum(each.count for each in groups), back_to=NOW)


SITUATIONS: dict[str, tuple[dict[str, Any], str, str]] = {
    "no worker": (
        {"queues": [queue("default", 211), queue("mail", 1)]},
        "No worker is alive, and 212 jobs wait.",
        "start one: holdfast worker MODULE:APP",
    ),
    "silent worker": (
        {"workers": [worker(), worker("web2-8-bb", overdue=130.0, holds=3)]},
        "The worker web2-8-bb has sent no beat for 2 min 20 s, so it is dead, frozen or cut off. Three jobs of it wait to be taken back.",
        "start a worker, or run: holdfast recover MODULE:APP",
    ),
    "dead machine": (
        {
            "workers": [worker()],
            "rescued": [
                *(rescued("Web2-8-bb", RescueReason.EXPIRED, minutes) for minutes in (4, 16)),
                rescued("Web2-9-cc", RescueReason.EXPIRED, 3, State.AVAILABLE),
                rescued("Web2-9-cc", RescueReason.EXPIRED, 4, State.AVAILABLE),
                *(rescued("Web2-9-cc", RescueReason.EXPIRED, 5, State.RUNNING, on) for on in ("web1-7-aa", "a", "b", "c", "b")),
            ],
        },
        (
            "The machine Web2 has no live worker any more: two workers of Web2 sent no beat. "
            "Eight jobs (mail) were taken from them 3 min ago. Of these, 5 run again on a, b, c and 1 more, "
            "2 wait for a free worker, and 1 is held until you decide. "
            "None of them runs twice at once unless Web2 was frozen and goes on; the store then refuses its results."
        ),
        (
            "see whether Web2 runs, and start workers there or elsewhere: holdfast worker MODULE:APP; "
            "see what became of its jobs: holdfast jobs list --rescued"
        ),
    ),
    "dead machine of one job": (
        {"workers": [worker()], "rescued": [rescued("Web2-9-cc", RescueReason.EXPIRED, 3, State.RUNNING, "web1-7-aa")]},
        (
            "The machine Web2 has no live worker any more: Web2-9-cc sent no beat. "
            "One job (mail) was taken from it 3 min ago. It runs again on web1. "
            "It does not run twice at once unless Web2 was frozen and goes on; the store then refuses its results."
        ),
        (
            "see whether Web2 runs, and start workers there or elsewhere: holdfast worker MODULE:APP; "
            "see what became of its jobs: holdfast jobs list --rescued"
        ),
    ),
    "frozen worker": (
        {"workers": [worker()], "rescued": [rescued("web1-8-bb", RescueReason.EXPIRED, 1)]},
        f"One job (mail) was taken from web1-8-bb 1 min ago: {LOST[RescueReason.EXPIRED]}. It is held until you decide.",
        "see on web1 what its process does: ps -fp 8; see what became of its jobs: holdfast jobs list --rescued",
    ),
    "thawed worker": (
        {
            "workers": [worker()],
            "rescued": [rescued("mine", RescueReason.EXPIRED, 1)],
            "answered_late": frozenset([UUID(int=2)]),
        },
        (
            "The code of mail may have run twice: the worker mine was frozen or cut off, and its late result was refused. "
            "One job (mail) was taken from it 1 min ago. It is held until you decide."
        ),
        (
            "see when each run began and ended, and check what it did outside of Holdfast: holdfast jobs show 000002; "
            "look at the machine mine; see what became of its jobs: holdfast jobs list --rescued"
        ),
    ),
    "killed worker": (
        {
            "workers": [worker()],
            "rescued": [
                *(rescued("web2-8-bb", RescueReason.CRASHED, 1, State.COMPLETED, "web1-7-aa") for _ in range(2)),
                rescued("old", RescueReason.RELEASED, 1),
            ],
        },
        "Two jobs (mail) were taken from web2-8-bb 1 min ago: its process died. Both have completed since.",
        "look at the machine web2; see what became of its jobs: holdfast jobs list --rescued",
    ),
    "queue paused by an operator": (
        {
            "workers": [worker()],
            "queues": [queue("mail", 1, paused=timedelta(hours=2))],
            "pauses": [paused("anna", "mail"), paused("bob", "mail")],
        },
        "The queue mail has been paused by anna (too fast) for 2 h, and one job waits.",
        "when that is over, let its jobs start again: holdfast queues resume mail",
    ),
    "queue paused without a reason": (
        {
            "workers": [worker()],
            "queues": [queue("mail", 1, paused=timedelta(hours=2))],
            "pauses": [structs.replace(paused("anna", "mail"), reason=None)],
        },
        "The queue mail has been paused by anna for 2 h, and one job waits.",
        "ask anna why, and when that is over, let its jobs start again: holdfast queues resume mail",
    ),
    "new error": (
        {"workers": [worker()], "errors": failed(group("sync", 212, minutes=8), group("sync", 9, minutes=61))},
        "A new error: 212 jobs of sync failed with KeyError in the last 8 min, at shop/orders.py:118 in sync_line.",
        "see its messages: holdfast errors show 5a41ab; when it is fixed, run those jobs again: holdfast errors retry 5a41ab",
    ),
    "new error after a release": (
        {"workers": [worker("a", age=500.0), worker("b", age=90.0)], "errors": failed(group("sync", 2, minutes=8))},
        (
            "A new error: two jobs of sync failed with KeyError in the last 8 min, at shop/orders.py:118 in sync_line. "
            "It began 20 s after the workers were started, so a release may have brought it."
        ),
        (
            "see its messages: holdfast errors show 5a41ab; "
            "go back to the release before, or fix it, then run those jobs again: holdfast errors retry 5a41ab"
        ),
    ),
    "wave of errors": (
        {"workers": [worker()], "errors": failed(group("sync", LOOK_AT_FAILED, minutes=2))},
        "A new error: at least 1000 jobs of sync failed with KeyError in the last 2 min, at shop/orders.py:118 in sync_line.",
        "see its messages: holdfast errors show 5a41ab; when it is fixed, run those jobs again: holdfast errors retry 5a41ab",
    ),
    "unknown task": (
        {"workers": [worker()], "waiting_tasks": ["mail", "render_v2"], "waiting": {"render_v2": 214, "mail": 7}},
        "No live worker knows the task render_v2, and 214 jobs of it wait.",
        (
            "start a worker of the release that has it: holdfast worker MODULE:APP; "
            "or, if no release has it any more, end its jobs for good: holdfast jobs cancel --task render_v2"
        ),
    ),
    "unknown task beside very many jobs": (
        {"workers": [worker()], "waiting_tasks": ["render_v2"]},
        "No live worker knows the task render_v2, and jobs of it wait.",
        (
            "start a worker of the release that has it: holdfast worker MODULE:APP; "
            "or, if no release has it any more, end its jobs for good: holdfast jobs cancel --task render_v2"
        ),
    ),
    "queue that no worker serves": (
        {
            "workers": [worker(queues=("mail",))],
            "queues": [queue("mail", 3), queue("mial", 1), queue("empty", 0)],
        },
        "No live worker serves the queue mial, and one job waits.",
        "start one: holdfast worker MODULE:APP --queues mial",
    ),
    "held": (
        {"workers": [worker()], "held": [held("charge"), held("charge"), held("mail")]},
        "Three jobs (charge, mail) are held until you decide.",
        "look, then retry or cancel: holdfast jobs list --state held",
    ),
    "many held": (
        {"workers": [worker()], "held": [held(f"task{number % 5}") for number in range(MOST_HELD)]},
        "At least 100 jobs (task0, task1, task2 and 2 more) are held until you decide.",
        "look, then retry or cancel: holdfast jobs list --state held",
    ),
    "paused queue": (
        {
            "workers": [worker(queues=("mail",))],
            "queues": [queue("imports", 1204, paused=timedelta(hours=2)), queue("empty", 0, paused=timedelta())],
        },
        "The queue imports has been paused for 2 h, and 1204 jobs wait.",
        "ask why, and when that is over, let its jobs start again: holdfast queues resume imports",
    ),
    "limit held by the silent": (
        {"workers": [worker()], "limits": [limit(3, "web1-7-aa", "gone-1", "gone-1"), limit(2, "gone-1")]},
        "The limit of the task render, 3 at once, is full, and two slots of 3 belong to silent workers (gone-1).",
        "start a worker, which frees them, or run: holdfast recover MODULE:APP",
    ),
    "limit of the cluster": (
        {"workers": [worker()], "limits": [limit(3, "gone-1", scope=Scope(ScopeKind.ALL))]},
        "The limit of the cluster, 3 at once, is full, and one slot of 3 belongs to silent workers (gone-1).",
        "start a worker, which frees them, or run: holdfast recover MODULE:APP",
    ),
    "full limit": (
        {
            "workers": [worker(tasks=("render",))],
            "limits": [limit(3, *["web1-7-aa"] * 3, held=72.0), limit(3, *["web1-7-aa"] * 3, held=59.0)],
            "queues": [queue("default", 23)],
            "waiting_tasks": ["render"],
            "waiting": {"render": 22},
            "running": [
                holder(12.0, fraction=0.4, stage="pages"),
                *(structs.replace(holder(ago), id=UUID(int=number)) for number, ago in ((4, 60.0), (5, 61.0))),
            ],
        },
        (
            "The limit of the task render, 3 at once, is full: three jobs have held it for 1 min 12 s, and 22 jobs wait for a slot. "
            "The oldest holder, render 000003 on web1-7, reported progress (40 %, stage pages) 12 s ago, so it is slow, and not stuck. "
            "The last beat of its worker was 5 s ago. Of the 2 others, 1 reported progress in the last minute."
        ),
        (
            "see what 000005 has done: holdfast jobs show 000005; if it is stuck, end it: holdfast jobs cancel 000005; "
            "or allow one more at once: holdfast limits set task render --concurrency 4 --rate 9/m --burst 2"
        ),
    ),
    "full limit of a queue": (
        {
            "workers": [worker()],
            "limits": [
                limit(3, "web1-7-aa", held=72.0, scope=Scope(ScopeKind.QUEUE, name)) for name in ("slow", "idle", "stopped")
            ],
            "queues": [queue("slow", 1), queue("idle", 0), queue("stopped", 0, paused=timedelta(hours=1))],
        },
        (
            "The limit of the queue slow, 3 at once, is full: three jobs have held it for 1 min 12 s, and one job waits for a slot. "
            "The oldest holder, 000003 on web1-7, has held it for 1 min 12 s. The last beat of its worker was 5 s ago."
        ),
        (
            "see what 000003 has done: holdfast jobs show 000003; see on web1 what its process does: ps -fp 7; "
            "if it is stuck, end it: holdfast jobs cancel 000003; "
            "or allow one more at once: holdfast limits set queue slow --concurrency 4 --rate 9/m --burst 2"
        ),
    ),
    "late schedule": (
        {"workers": [worker()], "schedules": [schedule(720.0), schedule(30.0)]},
        "The schedule nightly is 12 min late: no supervisor has advanced it.",
        "start a worker: holdfast worker MODULE:APP",
    ),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_each_situation_has_one_sentence_and_one_step(situation: str) -> None:
    seen, text, step = SITUATIONS[situation]
    assert [(need.text, need.step) for need in needs_of(Overview(at=NOW, **seen))] == [(text, step)]


@pytest.mark.parametrize(
    ("oldest", "words"),
    [
        (holder(59.0, fraction=0.5), "reported progress (50 %) 59 s ago, so it is slow, and not stuck."),
        (holder(720.0, stage="b"), "reported progress (stage b) 12 min ago, and none since, so it may be stuck."),
        (holder(61.0), "reported progress 1 min 1 s ago, and none since, so it may be stuck."),
        (holder(None), "reports no progress, so only its process and its log show whether it works or is stuck."),
        (structs.replace(holder(None), started_at=None), "has not started its code."),
    ],
)
def test_a_holder_of_a_full_limit_is_slow_or_may_be_stuck(oldest: JobView, words: str) -> None:
    full = limit(2, *["web1-7-aa"] * 2, held=72.0, scope=Scope(ScopeKind.QUEUE, "slow"))
    full = structs.replace(full, limit=Limit(concurrency=2))
    other = structs.replace(oldest, id=UUID(int=4))
    seen = Overview(at=NOW, workers=[worker()], limits=[full], queues=[queue("slow", 1)], holders=[oldest], running=[other])
    (need,) = needs_of(seen)
    assert f"The oldest holder, render 000003 on web1-7, {words} The last beat of its worker was 5 s ago. " in need.text
    assert need.text.endswith(f" ago. The other one, render 000004 on web1-7, {words}")
    assert ("ps -fp 7" in need.step) is (oldest.last_progress_at is None)
    assert ("jobs cancel 000003" in need.step) is ("not stuck" not in words)


def test_jobs_are_counted_of_unknown_tasks_and_of_full_limits() -> None:
    full, other = limit(3, *["web1-7-aa"] * 3, held=72.0), limit(3, *["a"] * 3, held=72.0, scope=Scope(ScopeKind.QUEUE, "mail"))
    waiting = ["mail", "render", "render_v2"]
    known = [worker(tasks=("mail", "render"))]
    assert tasks_to_count(waiting, known, [full, other]) == {"render", "render_v2"}
    assert tasks_to_count(waiting, known, [limit(3, *["a"] * 3, held=9.0)]) == {"render_v2"}
    assert tasks_to_count(waiting, [], []) == frozenset()


def test_nothing_is_needed_when_all_is_well() -> None:
    seen = Overview(
        at=NOW,
        workers=[worker(), worker("web2-8-bb", overdue=3.0)],
        queues=[queue("default", 12)],
        waiting_tasks=["mail"],
        limits=[limit(3, "web1-7-aa")],
        schedules=[schedule(-60.0)],
    )
    assert needs_of(seen) == ()


def test_an_empty_store_needs_nothing() -> None:
    assert needs_of(Overview(at=NOW)) == ()
