"""The events of a world are data: a world replayed from them is the same, and leaving one out changes no other."""

import random
from uuid import UUID

import pytest
from msgspec import structs

from proof.checker.history import Phase
from proof.search.decisions import Birth, Lookup, Mishap, Operation, Strike
from proof.simulator.call_outcomes import Fault, Faults, Luck, Mix
from proof.simulator.programs import TAIL
from proof.simulator.simulation import Outcome, perform, simulate

SEEDS = range(40)


def _again(outcome: Outcome, *kept: type) -> Outcome:
    """The same world with only the decisions of these kinds."""
    script = tuple(each for each in outcome.decisions if isinstance(each, kept))
    return perform(structs.replace(outcome.plan, script=script), outcome.seed)


@pytest.mark.parametrize("seed", [*SEEDS[:2], *(pytest.param(seed, marks=pytest.mark.prove) for seed in SEEDS[2:])])
def test_a_world_played_from_its_decisions_is_the_same(seed: int) -> None:
    drawn = simulate(seed)
    played = _again(drawn, Birth, Mishap, Strike, Operation)
    assert played.history.digest() == drawn.history.digest()
    assert played.decisions == drawn.decisions


@pytest.mark.prove
def test_all_kinds_of_decisions_are_drawn() -> None:
    made = [each for seed in SEEDS for each in simulate(seed).decisions]
    assert {type(each) for each in made} == {Birth, Mishap, Strike, Operation}
    assert {each.fault for each in made if isinstance(each, Mishap)} == set(Fault) - {Fault.NONE}
    assert all(each.whom for each in made if isinstance(each, Strike) and not each.is_for_ever)


def test_only_decided_faults_happen() -> None:
    stormy = next(outcome for outcome in map(simulate, SEEDS) if outcome.report.unknown.total() > 20)
    quiet = _again(stormy, Birth)
    assert quiet.is_clean
    assert quiet.report.starts > 0
    assert not any(event.phase is Phase.UNKNOWN for event in quiet.history)
    assert not any(event.what == "process.freeze" or "SIGKILL" in event.note for event in quiet.history)


@pytest.mark.prove
def test_leaving_jobs_out_does_not_change_the_others() -> None:
    def born(outcome: Outcome) -> dict[tuple[int, int], str]:
        return {(each.client, each.job): each.task for each in outcome.decisions if isinstance(each, Birth)}

    def ids(outcome: Outcome) -> set[int]:
        return {_tail(event.job) for event in outcome.history if event.what == "enqueue" and event.job is not None}

    def _tail(job: UUID) -> int:
        return job.int & TAIL

    whole = _again(simulate(3), Birth)
    few = structs.replace(whole, decisions=whole.decisions[1::2])
    half = _again(few, Birth)
    assert born(half) == born(few)
    assert len(born(half)) < len(born(whole))
    assert ids(half) < ids(whole)


def test_a_fault_does_not_change_later_draws() -> None:
    def lucks(rates: dict[Fault, float]) -> list[Luck]:
        faults = Faults(random.Random(1), Mix(rates=rates))
        return [faults.draw("beat").luck for _ in range(50)]

    assert lucks({}) == lucks({Fault.LATE: 0.5}) == lucks({Fault.BEFORE: 1.0})


def test_a_script_counts_calls_of_one_verb_or_of_all_verbs_or_from_a_time_on() -> None:
    now = 0.0
    script = [
        Mishap("worker", "beat", 2, Fault.SLOW, Luck(0.1, 0.2, 0.3, 0.4)),
        Mishap("worker", "", 4, Fault.LATE),
        Mishap("worker", "held", 0, Fault.TWICE, time=9.0),
        Mishap("another", "beat", 1, Fault.LATE),
    ]
    faults = Faults(random.Random(1), Mix(), script=Lookup(script, "worker", lambda: now))
    assert [faults.draw(verb).fault for verb in ("beat", "held", "beat", "held", "beat")] == [
        Fault.NONE, Fault.NONE, Fault.SLOW, Fault.LATE, Fault.NONE,
    ]  # fmt: skip
    again = Faults(random.Random(1), Mix(), script=Lookup(script, "worker", lambda: now))
    assert [again.draw("beat").luck for _ in range(2)][1] == Luck(0.1, 0.2, 0.3, 0.4)
    now = 9.5
    assert [faults.draw(verb).fault for verb in ("beat", "held", "held")] == [Fault.NONE, Fault.TWICE, Fault.NONE]


def test_no_fault_happens_after_the_calm() -> None:
    faults = Faults(random.Random(1), Mix(), script=Lookup([Mishap("", "beat", 1, Fault.LATE)], "", lambda: 0.0))
    faults.stop()
    assert faults.draw("beat").fault is Fault.NONE
