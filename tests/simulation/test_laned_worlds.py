"""Worlds with lanes: some have them, and a script repeats what an operator did to limits and queues."""

import random

from msgspec import structs

from holdfast._core.limits import ScopeKind
from proof.checker.lane_rows import ClaimRow
from proof.simulator.lane_plan import OPERATIONS
from proof.simulator.plans import Mode, Plan, draw
from proof.simulator.simulation import perform


def test_some_worlds_have_lanes_and_limits_of_each_kind() -> None:
    plans = [draw(random.Random(seed)) for seed in range(600)]
    drawn = [plan.lanes for plan in plans if plan.lanes is not None]
    limits = [limit for plan in drawn for _, limit in plan.limits]
    assert 30 < len(drawn) < 90
    assert {scope.kind for plan in drawn for scope, _ in plan.limits} == set(ScopeKind)
    assert all(any(getattr(each, part) for each in limits) for part in ("concurrency", "per_key", "rate", "rate_per_key"))
    assert any(plan.has_operator for plan in drawn)
    assert any(each.weight > 1 and each.priority for plan in drawn for each in plan.settings)
    assert not [plan for plan in plans if plan.lanes is not None and (plan.mode is Mode.CROWD or plan.rows is not None)]


def test_lanes_leave_the_rest_of_a_world_as_it_is() -> None:
    seed, plan = _operated()
    bare = structs.replace(plan, lanes=None)
    first = perform(bare, seed)
    assert first.is_clean, first.explain()
    assert not [event for event in first.history if event.what in ("limit", "claim.made")]


def test_limits_hold_and_the_operations_on_them_are_part_of_a_script() -> None:
    seed, plan = _operated()
    first = perform(plan, seed)
    assert first.is_clean, first.explain()
    assert min(first.report.checked[name] for name in ("S12", "L13", "L14")) > 10
    assert [event for event in first.history if isinstance(event.after, ClaimRow) and not event.after.taken]
    script = tuple(each for each in first.decisions if getattr(each, "name", "") in OPERATIONS)
    again = perform(structs.replace(plan, script=script), seed)
    assert [event for event in again.history if event.what == "limit" and event.after is not None]
    assert [event for event in again.history if event.what == "limit" and event.after is None]
    assert again.is_clean, again.explain()


def _operated() -> tuple[int, Plan]:
    """Return the first world of which an operator changes limits."""
    plans = ((seed, draw(random.Random(seed))) for seed in range(1000))
    return next(each for each in plans if (lanes := each[1].lanes) and lanes.has_operator and len(lanes.limits) > 1)
