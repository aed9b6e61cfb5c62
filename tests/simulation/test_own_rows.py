"""Rows that handlers commit in ``job.transaction(within=…)``, and keys that are held on other terms, on real statements of SQLite."""

import random

import pytest

from holdfast._core.job import Token
from holdfast._core.own_connection import require_ours
from holdfast.stores.sqlite import caller_blocks
from proof.checker.history import JobRow, Phase
from proof.checker.verdicts import Rules
from proof.search.cases import broken_by
from proof.simulator.fault_schedule import strikes_of_clocks
from proof.simulator.own_rows import BOOKINGS, with_own_rows
from proof.simulator.plans import Mode, draw_for
from proof.simulator.profiles import Brand
from proof.simulator.simulation import simulate
from tests.simulation.hand_made_histories import FIRST, JOB, SECOND, Tale, new
from tests.simulation.mutants import MUTANTS
from tests.simulation.run_mutants import known_seeds, play

OPEN = Rules(is_complete=False)
ROWS = "own rows commit unchecked"


def booked(tale: Tale, token: Token = FIRST) -> Tale:
    return tale.say("own_row", Phase.TRUTH, job=JOB, token=token)


def running() -> Tale:
    return new(task="booking").claim()


def test_s3_only_the_owner_of_a_job_commits_a_row() -> None:
    assert booked(running()).check(OPEN).verdict("S3")
    assert not booked(running().life("handler.end", FIRST).end_lease().rescue()).check(OPEN).verdict("S3")
    assert not booked(running(), SECOND).check(OPEN).verdict("S3")


def test_s10_a_completed_job_has_the_row_of_its_last_attempt() -> None:
    assert booked(running()).life("handler.end", FIRST).settle().check(OPEN).verdict("S10")
    assert not running().life("handler.end", FIRST).settle().check(OPEN).verdict("S10")


def test_s3_a_thawed_handler_whose_job_was_rescued_commits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = []

    def required(*given: object, is_ours: bool) -> None:
        refused.append(not is_ours)
        require_ours(*given, is_ours=is_ours)  # type: ignore[arg-type]

    monkeypatch.setattr(caller_blocks, "require_ours", required)
    outcome = play(next(each for each in MUTANTS if each.name == ROWS), known_seeds()[ROWS])
    assert outcome.is_clean, outcome.explain()
    assert any(refused)
    assert sum(event.what == "own_row" for event in outcome.history) > 20


def test_some_worlds_on_a_file_have_handlers_that_write_rows() -> None:
    plans = [with_own_rows(draw_for(seed, Brand.SQLITE)) for seed in range(60)]
    drawn = [plan for plan in plans if {*BOOKINGS} <= {*plan.tasks}]
    assert len(drawn) > 5
    assert {plan.mode for plan in drawn} == {Mode.SAFETY, Mode.BEYOND}
    plan = draw_for(0, Brand.MEMORY)
    assert with_own_rows(plan) == plan


@pytest.mark.timeout(120)
def test_s11_keys_are_held_for_a_period_on_a_real_file_whose_clock_steps() -> None:
    mutant = next(each for each in MUTANTS if each.name == "period of a key ignored by a statement")
    outcome = play(mutant, known_seeds()[mutant.name])
    rows = [event.after for event in outcome.history if event.what == "job" and isinstance(event.after, JobRow)]
    assert any(row.key_kept is not None and row.key_kept > 0 and row.is_finished for row in rows)
    assert any(row.key_terms.is_freed for row in rows)
    assert any(row.key_terms.until_started for row in rows)
    assert any(event.what == "clock.step" for event in outcome.history)
    assert not broken_by(outcome)


def test_half_of_the_worlds_on_a_real_server_have_clocks_that_step_by_minutes() -> None:
    drawn = [strikes_of_clocks(draw_for(seed, Brand.POSTGRES), random.Random(seed)) for seed in range(100)]
    stepping = [strikes for strikes in drawn if strikes]
    assert 35 < len(stepping) < 65
    minutes = [each.seconds / 60 for strikes in stepping for each in strikes if each.name == "step_machine"]
    assert sum(each > 1 for each in minutes) > 20
    assert sum(each < -1 for each in minutes) > 20
    assert sum(any(each.name == "step_clock" for each in strikes) for strikes in stepping) > 10
    assert strikes_of_clocks(draw_for(1, Brand.MEMORY), random.Random(1)) == []


def test_s11_keys_are_held_for_a_period_on_a_real_server_while_clocks_step() -> None:
    outcome = simulate(106, brand=Brand.POSTGRES)
    assert outcome.is_clean, outcome.explain()
    rows = [event.after for event in outcome.history if event.what == "job" and isinstance(event.after, JobRow)]
    assert any(row.key_kept is not None and row.key_kept > 0 and row.is_finished for row in rows)
    assert any(row.key_terms.until_started for row in rows)
    steps = {
        event.process: float(event.note) for event in outcome.history if event.what == "clock.step" and event.note != "+0.000"
    }
    assert {"store", "m0", "m1"} <= {*steps}
    assert min(steps.values()) < -60
    assert max(steps.values()) > 60
