"""Worlds with schedules: some have them, and a script repeats what an operator did to them."""

import random

from msgspec import structs

from holdfast._core.schedule import Overlap
from proof.simulator.plans import Mode, draw, draw_for
from proof.simulator.profiles import Brand
from proof.simulator.schedule_plan import OPERATIONS
from proof.simulator.simulation import perform, simulate


def test_some_worlds_have_schedules_and_operators_who_change_them() -> None:
    plans = [draw(random.Random(seed)) for seed in range(400)]
    drawn = [plan.schedules for plan in plans if plan.schedules is not None]
    assert 30 < len(drawn) < 90
    assert any(each.has_operator for each in drawn)
    assert {each.overlap for plan in drawn for each in plan.schedules} == set(Overlap)
    assert not [plan for plan in plans if plan.schedules is not None and plan.mode is Mode.CROWD]


def test_the_operations_on_schedules_are_part_of_a_script() -> None:
    seed = next(each for each in range(400) if _has_operator(each))
    plan = draw(random.Random(seed))
    first = perform(plan, seed)
    script = tuple(each for each in first.decisions if getattr(each, "name", "") in OPERATIONS)
    again = perform(structs.replace(plan, script=script), seed)
    changes = [
        event for event in again.history if event.what == "schedule" and event.by is not None and event.by.verb != "advance"
    ]
    assert script
    assert changes
    assert again.is_clean, again.explain()


def _has_operator(seed: int) -> bool:
    plan = draw(random.Random(seed))
    return plan.schedules is not None and plan.schedules.has_operator and plan.mode is Mode.SAFETY


def test_the_ticks_of_a_real_store_are_judged() -> None:
    seed = next(each for each in range(400) if _is_declared(each))
    outcome = simulate(seed, brand=Brand.SQLITE)
    assert outcome.is_clean, outcome.explain()
    assert min(outcome.report.checked["S14"], outcome.report.checked["L15"]) > 10


def _is_declared(seed: int) -> bool:
    plan = draw_for(seed, Brand.SQLITE)
    declared = [] if plan.schedules is None else [each for each in plan.schedules.schedules if each.is_declared]
    return bool(declared) and plan.mode is Mode.SAFETY
