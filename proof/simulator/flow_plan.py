"""The workflows of a world: their graphs, the jobs with steps beside them, and what operators do to both."""

import random
from collections.abc import Callable, Sequence
from uuid import UUID

from msgspec import Struct

from holdfast._core.job import NewJob
from holdfast._core.member import Input, Member, OnFailure
from holdfast._core.policy import Policy
from holdfast._core.workflow import Edge, NewFlow, NewMember, gate_edges
from proof.search.decisions import Operation
from proof.simulator.flow_programs import ROOT, root_task
from proof.simulator.growth_plan import GrowthPlan, grown, map_tasks

SHARE = 0.2  # of the worlds that may have some
OPERATIONS = (
    "pause_flow", "pause_flow", "resume_flow", "cancel_flow", "retry_flow", "retry_node", "retry_member", "cancel_member",
    "signal", "signal", "signal", "signal_again", "drift",
)  # fmt: skip
SIGNALS = ("signal", "signal_again")
TASKS = ("node", "node", "node", "failing", "stepping", "waiting", "sleeping")
TAKING = ("node", "failing")  # these take results
POLICIES = (*(OnFailure.FAIL,) * 5, OnFailure.CONTINUE, OnFailure.CONTINUE, OnFailure.PAUSE, OnFailure.PAUSE, OnFailure.CANCEL)

NewId = Callable[[int], UUID]
Place = Callable[[NewJob, int], NewJob]


class FlowsPlan(Struct, frozen=True, kw_only=True):
    """The workflows of a world. ``most``: their members, at most. ``waiting``: how many jobs with steps belong to none.

    ``has_operator``: an operator steers workflows, sends signals and damages counters at random; without one, signals only come in the
    end. ``growth``: what is added to workflows, and waits for them, once they have begun.
    """

    flows: int
    most: int
    waiting: int
    has_operator: bool = False
    growth: GrowthPlan | None = None


class Kit(Struct, frozen=True):
    """What a drawn workflow is made of: ids by number, the policies of tasks, and where each job is placed."""

    new_id: NewId
    policies: dict[str, Policy]
    place: Place
    ttl: float


def draw_flows(numbers: random.Random, *, share: float = SHARE) -> FlowsPlan | None:
    """Draw workflows for that share of the worlds, without their growth."""
    if numbers.random() >= share:
        return None
    return FlowsPlan(
        flows=numbers.choice([1, 2, 3, 5]),
        most=numbers.choice([2, 4, 8, 12]),
        waiting=numbers.choice([0, 1, 3]),
        has_operator=numbers.random() < 0.7,
    )


def draw_flow(plan: FlowsPlan, numbers: random.Random, kit: Kit) -> NewFlow:
    """Draw a workflow: a chain, layers, diamonds, or any graph."""
    parents = _draw_graph(numbers, numbers.randint(0 if numbers.random() < 0.05 else 1, plan.most))
    root, ids = kit.new_id(0), [kit.new_id(number + 1) for number in range(len(parents))]
    members, edges = list[NewMember](), list[Edge]()
    for number, mine in enumerate(parents):
        tolerates = numbers.random() < 0.25
        edges += [Edge(ids[parent], ids[number], tolerates) for parent in mine]
        task = numbers.choice(TASKS)
        takes = mine[:2] if task in TAKING and numbers.random() < 0.7 else []
        inputs = tuple(Input(name, ids[parent]) for name, parent in zip(("left", "right"), takes, strict=False))
        join = numbers.choice([None, None, 1, numbers.randint(1, len(mine))]) if len(mine) > 1 else None
        node = Member(flow=root, node=f"n{number}", join=join, on_failure=numbers.choice(POLICIES), inputs=inputs)
        members.append(NewMember(kit.place(_draw_job(numbers, ids[number], task, kit), number), node))
    return NewFlow(
        root=_draw_root(numbers, root, ids),
        members=tuple(members),
        edges=(*edges, *gate_edges(root, ids, edges)),
        deadline=numbers.random() * 2 * kit.ttl if numbers.random() < 0.15 else None,
    )


def draw_grown_flow(plan: FlowsPlan, growth: GrowthPlan, numbers: random.Random, later: random.Random, kit: Kit) -> NewFlow:
    """Draw a workflow that grows; ``later``: the numbers of what the growth adds."""
    flow = draw_flow(plan, numbers, kit)
    first, root = len(flow.members), flow.root.job.id
    spares = [
        NewMember(
            kit.place(_draw_job(later, kit.new_id(first + place + 1), task, kit), first + place), Member(flow=root, node=name)
        )
        for place, (task, name) in enumerate((task, f"{task} {number}") for number in range(growth.maps) for task in map_tasks())
    ]
    return grown(flow, growth, later, spares, kit.policies)


def _draw_graph(numbers: random.Random, size: int) -> list[list[int]]:
    """Return the parents of each member, by number."""
    match numbers.choice(["chain", "layers", "diamonds", "any", "any"]):
        case "chain":
            return [[number - 1] if number else [] for number in range(size)]
        case "layers":
            width = numbers.choice([2, 3])
            rows = [range(first, min(first + width, size)) for first in range(0, size, width)]
            return [list(rows[place - 1]) if place else [] for place, row in enumerate(rows) for _ in row]
        case "diamonds":  # one, two beside each other, one, …
            before = {0: [1], 1: [1], 2: [2], 3: [1, 2]}
            return [
                [number - back for back in before[number % 3 or 3 * bool(number)] if number >= back] for number in range(size)
            ]
        case _:
            return [sorted(numbers.sample(range(number), numbers.randint(0, min(3, number)))) for number in range(size)]


def _draw_job(numbers: random.Random, job: UUID, task: str, kit: Kit) -> NewJob:
    return NewJob(
        id=job,
        task=task,
        payload=b"{}",
        policy=kit.policies[task],
        priority=numbers.choice([0, 0, -1]),
        delay=numbers.choice([0.0, 0.0, 0.0, numbers.random() * kit.ttl]),
        expires_in=numbers.random() * 2 * kit.ttl if numbers.random() < 0.05 else None,
    )


def _draw_root(numbers: random.Random, root: UUID, ids: Sequence[UUID]) -> NewMember:
    task = root_task(is_brief=numbers.random() < 0.5)
    key = f"flow {numbers.randrange(2)}" if numbers.random() < 0.15 else None
    job = NewJob(id=root, task=ROOT, payload=b"{}", policy=task.policy, unique_key=key)
    inputs = (Input("", numbers.choice(ids)),) if ids else ()
    return NewMember(job, Member(flow=root, node=ROOT, is_gate=True, inputs=inputs))


def operations_on(plan: FlowsPlan, script: Sequence[object] | None, chaos: float, numbers: random.Random) -> list[Operation]:
    """Return the operations of the script, or else drawn ones."""
    if script is not None:
        return [each for each in script if isinstance(each, Operation) and each.name in OPERATIONS]
    found, time = list[Operation](), numbers.random() * chaos / 8
    while plan.has_operator and time < chaos:
        variant = float(numbers.choice([0, 0, 1, 1, 2, 3]))
        found.append(Operation(time, numbers.choice(OPERATIONS), numbers.random(), "", variant))
        time += numbers.random() * chaos / 8
    return found
