"""Worlds with workflows, steps and signals: drawn ones, a script of one, and the small ones that are enumerated."""

import random
from functools import partial

import pytest
from msgspec import structs

from holdfast._core.book.book import Book
from proof.checker.flow_rows import FlowRow
from proof.checker.history import Event, JobRow
from proof.search.enumeration import SCRIPTS, Enumeration, Reach, attempt
from proof.simulator.flow_plan import OPERATIONS, FlowsPlan
from proof.simulator.growth_plan import GrowthPlan
from proof.simulator.plans import Mode, Plan, draw, draw_for
from proof.simulator.profiles import Brand
from proof.simulator.simulation import Outcome, perform, simulate
from tests.simulation import broken_flows as flows
from tests.simulation.mutants import MUTANTS
from tests.simulation.run_mutants import known_seeds, play

RULES = ("S18", "S19", "S20", "S21", "S22", "S23", "S27", "L12", "L17")


def test_some_worlds_have_workflows_and_operators_who_steer_them() -> None:
    plans = [draw(random.Random(seed)) for seed in range(400)]
    drawn = [plan for plan in plans if plan.flows is not None]
    assert 30 < len(drawn) < 90
    assert {plan.flows is not None and plan.flows.has_operator for plan in drawn} == {True, False}
    assert not [plan for plan in drawn if plan.locks or plan.mode in (Mode.FORGETFUL, Mode.CROWD, Mode.LULLS)]


def test_a_world_without_workflows_records_nothing_of_them() -> None:
    seed, plan = _steered()
    outcome = perform(structs.replace(plan, flows=None), seed)
    assert outcome.is_clean, outcome.explain()
    assert not [event for event in outcome.history if event.what in ("flow", "written", "step") or _member(event)]


def test_each_rule_judges_and_members_move_in_every_way() -> None:
    seed, plan = _steered()
    many = FlowsPlan(flows=6, most=8, waiting=4, has_operator=True)
    outcome = perform(structs.replace(plan, flows=many, operations=("retry", "cancel", "delete")), seed)
    assert outcome.is_clean, outcome.explain()
    assert not [name for name in RULES if name != "S27" and not outcome.report.checked[name]]
    verbs = {event.by.verb for event in outcome.history if event.by is not None and _member(event)}
    assert verbs >= {"enqueue", "claim", "exchange", "pass_on", "steer_flow"}
    assert {"step", "signal.kept", "signal.taken", "inputs.given"} <= {event.what for event in outcome.history}
    assert [event for event in outcome.history if isinstance(event.after, FlowRow) and event.after.is_paused]


def test_what_operators_did_to_workflows_is_part_of_a_script() -> None:
    seed, plan = _steered()
    first = perform(plan, seed)
    script = tuple(each for each in first.decisions if getattr(each, "name", "") in OPERATIONS)
    again = perform(structs.replace(plan, script=script), seed)
    assert again.is_clean, again.explain()
    assert len(_steering(again)) > 0
    assert not _steering(perform(structs.replace(plan, script=()), seed))


def _steering(outcome: Outcome) -> list[Event]:
    verbs = ("steer_flow", "signal")
    found = [event for event in outcome.history if event.by is not None and event.by.verb in verbs]
    return [event for event in found if event.process.startswith("m") and event.time < outcome.plan.chaos]


def _member(event: Event) -> bool:
    return isinstance(event.after, JobRow) and event.after.member is not None


def _steered() -> tuple[int, Plan]:
    """Return the first world of which an operator steers workflows."""
    plans = ((seed, draw(random.Random(seed))) for seed in range(1000))
    fit = (each for each in plans if each[1].flows is not None and each[1].mode is Mode.SAFETY and each[1].flows.has_operator)
    return next(fit)


GROWN = FlowsPlan(flows=6, most=5, waiting=0, growth=GrowthPlan(share=0.8, maps=4, callers=3, dependents=6))


def test_some_workflows_grow_and_the_rest_of_their_worlds_stays_as_it_was() -> None:
    plans = [plan for plan in (draw(random.Random(seed)) for seed in range(400)) if plan.flows is not None]
    grown = [plan.flows.growth for plan in plans if plan.flows is not None and plan.flows.growth is not None]
    assert 15 < len(grown) < len(plans) - 15
    assert {bool(growth.dependents) for growth in grown} == {bool(growth.callers) for growth in grown} == {True, False}


