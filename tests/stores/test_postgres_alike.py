"""Children of a settled member that are alike: the plan of a move decides on one for all, and on each of them if they end."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from holdfast._core.graph import Link, Verdict, Waiting
from holdfast._core.workflow import Flow
from holdfast.stores.postgres.flow_plan import Advance, FlowPlan, Known, NotRead, Write

FLOW, PARENT, OTHER, FIRST, SECOND, SINGLE = (UUID(int=number) for number in range(6))
ALIKE = f"{{{FIRST},{SECOND}}}"
MEMBERS = {job: Waiting(job, 1, 1) for job in (FIRST, SECOND, SINGLE)}


def known() -> Known:
    """Return what is known of a parent with two children that are alike, of which one is read, and one more child."""
    links = {PARENT: [Link(PARENT, MEMBERS[FIRST]), Link(PARENT, MEMBERS[SINGLE], tolerates=True)], OTHER: []}
    return Known(datetime(2030, 1, 1, tzinfo=UTC), {FLOW: Flow(id=FLOW)}, links, alike={FIRST: ALIKE})


def test_one_statement_moves_all_that_are_alike_and_another_one_the_rest() -> None:
    plan = FlowPlan(known())
    plan.set_counters({FIRST: Waiting(FIRST, 2, 3), SINGLE: Waiting(SINGLE, 4, 5)})
    plan.judge({FIRST: Verdict.RELEASE, SINGLE: Verdict.RELEASE}, Flow(id=FLOW))
    assert plan.writes == [
        Write("count_alike", (ALIKE, 2, 3)),
        Advance({SINGLE: Waiting(SINGLE, 4, 5)}, [SINGLE], [ALIKE]),
    ]


def test_children_that_end_are_decided_on_one_by_one() -> None:
    with pytest.raises(NotRead):
        FlowPlan(known()).judge({FIRST: Verdict.FAIL}, Flow(id=FLOW))


def test_each_child_gets_the_links_of_the_one_that_stood_for_all() -> None:
    split = known()
    split.split_alike()
    assert split.alike == {}
    assert split.links == {
        PARENT: [
            Link(PARENT, MEMBERS[FIRST]),
            Link(PARENT, MEMBERS[SECOND]),
            Link(PARENT, MEMBERS[SINGLE], tolerates=True),
        ],
        OTHER: [],
    }
