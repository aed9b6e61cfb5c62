"""A failing world is made small: the rest still fails, and no part of it can be left out."""

import random
from functools import cache, partial
from pathlib import Path

import pytest
from msgspec import structs

from proof import simulate as command
from proof.report.failure import explain
from proof.search.cases import Case, broken_by, read, write
from proof.search.decisions import Birth, Mishap, Operation, Strike, describe
from proof.search.shrinking import Shrinker, fewest
from proof.simulator.call_outcomes import Fault
from proof.simulator.fault_schedule import BREAKS
from proof.simulator.plans import STRIKES as STRIKE_NAMES
from proof.simulator.plans import WORLDWIDE, Plan, draw
from proof.simulator.simulation import Outcome, perform, simulate
from tests.simulation.broken_keeping import EnqueueLosesLast

STORE = "tests.simulation.broken_keeping:EnqueueLosesLast"


@pytest.mark.parametrize("needed", [{3}, {0, 19}, {4, 5, 6}, set(range(20)), set()])
def test_shrinking_keeps_the_fewest_items_that_suffice(needed: set[int]) -> None:
    tried = 0

    def attempt(given: list[int]) -> list[int] | None:
        nonlocal tried
        tried += 1
        return given if needed <= set(given) else None

    assert fewest(range(20), attempt) == sorted(needed)
    assert tried < 100


def test_items_without_effect_are_not_tried_again() -> None:
    seen: list[list[int]] = []

    def attempt(given: list[int]) -> list[int] | None:
        seen.append(given)
        return [each for each in given if each in (2, 7)] if {2, 7} <= set(given) else None

    assert fewest(range(10), attempt) == [2, 7]
    assert len(seen) <= 8


@cache
def _failing() -> tuple[int, Outcome]:
    for seed in range(20):
        found = simulate(seed, EnqueueLosesLast)
        if not found.report.verdict("S6") and len(found.decisions) > 30:
            return seed, found
    raise AssertionError("no seed shows it")


def test_a_failing_world_becomes_small_and_breaks_the_same() -> None:
    seed, found = _failing()
    run = partial(perform, seed=seed, kind=EnqueueLosesLast)
    shrinker = Shrinker(run)
    small = shrinker.shrink(found, "S6")
    assert not small.report.verdict("S6")
    assert len(small.decisions) <= 3
    assert small.plan.script == tuple(small.decisions)
    assert (small.plan.processes, small.plan.strikes, small.plan.operations) == (1, (), ())
    for left in range(len(small.decisions)):
        script = tuple(small.decisions[:left] + small.decisions[left + 1 :])
        assert run(structs.replace(small.plan, script=script)).report.verdict("S6")
    assert perform(small.plan, seed).is_clean


def test_shrinking_tries_no_more_worlds_than_its_budget() -> None:
    seed, found = _failing()
    played: list[Plan] = []

    def run(plan: Plan) -> Outcome:
        played.append(plan)
        return perform(plan, seed, EnqueueLosesLast)

    shrinker = Shrinker(run, budget=5)
    small = shrinker.shrink(found)
    assert shrinker.tried == 5
    assert len(played) == 6  # once more, without the decisions that had no effect
    assert broken_by(small)


def test_a_world_that_cannot_be_replayed_is_reported_as_it_was_found(tmp_path: Path) -> None:
    seed, found = _failing()
    lines = list(explain(found, partial(perform, seed=seed), budget=9, folder=tmp_path, revision="r"))
    assert lines[0].startswith(f"{len(found.decisions)} of {len(found.decisions)} decisions")


def test_a_case_survives_its_file(tmp_path: Path) -> None:
    seed, found = _failing()
    case = Case(
        what="lost",
        breaks="S6",
        mutant="m",
        revision="r",
        seed=seed,
        plan=structs.replace(found.plan, script=tuple(found.decisions)),
    )
    write(case, tmp_path / "case.json")
    assert read(tmp_path / "case.json") == case
    assert case.play(EnqueueLosesLast).history.digest() == found.history.digest()


def test_every_decision_has_a_description() -> None:
    names = (*STRIKE_NAMES, *WORLDWIDE, "lull", "fail_over", *filter(None, BREAKS))
    assert all("store" in text or "0.1" in text for text in (describe(Strike(1.0, name, whom="worker 0.1")) for name in names))
    assert len({describe(Mishap("worker 0.1", "beat", 3, fault)) for fault in Fault}) == len(Fault)
    assert describe(Birth(0, 1, "quick", 2.0)) == "    2.00 s  client 0 enqueues its job 1 (quick)"
    assert describe(Operation(2.0, "pause", 0.5, "slow", 1.0)) == "    2.00 s  an operator does: pause slow"
    assert describe(Strike(1.5, "freeze_worker", seconds=2.0, whom="worker 0.1")) == "    1.50 s  worker 0.1: frozen for 2.00 s"
    assert "applied, and its answer gets lost" in describe(Mishap("worker 0.1", "beat", 3, Fault.ANSWER_LOST))


@pytest.mark.prove
def test_the_command_explains_a_failure_and_replays_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--store", STORE, "--folder", str(tmp_path), "--budget", "12"]
    assert command.main(["--seeds", "4", "--jobs", "1", *words]) == 1
    text = capsys.readouterr().out
    assert f"python -m proof.simulate --seed 0 --store {STORE}" in text
    assert "decisions break S6 alone" in text
    assert "client 0 enqueues its job" in text
    assert "client 0 is called client 1" in text
    left = next(tmp_path.glob("*.json"))
    assert str(left) in text
    assert command.main(["--script", str(left), "--store", STORE]) == 1
    assert "S6 promises" in capsys.readouterr().out
    assert command.main(["--script", str(left)]) == 0
    assert "nothing broke" in capsys.readouterr().out
    assert command.main(["--seed", "0", *words]) == 1
    assert "decisions break" in capsys.readouterr().out


def test_hooks_and_queues_are_drawn_and_can_be_forced_in_every_world() -> None:
    plans = [draw(random.Random(seed)) for seed in range(1000)]
    assert 100 < sum(plan.has_hooks for plan in plans) < 200
    assert 200 < sum(plan.has_queue for plan in plans) < 300
    forced = simulate(0, has_hooks=True, has_queue=True).plan
    assert forced.has_hooks
    assert forced.has_queue