def test_members_add_children_in_every_way_and_jobs_wait_for_existing_ones() -> None:
    seed, plan = _steered()
    outcome = perform(structs.replace(plan, flows=GROWN), seed)
    assert outcome.is_clean, outcome.explain()
    rows = [event.after for event in outcome.history if isinstance(event.after, JobRow) and event.after.member is not None]
    members = [row.member for row in rows if row.member is not None]
    assert {True, False} == {member.is_suspended for member in members}
    assert {row.task for row in rows} >= {
        "calling",
        "gathering",
        "nesting",
        "joining",
        "listing",
        "mapped",
        "reducing",
        "unfolding",
    }
    assert max(member.node.count("/") for member in members) > 1
    edges = [edge for event in outcome.history if isinstance(event.after, FlowRow) for edge in event.after.edges]
    assert [edge for edge in edges if edge.parent_flow is not None]
    assert {"children.returned", "items.given"} <= {event.what for event in outcome.history}
    sizes = [event.note.count('"') // 2 for event in outcome.history if event.what == "items.given"]
    assert 0 in sizes
    assert max(sizes) > 1


def test_a_member_that_runs_again_after_its_children_gets_their_results_again() -> None:
    plan = structs.replace(_steered()[1], flows=GROWN)
    assert any(_is_replayed(perform(plan, seed)) for seed in range(5))


def _is_replayed(outcome: Outcome) -> bool:
    calls = [(event.job, *event.note.split("|")[:2]) for event in outcome.history if event.what == "children.returned"]
    return len(set(calls)) < len(calls)


# small worlds

GUARDS: dict[str, tuple[str, str, type[Book]]] = {
    "a child is released in the write of its last parent": ("join", "S19", flows.ReleasedLater),
    "a settle sent again lowers no counter": ("join", "S18", flows.LoweredAgain),
    "a cancelled member is passed on": ("join", "S19", flows.CancelPastTheFlow),
    "a job that suspends looks for its signal": ("signal", "S23", flows.SignalWithoutLock),
    "a signal wakes the job that waits": ("signal", "S23", flows.WakesNoJob),
    "a signal is consumed once": ("signal", "S23", flows.SignalKeptAfterUse),
}
LONG = {"a job that suspends looks for its signal"}
"""Guards whose search takes seconds; `make prove` looks for them."""


@pytest.mark.parametrize("guard", [pytest.param(each, marks=[pytest.mark.prove] * (each in LONG)) for each in GUARDS])
def test_at_most_one_deviation_shows_that_a_guard_is_missing(guard: str) -> None:
    name, broken, kind = GUARDS[guard]
    script = next(each for each in SCRIPTS if each.name == name)
    trials = Enumeration(script, 1, Reach.SHARP).trials(partial(map, partial(attempt, script, kind=kind)))
    found = next(trial for trial in trials if any(problem.startswith(broken) for problem in trial.problems))
    assert not attempt(script, found.deviations).problems


def test_the_story_of_a_job_has_its_steps_and_signals() -> None:
    mutant = next(each for each in MUTANTS if each.name == "signal kept after its use")
    broken = play(mutant, known_seeds()[mutant.name], mutant.kind)
    story = broken.explain()
    assert "of the step :wait_for:go of the job returns" in story
    assert "the signal go is kept for the job" in story
    assert "S23 promises: a signal is consumed at most once" in story


# real statements


def test_the_workflows_of_a_real_store_are_judged() -> None:
    seed = next(each for each in range(400) if _is_steered_on_sqlite(each))
    outcome = simulate(seed, brand=Brand.SQLITE)
    assert outcome.is_clean, outcome.explain()
    assert min(outcome.report.checked[name] for name in ("S18", "S19", "S22", "S23")) > 2


def test_the_growth_of_workflows_in_a_real_store_is_judged() -> None:
    seed = next(each for each in range(400) if _is_steered_on_sqlite(each))
    small = FlowsPlan(flows=2, most=4, waiting=0, growth=GrowthPlan(share=0.8, maps=1, callers=1, dependents=2))
    outcome = perform(structs.replace(draw_for(seed, Brand.SQLITE), flows=small), seed)
    assert outcome.is_clean, outcome.explain()
    assert {"children.returned", "items.given"} & {event.what for event in outcome.history}


def _is_steered_on_sqlite(seed: int) -> bool:
    plan = draw_for(seed, Brand.SQLITE)
    flows = plan.flows
    return flows is not None and flows.has_operator and flows.flows == 2 and flows.waiting > 0 and plan.mode is Mode.SAFETY
