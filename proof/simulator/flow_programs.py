"""The user code of members of workflows, and of jobs with steps: what they got, what each step returned, and what it waited for."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import cache, partial

from msgspec import json

from holdfast._core.job import Failed, Json
from holdfast._core.outcome import Fail
from holdfast._core.policy import Backoff
from holdfast._engine.tasks.context import Job
from holdfast._engine.tasks.registry import TaskDefinition
from holdfast._engine.tasks.registry import define as _define
from proof.simulator.programs import Scene, _written, write_row

ROOT = "flow"
"""The task of roots, which no worker has code for."""
NAMES = ("node", "failing", "stepping", "waiting", "sleeping")
SIGNAL = "go"
_BACKOFF = Backoff.fixed("300ms", "1s")
_CRASHES = 0.05  # of the moments at which the process may end

Given = str | Failed | None


async def node(job: Job, left: Given = None, right: Given = None) -> Json:
    """Record the results of other members, and end in any way after a while."""
    async with _written(job) as scene:
        note_inputs(scene, job, left=left, right=right)
        await scene.wait(scene.chance.random() * scene.pace)
        await hurt(scene)
        if scene.chance.random() < 0.15:
            raise ValueError(str(job.token))
        return scene.done(job)


async def failing(job: Job, left: Given = None, right: Given = None) -> Json:
    """Fail in most of the attempts, or at once for good."""
    async with _written(job) as scene:
        note_inputs(scene, job, left=left, right=right)
        await scene.wait(scene.chance.random() * scene.pace)
        if scene.chance.random() < 0.3:
            return Fail("never")
        if scene.chance.random() < 0.6:
            raise ValueError(str(job.token))
        return scene.done(job)


async def stepping(job: Job) -> Json:
    """Run steps, alone and beside each other, and fail or die between them."""
    async with _written(job) as scene:
        steps = Steps(scene, job)
        await steps.run("first")
        await asyncio.gather(*(steps.run(name, later=scene.chance.random()) for name in ("left", "right", "left")))
        await hurt(scene)
        if scene.chance.random() < 0.3:
            raise ValueError(str(job.token))
        await steps.run("last")
        return scene.done(job)


async def waiting(job: Job) -> Json:
    """Wait for a signal, with a timeout or without one, and perhaps for a second one."""
    async with _written(job) as scene:
        steps, plan = Steps(scene, job), _plan_of(job, scene)
        await steps.run("first")
        for timeout in plan:
            await steps.wait(timeout)
            await hurt(scene)
        if scene.chance.random() < 0.2:
            raise ValueError(str(job.token))
        await steps.run("last")
        return scene.done(job)


async def sleeping(job: Job) -> Json:
    """Sleep in its slot, or for longer than that, between two steps."""
    async with _written(job) as scene:
        steps = Steps(scene, job)
        await steps.run("first")
        await job.sleep(scene.pace * (1 if job.id.int % 3 else 6))
        await hurt(scene)
        await steps.run("last")
        return scene.done(job)


class Steps:
    """The steps of one run of code. It records what each of them returned."""

    def __init__(self, scene: Scene, job: Job) -> None:
        self._scene, self._job = scene, job
        self._uses = Counter[str]()

    async def run(self, name: str, *, later: float = 0.0) -> None:
        """Run a step whose result is new each time that its function is called."""
        scene, job = self._scene, self._job
        if later:
            await scene.wait(later * scene.pace / 2)
        self._uses[name] += 1
        nth = self._uses[name]

        async def work() -> str:
            await scene.wait(scene.chance.random() * scene.pace / 2)
            return f"{name} {scene.chance.getrandbits(32)}"

        value = await job.step(name, work, unordered=bool(later))
        scene.write("step.returned", job, f"{name}|{nth}|{json.encode(value).decode()}")

    async def wait(self, timeout: float | None) -> None:
        """Wait for the signal."""
        name = f":wait_for:{SIGNAL}"
        self._uses[name] += 1
        try:
            value = await self._job.wait_for(SIGNAL, timeout=timeout)
        except TimeoutError:
            result = ""
        else:
            result = json.encode(value).decode()
        self._scene.write("step.returned", self._job, f"{name}|{self._uses[name]}|{result}")


def _plan_of(job: Job, scene: Scene) -> tuple[float | None, ...]:
    """Return the timeouts of a job's waits: as many in each of its attempts."""
    pace = scene.pace
    plans: tuple[tuple[float | None, ...], ...] = ((None,), (3 * pace,), (2 * pace, None), (5 * pace, 5 * pace))
    return plans[job.id.int % len(plans)]


def note_inputs(scene: Scene, job: Job, **given: Given) -> None:
    """Record the results of other members that the code got."""
    values = {name: "" if isinstance(value, Failed) else value for name, value in given.items() if value is not None}
    scene.write("inputs.given", job, json.encode(values).decode())


async def hurt(scene: Scene) -> None:
    """End the process at some of these moments."""
    if scene.is_rough and scene.chance.random() < _CRASHES:
        await scene.crash()


_HANDLERS: tuple[Callable[..., Awaitable[Json]], ...] = (failing, waiting, sleeping)
_FORGOTTEN: tuple[Callable[..., Awaitable[Json]], ...] = (node, stepping)


@cache
def flow_tasks(*, has_hooks: bool = False) -> dict[str, TaskDefinition]:
    """Return the tasks of members, by name."""
    define = partial(_define, on_rescue=write_row if has_hooks else None)
    made = [
        *(define(handler, max_attempts=3, backoff=_BACKOFF) for handler in _HANDLERS),
        *(define(handler, max_attempts=3, backoff=_BACKOFF, retention="0s") for handler in _FORGOTTEN),
    ]
    return {definition.name: definition for definition in made}


async def _root(job: Job) -> None:
    """Stand for the code of a root, which has none."""


@cache
def root_task(*, is_brief: bool) -> TaskDefinition:
    """Return the task of a root. ``is_brief``: it may be forgotten as soon as it has ended."""
    return _define(_root, name=ROOT, retention="0s" if is_brief else "7d")
