"""The scripts of small worlds: what happens in each without deviations, and the plan of its processes."""

from collections.abc import Callable
from uuid import UUID

from msgspec import Struct

from holdfast._core.job import NewJob
from holdfast._core.member import Input, Member
from holdfast._core.schedule import Overlap
from holdfast._core.ticks import Every
from holdfast._core.timing import LeaseTiming
from holdfast._core.workflow import Edge, NewFlow, NewMember, gate_edges
from holdfast._engine.tasks.registry import TaskDefinition
from holdfast.settings import Settings
from proof.search.deviations import What
from proof.simulator.call_outcomes import Mix
from proof.simulator.flow_plan import FlowsPlan
from proof.simulator.flow_programs import ROOT, root_task
from proof.simulator.growth_plan import GrowthPlan
from proof.simulator.growth_programs import CALLERS
from proof.simulator.plans import Mode, Plan
from proof.simulator.profiles import LeaseClock, Profile
from proof.simulator.schedule_plan import DrawnSchedule, SchedulesPlan

TIMING = LeaseTiming(ttl=6.0, beat=2.25, margin=1.5)  # the fewest beats that a lease may have
INTERVAL = 1.5  # of recovery, and of polls
LATENCY = 0.01
TIMEOUT = 0.3  # from a call that fails to its error
CLAIMED_WITHIN = 3.52  # of a worker that claims jobs ahead: it wakes while they are being returned
CLOCKS: dict[Profile, LeaseClock] = {
    Profile.PLAIN: "server", Profile.SQLITE: "kernel", Profile.MONGODB: "server", Profile.OBJECTS: "none",
}  # fmt: skip
SCHEDULE = DrawnSchedule(
    name="s",
    when=Every(1_000_000),
    task="quick",
    catch_up=1,
    overlap=Overlap.SKIP,
    jitter=0.0,
    grace=1.0,
    is_declared=True,
)


class Script(Struct, frozen=True):
    """The run without deviations: a client enqueues these jobs in one call, or with a key one after the other.

    ``profile``: the kind of store. Both supervisors are on one machine if the store is a file. ``members``: instead of jobs, those of one
    workflow: the task of each, and the numbers of its parents. ``is_awaited``: the one job gets dependents, before it is cancelled and
    while it is retried. ``ticks``: instead of jobs, a schedule that moves on so often. ``ahead``: how many jobs each worker claims ahead
    of its slots, which are ``concurrency``. ``extra``: what an operator may do in this script only. ``window``: the least number of calls
    that change something between one deviation and the next: in some races others come between.
    """

    name: str
    jobs: tuple[str, ...] = ()
    key: str | None = None
    profile: Profile = Profile.PLAIN
    has_hooks: bool = False
    has_queue: bool = False
    members: tuple[tuple[str, tuple[int, ...]], ...] = ()
    is_awaited: bool = False
    ticks: int = 0
    ahead: int = 0
    concurrency: int = 2
    extra: tuple[What, ...] = ()
    window: int = 0


def plan_of(script: Script) -> Plan:
    """Return the plan of a script: two supervisors with a worker each."""
    settings = Settings(
        url="simulated:",
        timing=TIMING,
        recovery_interval=INTERVAL,
        poll_interval=INTERVAL,
        max_block=4 * TIMING.ttl,
        grace=TIMING.ttl / 2,
        claimed_within=CLAIMED_WITHIN if script.ahead else None,
    )
    return Plan(
        mode=Mode.SAFETY,
        profile=script.profile,
        longest_write=0.0 if script.profile is Profile.PLAIN else 2 * LATENCY,
        lease_clock=CLOCKS[script.profile],
        settings=settings,
        supervisors=2,
        processes=1,
        concurrency=script.concurrency,
        jobs=len(script.jobs),
        clients=1,
        tasks=script.jobs,
        operations=(),
        chaos=0.0,
        patience=20 * TIMING.ttl,
        interval=TIMING.ttl,
        strikes=(),
        mix=Mix(latency=LATENCY, timeout=TIMEOUT),
        rate_error=0.001,
        step=0.0,
        hint_loss=0.0,
        has_hooks=script.has_hooks,
        has_queue=script.has_queue,
        flows=_flows_of(script),
        schedules=SchedulesPlan(schedules=(SCHEDULE,)) if script.ticks else None,
        ahead=script.ahead,
    )


def _flows_of(script: Script) -> FlowsPlan | None:
    """Return the plan of workflows that do not begin by chance; with tasks that add jobs where the script has such members."""
    is_growing = any(task in CALLERS for task, _ in script.members)
    growth = GrowthPlan() if is_growing else None
    return FlowsPlan(flows=0, most=0, waiting=0, growth=growth) if script.extra else None


def flow_of(script: Script, known: dict[str, TaskDefinition], new_id: Callable[[int], UUID]) -> NewFlow:
    """Return the workflow of a script; each member takes the results of its parents."""
    root, ids = new_id(0), [new_id(number + 1) for number in range(len(script.members))]
    members, edges = list[NewMember](), list[Edge]()
    for job, (name, parents) in zip(ids, script.members, strict=True):
        edges += [Edge(ids[parent], job) for parent in parents]
        inputs = tuple(Input(parameter, ids[parent]) for parameter, parent in zip(("left", "right"), parents, strict=False))
        new = NewJob(id=job, task=name, payload=b"{}", policy=known[name].policy)
        members.append(NewMember(new, Member(flow=root, node=f"n{len(members)}", inputs=inputs)))
    gate = NewJob(id=root, task=ROOT, payload=b"{}", policy=root_task(is_brief=False).policy)
    node = Member(flow=root, node=ROOT, is_gate=True, inputs=(Input("", ids[-1]),))
    return NewFlow(root=NewMember(gate, node), members=tuple(members), edges=(*edges, *gate_edges(root, ids, edges)))
