"""What a schedule does next: which missed ticks fire, whose definition counts, what a pause and a skip leave out."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast._core.job import NewJob
from holdfast._core.policy import Policy
from holdfast._core.schedule import (
    UNNUMBERED,
    Definition,
    Overlap,
    Schedule,
    Source,
    advance,
    declaration,
    defined,
    may_define,
    pausing,
    skipping,
    tick_job,
)
from holdfast._core.ticks import every

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
JOB = NewJob(id=UNNUMBERED, task="task", payload=b"{}", policy=Policy())


def definition(**values: Any) -> Definition:
    return Definition(**{"when": every("1m"), "job": JOB, "grace": 90.0, **values})


def schedule(**values: Any) -> Schedule:
    return defined("s", definition(**values), None, START, UUID(int=1))


def catch_up(first: Schedule, late: timedelta) -> tuple[list[int], int]:
    """Return the minutes of the ticks that fire when supervisors come back so late, and how many are left out."""
    now, fired, missed = START + late, list[int](), 0
    while first.next_at <= now:
        move, dropped = advance(first, now, UUID(int=2))
        missed += dropped
        if move.job is not None:
            fired.append((move.tick - START) // MINUTE)
        first = structs.replace(first, next_at=move.following, last_tick=move.tick)
    return fired, missed


def test_a_tick_within_its_grace_fires_and_the_next_follows_from_it() -> None:
    move, missed = advance(schedule(), START + timedelta(seconds=140), UUID(int=2))
    assert (move.tick, move.following, missed) == (START + MINUTE, START + 2 * MINUTE, 0)
    assert move.job is not None


def test_last_fires_the_newest_missed_tick_and_those_in_time() -> None:
    assert catch_up(schedule(), 60 * MINUTE + timedelta(seconds=20)) == ([58, 59, 60], 57)


def test_none_fires_only_those_in_time() -> None:
    assert catch_up(schedule(catch_up=0), 60 * MINUTE + timedelta(seconds=20)) == ([59, 60], 58)


def test_all_fires_the_newest_in_order_oldest_first() -> None:
    assert catch_up(schedule(catch_up=100), 60 * MINUTE + timedelta(seconds=20)) == (list(range(1, 61)), 0)
    assert catch_up(schedule(catch_up=10), 60 * MINUTE + timedelta(seconds=20)) == (list(range(49, 61)), 48)


def test_the_job_of_a_tick_is_always_the_same_and_its_jitter_delays_it() -> None:
    one = schedule(jitter=30.0)
    assert tick_job(one, one.next_at) == tick_job(one, one.next_at)
    assert 0.0 <= tick_job(one, one.next_at).delay < 30.0
    assert tick_job(one, one.next_at).id != tick_job(one, one.next_at + MINUTE).id


def test_no_tick_comes_twice_through_a_new_definition_or_a_clock_that_went_back() -> None:
    fired = structs.replace(schedule(), last_tick=START + 5 * MINUTE, next_at=START + 6 * MINUTE)
    again = defined("s", definition(overlap=Overlap.QUEUE), fired, START + MINUTE, UUID(int=3))
    assert again.next_at == START + 6 * MINUTE
    paused = pausing(fired, START + MINUTE, is_paused=True)
    assert pausing(paused, START + 2 * MINUTE, is_paused=False).next_at == START + 6 * MINUTE


def test_ticks_during_a_pause_are_not_missed() -> None:
    paused = pausing(schedule(), START, is_paused=True)
    assert pausing(paused, START + MINUTE, is_paused=True) == paused
    resumed = pausing(paused, START + 90 * MINUTE, is_paused=False)
    assert (resumed.next_at, resumed.paused_at) == (START + 91 * MINUTE, None)


def test_a_skip_leaves_out_the_next_ticks_and_outlives_a_pause() -> None:
    skipped = skipping(schedule(), 3)
    assert skipped.next_at == START + 4 * MINUTE
    paused = pausing(skipped, START, is_paused=True)
    assert pausing(paused, START + MINUTE, is_paused=False).next_at == START + 4 * MINUTE


def test_a_changed_definition_starts_from_now_and_keeps_anchor_and_pause() -> None:
    paused = pausing(schedule(), START, is_paused=True)
    changed = defined("s", definition(when=every("10m")), paused, START + 3 * MINUTE, UUID(int=3))
    assert (changed.plan.anchor, changed.next_at, changed.paused_at) == (START, START + 10 * MINUTE, START)
    assert changed.plan.edition == UUID(int=3)


def test_code_does_not_replace_what_an_operator_set() -> None:
    ours = defined("s", definition(grace=5.0), schedule(), START, UUID(int=3), Source.OPERATOR)
    assert not may_define(ours, definition(), frozenset())
    assert may_define(None, definition(), frozenset())


def test_in_a_rolling_deploy_nothing_flaps_and_a_rollback_works() -> None:
    old, new = definition(), definition(grace=5.0)
    first = defined("s", old, None, START, UUID(int=1))
    assert not may_define(first, old, frozenset())
    assert may_define(first, new, frozenset([declaration("s", old.digest)]))
    second = defined("s", new, first, START, UUID(int=2))
    assert not may_define(second, old, frozenset([declaration("s", old.digest), declaration("s", new.digest)]))
    assert may_define(second, old, frozenset([declaration("s", old.digest)]))
    third = defined("s", old, second, START, UUID(int=3))
    assert third.plan.replaced == (new.digest,)
