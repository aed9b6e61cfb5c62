"""The user code of jobs that add jobs: with ``job.call``, ``job.gather`` and ``job.enqueue``, as workflows, and by running over a list."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import cache, partial

from msgspec import json

from holdfast._core.job import Failed, Json
from holdfast._core.policy import Backoff
from holdfast._core.steps import CALL, GATHER
from holdfast._engine.tasks.context import Job
from holdfast._engine.tasks.registry import TaskDefinition
from holdfast._engine.tasks.registry import define as _define
from holdfast._engine.workflows.builder import Workflow
from holdfast._engine.workflows.node import Node
from holdfast._engine.workflows.settings import define_workflow
from holdfast.errors import JobCancelled, JobFailed
from proof.simulator.flow_programs import Given, Steps, hurt, note_inputs
from proof.simulator.programs import SCENE, Scene, _written, write_row

LISTING, MAPPED, REDUCING, ITEMS = "listing", "mapped", "reducing", "items"
UNFOLDING = "unfolding"
CALLERS = ("calling", "gathering", "nesting", "joining")
NAMES = (*CALLERS, LISTING, MAPPED, REDUCING, UNFOLDING)
LEAVES = ("node", "failing", "stepping", "sleeping")
MOST_ITEMS = 4
_BACKOFF = Backoff.fixed("300ms", "1s")

Items = list[str | Failed] | Failed


async def calling(job: Job, left: Given = None, right: Given = None) -> Json:
    """Wait for one child between two steps."""
    async with _written(job) as scene:
        note_inputs(scene, job, left=left, right=right)
        steps, calls = Steps(scene, job), _Calls(scene, job)
        await steps.run("first")
        await calls.call(LEAVES[job.id.int % len(LEAVES)])
        await hurt(scene)
        await steps.run("last")
        return scene.done(job)


async def gathering(job: Job, left: Given = None, right: Given = None) -> Json:
    """Wait for some children at once, perhaps none, and then for others."""
    async with _written(job) as scene:
        note_inputs(scene, job, left=left, right=right)
        calls, most = _Calls(scene, job), job.id.int % 4
        await calls.gather(LEAVES[:most])
        await hurt(scene)
        if scene.chance.random() < 0.2:
            raise ValueError(str(job.token))
        if job.id.int % 3 == 0:
            await calls.gather(("node", "node"))
        return scene.done(job)


async def nesting(job: Job, left: Given = None, right: Given = None) -> Json:
    """Wait for children that wait for children or are workflows, and add one that it does not wait for."""
    async with _written(job) as scene:
        note_inputs(scene, job, left=left, right=right)
        calls = _Calls(scene, job)
        await calls.gather(("gathering", "calling", UNFOLDING, "joining"))
        await hurt(scene)
        await scene.bear(job, "node", None)
        return scene.done(job)


async def joining(job: Job, left: Given = None, right: Given = None) -> Json:
    """Add jobs to the workflow, and go on beside them."""
    async with _written(job) as scene:
        note_inputs(scene, job, left=left, right=right)
        for _ in range(scene.chance.choice([1, 2])):
            await scene.bear(job, scene.chance.choice(["node", "failing", "calling"]), None)
            await scene.wait(scene.chance.random() * scene.pace)
            await hurt(scene)
        return scene.done(job)


async def listing(job: Job) -> Json:
    """Return a list, which is often empty."""
    async with _written(job) as scene:
        await scene.wait(scene.chance.random() * scene.pace)
        await hurt(scene)
        token = scene.done(job)
        return {"token": token, ITEMS: [f"{token}/{place}" for place in range(scene.chance.choice([0, 0, 1, MOST_ITEMS]))]}


async def mapped(job: Job, item: str, left: Given = None) -> Json:
    """Work on one item of a list."""
    async with _written(job) as scene:
        note_inputs(scene, job, item=item, left=left)
        await scene.wait(scene.chance.random() * scene.pace)
        await hurt(scene)
        if scene.chance.random() < 0.15:
            raise ValueError(str(job.token))
        return scene.done(job)


async def reducing(job: Job, many: Items) -> Json:
    """Take the results of all items."""
    async with _written(job) as scene:
        given = [] if isinstance(many, Failed) else ["" if isinstance(each, Failed) else each for each in many]
        scene.write("items.given", job, json.encode(None if isinstance(many, Failed) else given).decode())
        await scene.wait(scene.chance.random() * scene.pace)
        return scene.done(job)


def unfolding(w: Workflow) -> Node[Json]:
    """Build the graph of a workflow, in the worker that has claimed its job."""
    scene = SCENE.get().of(w._root.id, "graph")
    first = w.add(scene.child("node", None))
    second = w.add(scene.child("calling", None), after=[first], when="finished", on_failure="continue")
    w.add(scene.child("joining", None), after=[first])
    return second


class _Calls:
    """The calls of one run of code. It records what the children of each of them returned."""

    def __init__(self, scene: Scene, job: Job) -> None:
        self._scene, self._job = scene, job
        self._uses = Counter[str]()

    async def call(self, task: str) -> None:
        """Wait for one child."""
        try:
            found: Json = await self._job.call(self._scene.child(task, None))
        except (JobFailed, JobCancelled) as error:
            found = error
        self._note(f"{CALL}{task}", [found])

    async def gather(self, tasks: Sequence[str]) -> None:
        """Wait for several children."""
        found = await self._job.gather([self._scene.child(task, None) for task in tasks], return_exceptions=True)
        if tasks:
            self._note(GATHER, found)

    def _note(self, name: str, found: Sequence[Json]) -> None:
        self._uses[name] += 1
        values = ["" if isinstance(each, JobFailed | JobCancelled) else each for each in found]
        self._scene.write("children.returned", self._job, f"{name}|{self._uses[name]}|{json.encode(values).decode()}")


_HANDLERS: tuple[Callable[..., Awaitable[Json]], ...] = (calling, gathering, nesting, joining, listing, mapped, reducing)


@cache
def growth_tasks(*, has_hooks: bool = False) -> dict[str, TaskDefinition]:
    """Return the tasks of jobs that add jobs, by name."""
    define = partial(_define, on_rescue=write_row if has_hooks else None)
    made = [define(handler, max_attempts=3, backoff=_BACKOFF) for handler in _HANDLERS]
    return {definition.name: definition for definition in (*made, define_workflow(unfolding))}
