"""The growth of a world's workflows: members that add children, lists that members run over, and jobs that wait for existing ones."""

import random
from collections.abc import Mapping, Sequence
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.dependencies import After
from holdfast._core.member import Input
from holdfast._core.policy import Policy
from holdfast._core.workflow import Edge, NewFlow, NewMember, gate_edges
from proof.simulator.growth_programs import CALLERS, ITEMS, LISTING, MAPPED, REDUCING

SHARE = 0.5  # of the worlds with workflows
MOST_PARENTS = 3


class GrowthPlan(Struct, frozen=True, kw_only=True):
    """The growth of a world. ``share``: of the members that add children. ``maps``: in each workflow, at most.

    ``callers``: the jobs that add children and belong to no workflow from the start. ``dependents``: the jobs that wait for jobs that
    exist already.
    """

    share: float = 0.0
    maps: int = 0
    callers: int = 0
    dependents: int = 0


def draw_growth(numbers: random.Random) -> GrowthPlan | None:
    """Draw the growth of the workflows of some worlds."""
    if numbers.random() >= SHARE:
        return None
    return GrowthPlan(
        share=numbers.choice([0.0, 0.3, 0.8]),
        maps=numbers.choice([0, 1, 2]),
        callers=numbers.choice([0, 1, 3]),
        dependents=numbers.choice([0, 2, 6]),
    )


def grown(
    flow: NewFlow, plan: GrowthPlan, numbers: random.Random, spares: Sequence[NewMember], policies: Mapping[str, Policy]
) -> NewFlow:
    """Return a drawn workflow with members that add children, and with maps; ``spares``: three new members for each map.

    These are what returns the list, what runs over it, and what takes all its results.
    """
    root, members = flow.root.job.id, [_calling(each, plan, numbers, policies) for each in flow.members]
    edges = [edge for edge in flow.edges if edge.child != root]
    for place in range(numbers.randint(0, plan.maps)):
        source, mapped, reduced = spares[3 * place : 3 * place + 3]
        before = [each.job.id for each in numbers.sample(members, min(len(members), numbers.choice([0, 1, 2])))]
        shared = before[:1] if numbers.random() < 0.5 else []
        edges += [Edge(each, source.job.id) for each in before] + [Edge(each, mapped.job.id, tolerates=True) for each in shared]
        edges += [Edge(source.job.id, mapped.job.id), Edge(mapped.job.id, reduced.job.id, numbers.random() < 0.5)]
        over = Input("item", source.job.id, (ITEMS,), is_each=True)
        inputs = (over, *(Input("left", each) for each in shared))
        members += [source, _taking(mapped, *inputs), _taking(reduced, Input("many", mapped.job.id))]
    ids = [each.job.id for each in members]
    return structs.replace(flow, members=tuple(members), edges=(*edges, *gate_edges(root, ids, edges)))


def map_tasks() -> tuple[str, ...]:
    """Return the tasks of the three members that make up a map, in their order."""
    return LISTING, MAPPED, REDUCING


def draw_after(numbers: random.Random, known: Sequence[UUID]) -> After:
    """Draw what a job waits for; ``known``: the ids of the jobs that exist."""
    parents = tuple(numbers.sample(list(known), min(len(known), numbers.randint(1, MOST_PARENTS))))
    required = numbers.choice([None, None, 1, numbers.randint(1, len(parents))])
    return After(parents, required, tolerates=numbers.random() < 0.3)


def _calling(member: NewMember, plan: GrowthPlan, numbers: random.Random, policies: Mapping[str, Policy]) -> NewMember:
    if numbers.random() >= plan.share:
        return member
    task = numbers.choice(CALLERS)
    return NewMember(structs.replace(member.job, task=task, policy=policies[task]), member.member)


def _taking(new: NewMember, *inputs: Input) -> NewMember:
    return NewMember(new.job, structs.replace(new.member, inputs=inputs))
