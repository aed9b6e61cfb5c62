"""Why a due job waits for a limit, a rate or its lane: each cause has numbers, holders and a command that helps."""

from uuid import UUID

from msgspec import structs

from holdfast._core.cause import Cause, Code
from holdfast._core.explanation import WorkerFacts, explain
from holdfast._core.job import State
from holdfast._core.lane_cause import LaneFacts
from holdfast._core.limit_causes import command, limit_causes
from holdfast._core.limits import Holder, KeyUse, Limit, LimitView, Scope, ScopeKind
from tests.core.test_explanation import IDLE, JOB, LATER, NOW

ALL, QUEUE, TASK = Scope(ScopeKind.ALL), Scope(ScopeKind.QUEUE, "slow"), Scope(ScopeKind.TASK, "analyze")
HELD = Holder(UUID(int=7), "w-1", 12.0)
LANE = LaneFacts(queue="slow", key="acme", ahead=3, lanes=4)


def facts(
    limit: Limit, scope: Scope = QUEUE, *, active: int = 0, wait: float = 0.0, holders: tuple[Holder, ...] = ()
) -> LimitView:
    return LimitView(scope=scope, limit=limit, active=active, wait=wait, holders=holders, of_key=KeyUse("acme"))


def causes(*known: LimitView, alive: tuple[str, ...] = ("w-1",)) -> tuple[Cause, ...]:
    found = limit_causes(known, alive, NOW)
    assert all("`holdfast " in each.remedy for each in found)
    return found


def test_a_limit_with_a_free_slot_is_not_named() -> None:
    assert causes(facts(Limit(concurrency=2, per_key=1, rate="1/s", rate_per_key="1/s"), active=1)) == ()


def test_a_full_limit_is_named_with_its_numbers_and_holders() -> None:
    (cause,) = causes(facts(Limit(concurrency=2, rate="9/s"), active=2, holders=(HELD, structs.replace(HELD, held=1.0))))
    assert cause.code is Code.AT_CAPACITY
    assert cause.message.startswith("the limit of queue slow is full: 2 of 2 jobs are active: job 00000000-")
    assert "on w-1 since 2024-05-01 11:59:48Z" in cause.message
    assert cause.remedy == "wait until one ends, or raise it: `holdfast limits set queue slow --concurrency 3 --rate 9/s`"


def test_a_full_limit_of_a_key_is_named_with_the_key() -> None:
    known = structs.replace(facts(Limit(per_key=1), TASK), of_key=KeyUse("acme", 1, holders=(HELD,)))
    (cause,) = causes(known)
    assert cause.message.startswith("the limit of task analyze for the key 'acme' is full: 1 of 1 jobs are active")
    assert cause.remedy.endswith("`holdfast limits set task analyze --per-key 2`")


def test_holders_whose_workers_have_ended_wait_for_their_rescue() -> None:
    (cause,) = causes(facts(Limit(concurrency=1), ALL, active=1, holders=(HELD,)), alive=())
    assert "on w-1, which has ended, since" in cause.message
    assert "`holdfast recover module:app`" in cause.remedy


def test_a_limit_of_nothing_is_reported_as_such() -> None:
    (cause,) = causes(facts(Limit(concurrency=0), ALL))
    assert cause.message == "the limit of the cluster is 0: no job of it may start"
    assert cause.remedy == "raise it: `holdfast limits set cluster --concurrency 1`"


def test_a_rate_is_named_with_its_next_start() -> None:
    (cause,) = causes(facts(Limit(rate="6/m", burst=2), wait=8.5))
    assert cause.code is Code.RATE_LIMITED
    assert "the rate of queue slow, 6/m, allows the next start at 2024-05-01 12:00:08Z, in 8.5 s" in cause.message
    assert cause.remedy.endswith("`holdfast limits set queue slow --rate 12/m --burst 2`")
    (of_key,) = causes(structs.replace(facts(Limit(rate_per_key="1/m")), of_key=KeyUse("acme", wait=10.0)))
    assert "for the key 'acme', 1/m, allows the next start at 2024-05-01 12:00:10Z" in of_key.message


def test_full_limits_come_before_rates() -> None:
    found = causes(facts(Limit(rate="1/s"), ALL, wait=1.0), facts(Limit(concurrency=1), active=1, holders=(HELD,)))
    assert [each.code for each in found] == [Code.AT_CAPACITY, Code.RATE_LIMITED]


def test_the_command_of_a_limit_keeps_its_other_values() -> None:
    whole = Limit(concurrency=1, per_key=2, rate="3/s", rate_per_key="4/s", burst=5)
    assert command(ALL, whole) == (
        "`holdfast limits set cluster --concurrency 1 --per-key 2 --rate 3/s --rate-per-key 4/s --burst 5`"
    )


# in an explanation


def codes(
    *workers: WorkerFacts, known: tuple[LimitView, ...] = (), lane: LaneFacts | None = LANE, **changes: object
) -> list[str]:
    job = structs.replace(JOB, key="acme", **changes)  # type: ignore[arg-type]
    found = explain(job, is_paused=False, workers=workers, now=NOW, limits=known, lane=lane)
    return [f"{each.code}: {each.message}"[:40] for each in found.causes]


FULL = facts(Limit(concurrency=1), active=1, holders=(HELD,))


def test_a_limit_matters_more_than_busy_workers_and_less_than_missing_ones() -> None:
    busy = structs.replace(IDLE, free=0)
    assert [each[:30] for each in codes(busy, known=(FULL,))] == [
        "at_capacity: the limit of queu",
        "at_capacity: all workers that ",
    ]
    assert [each[:14] for each in codes(known=(FULL,))] == ["no_live_worker", "at_capacity: t"]
    assert [each[:11] for each in codes(IDLE, known=(FULL,))] == ["at_capacity"]


def test_limits_are_not_named_for_a_job_that_is_not_due() -> None:
    assert [each[:9] for each in codes(IDLE, known=(FULL,), state=State.SCHEDULED, available_at=LATER)] == ["due_later"]


def test_a_job_behind_busy_workers_is_explained_with_its_position() -> None:
    busy = structs.replace(IDLE, free=0)
    summary = explain(JOB, is_paused=False, workers=(busy,), now=NOW, lane=LANE).summary
    assert summary.endswith("; 3 jobs of its lane (queue slow, key 'acme') are before it, and 4 lanes take turns")


def test_a_lane_that_is_overtaken_more_than_its_turns_explain_is_reported() -> None:
    idle = structs.replace(IDLE, slots=10)
    assert codes(idle, lane=structs.replace(LANE, overtakers=52)) == []
    (cause,) = explain(JOB, is_paused=False, workers=(idle,), now=NOW, lane=structs.replace(LANE, overtakers=53)).causes
    assert cause.code is Code.AT_CAPACITY
    assert "waits longer than its share, as one of 4 lanes: 53 jobs of other lanes started since it was due" in cause.message
    assert "`holdfast queues set slow --weight 2`" in cause.remedy
