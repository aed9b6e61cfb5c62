"""Small worlds, enumerated: no property breaks in any of them, and a single deviation shows that a guard is missing."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest

from holdfast._core.book.book import Book
from proof.checker.history import Event, Phase
from proof.enumerate import main
from proof.search.deviations import Deviation, Until, What
from proof.search.enumeration import ALL, SCRIPTS, Enumeration, Reach, Trial, attempt, perform
from tests.simulation import broken_stores as stores
from tests.simulation import broken_workers as workers

ONE = SCRIPTS[0]


def _enumerate(*words: str) -> str:
    command = [sys.executable, "-m", "proof.enumerate", "--depth", "1", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.prove
@pytest.mark.timeout(180)
def test_no_single_deviation_breaks_anything() -> None:
    """Any one deviation, at every call and at every moment."""
    output = _enumerate("--script", "one")
    moments = attempt(ONE, ()).moments
    assert int(output.split("worlds ")[-1].split(" ")[0].replace(",", "")) > 20 * len(ALL) + sum(moments) - len(moments)
    assert "0 violations" in output


@pytest.mark.prove
@pytest.mark.timeout(180)
def test_no_sharp_deviation_breaks_any_script() -> None:
    """Sharp deviations, at every call that changes something."""
    output = _enumerate("--reach", "sharp")
    assert all(script.name in output for script in SCRIPTS)
    assert "0 violations" in output


GUARDS: dict[str, tuple[str, type[Book], Callable[[], Any]]] = {
    "settling is idempotent": ("S10", stores.SettleOnlyOnce, nullcontext),
    "progress carries a token": ("S3", stores.ReportUnfenced, nullcontext),
    "an ended lease is not beaten": ("S3", stores.BeatRevives, nullcontext),
    "code stops before its job moves": ("S8", Book, workers.settle_before_stop),
    "a lease ends before its claims move": ("S5", stores.MoveBeforeEnd, nullcontext),
    "a crash is counted": ("S9", stores.CrashNotCounted, nullcontext),
}
LONG = {"settling is idempotent", "code stops before its job moves", "a crash is counted"}
"""Guards whose search takes seconds; `make prove` looks for them."""


def _first_that_breaks(kind: type[Book]) -> Trial:
    trials = Enumeration(ONE, 1, Reach.SHARP).trials(partial(map, partial(attempt, ONE, kind=kind)))
    return next(trial for trial in trials if trial.problems)


@pytest.mark.parametrize("guard", [pytest.param(each, marks=[pytest.mark.prove] * (each in LONG)) for each in GUARDS])
def test_one_deviation_shows_that_a_guard_is_missing(guard: str) -> None:
    name, kind, taken_out = GUARDS[guard]
    with taken_out():
        found = _first_that_breaks(kind)
    assert len(found.deviations) == 1
    assert any(problem.startswith(name) for problem in found.problems)
    assert not attempt(ONE, found.deviations).problems


def test_two_deviations_show_a_bug_that_neither_shows() -> None:
    """An owner is frozen for longer than its lease, and thaws between the read of that lease and its end."""
    claim = next(number for number, call in enumerate(attempt(ONE, ()).calls, 1) if call.is_busy and call.verb == "exchange")
    frozen = Deviation(claim, What.CREW_FREEZE_AFTER, Until.TAKEN)
    calls = attempt(ONE, (frozen,)).calls
    look = next(number for number, call in enumerate(calls, 1) if call.is_busy and call.verb == "expired")
    woken = Deviation(look, What.RELEASE_AFTER)
    assert any(problem.startswith("S5") for problem in attempt(ONE, (frozen, woken), stores.EndWithoutJudging).problems)
    assert not any(attempt(ONE, (each,), stores.EndWithoutJudging).problems for each in (frozen, woken))
    assert not attempt(ONE, (frozen, woken)).problems


@pytest.mark.prove
def test_a_broken_world_is_reported_with_the_command_that_repeats_it(capsys: pytest.CaptureFixture[str]) -> None:
    with workers.settle_before_stop():
        assert main(["--script", "one", "--depth", "1", "--reach", "sharp", "--jobs", "1"]) == 1
        output = capsys.readouterr().out
        world = output.split("--world '")[1].split("'")[0]
        assert main(["--script", "one", "--world", world]) == 1
    assert "S8 (past its deadline a worker starts nothing" in output
    assert "The story of job" in capsys.readouterr().out
    assert main(["--script", "one", "--world", world]) == 0
    assert "nothing broke" in capsys.readouterr().out


def test_a_world_is_decided_by_its_script_and_its_deviations() -> None:
    words = [
        sys.executable,
        "-m",
        "proof.enumerate",
        "--script",
        "batch",
        "--world",
        "30:crew-freeze-after:taken 60:late:done",
    ]
    output = {
        subprocess.run(words, capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}).stdout for seed in "12"
    }
    assert len(output) == 1
    assert b"digest" in output.pop()


@pytest.mark.parametrize("text", ["7:refused", "12:late:taken", "3:swap:2"])
def test_a_deviation_has_the_effect_that_it_names(text: str) -> None:
    assert str(Deviation.parse(text)) == text


# effects of deviations


def _settle() -> int:
    """The number of the call that ends the job."""
    return max(number for number, call in enumerate(attempt(ONE, ()).calls, 1) if call.is_busy)


def _events(*deviations: Deviation) -> list[Event]:
    outcome, _ = perform(ONE, deviations)
    assert outcome.is_clean
    return list(outcome.history)


def _places(events: list[Event], what: str, phase: Phase) -> list[int]:
    return [place for place, event in enumerate(events) if event.what == what and event.phase is phase]


def test_a_call_of_a_dead_sender_arrives_when_another_worker_owns_the_job() -> None:
    events = _events(Deviation(_settle(), What.CRASH_SENT, Until.TAKEN))
    output = [event.process for event in events if event.what == "claim" and event.phase is Phase.OK]
    assert len(set(output)) == 2


def test_a_frozen_crew_thaws_when_all_is_done() -> None:
    events = _events(Deviation(_settle(), What.CREW_FREEZE_BEFORE, Until.DONE))
    assert len(_places(events, "process.freeze", Phase.LIFE)) == 3
    assert min(_places(events, "process.thaw", Phase.LIFE)) > max(_places(events, "done", Phase.LIFE))
    assert len([event for event in events if event.what == "settle" and event.phase is Phase.FAIL]) == 1


def test_held_calls_can_be_released_at_a_call() -> None:
    frozen = Deviation(_settle(), What.CREW_FREEZE_BEFORE, Until.DONE)
    later = _settle() + 3
    events = _events(frozen, Deviation(later, What.RELEASE_BEFORE))
    assert min(_places(events, "process.thaw", Phase.LIFE)) < max(_places(events, "done", Phase.LIFE))


def test_another_order_of_a_moment_is_another_world() -> None:
    shapes = {attempt(ONE, (Deviation(moment, What.SWAP, first=1),)).shape for moment in range(1, 30)}
    assert len(shapes) > 1
