"""The user code of simulated workers: one task for each way in which handlers behave, and the events that it records."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from copy import copy
from functools import cache, partial
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast._core.job import Json
from holdfast._core.outcome import Cancel, Fail, Retry, Snooze
from holdfast._core.policy import Backoff, CrashPolicy
from holdfast._core.view import RescuedJob
from holdfast._engine.client.client import Client
from holdfast._engine.tasks.context import Job
from holdfast._engine.tasks.options import Options
from holdfast._engine.tasks.registry import Registry, TaskDefinition
from holdfast._engine.tasks.registry import define as _define
from holdfast._engine.tasks.task import PreparedJob, Task
from holdfast._ports.clock import Randomness
from holdfast._ports.host import Exit
from proof.checker.history import Event, History, Phase
from proof.simulator.hosts import SimChance, SimClock
from proof.simulator.loop import Process, VirtualLoop


class Ids:
    """The ids of children, in place of an App's connections. Their handles are not used."""

    def __init__(self, chance: Randomness) -> None:
        self.chance = chance
        self.around_enqueue: tuple[()] = ()

    def client(self) -> Client:
        """Refuse: a child is written by its parent's worker."""
        raise AssertionError("a child's handle is not used in a world")


class Scene:
    """The actions of a handler of a simulated worker on its world."""

    rows: Any = None  # its own, on its own connections

    def __init__(
        self,
        loop: VirtualLoop,
        process: Process,
        *,
        clock: SimClock,
        history: History,
        now: Callable[[], float],
        pace: Callable[[], float],
        is_rough: Callable[[], bool],
        tasks: Mapping[str, TaskDefinition],
        runs: Counter[str],
    ) -> None:
        self.chance: random.Random = process.numbers
        self._runs = runs
        self._tasks = tasks
        self._pace, self._is_rough = pace, is_rough
        self._loop = loop
        self._process = process
        self._clock = clock
        self._history = history
        self._now = now

    def of(self, job: UUID, code: str) -> "Scene":
        """Return a copy for one run of a job's code: the n-th run does the same in any process and at any time."""
        made, name = copy(self), f"{code} of {job.int & TAIL}"
        self._runs[name] += 1
        made.chance = self._loop.stream(f"{name} {self._runs[name]}")
        return made

    def within(self, process: Process) -> "Scene":
        """Return a copy for code in another process."""
        made = copy(self)
        made._process = process
        return made

    @property
    def pace(self) -> float:
        """The seconds of an ordinary step."""
        return self._pace()

    @property
    def is_rough(self) -> bool:
        """Whether faults still happen."""
        return self._is_rough()

    def write(self, what: str, job: Job, note: str = "") -> None:
        """Record an event of user code."""
        self._history.add(
            Event(
                time=self._now(),
                process=self._process.name,
                what=what,
                phase=Phase.LIFE,
                job=job.id,
                token=job.token,
                note=note,
            )
        )

    def done(self, job: Job) -> str:
        """Return the handler's result, which must not be lost from now on."""
        self.write("handler.done", job)
        return str(job.token)

    async def move(self, job: Job, step: int, steps: int) -> None:
        """Report progress of the job."""
        self.write("handler.effect", job)
        self.write("handler.move", job)
        await job.progress(stage="work", fraction=step / steps, message=str(job.token))

    async def save(self, job: Job, step: int) -> None:
        """Save the step as checkpoint, and record that the code progressed."""
        self.write("handler.move", job)
        await job.checkpoint(step)

    async def bear(self, job: Job, name: str, key: str | None) -> None:
        """Enqueue a child of the job, perhaps with a unique key."""
        await job.enqueue(self.child(name, key))

    def child(self, name: str, key: str | None) -> PreparedJob[Any]:
        """Return a new child, whose id no other run of code draws."""
        ids: Any = Ids(SimChance(self.chance, self._clock))
        return PreparedJob(Task(self._tasks[name], ids), Options(unique_key=key), b"{}")

    async def wait(self, seconds: float) -> None:
        """Wait, as code that works."""
        await self._clock.sleep(seconds)

    async def crash(self) -> None:
        """End the process as a segmentation fault does."""
        self._process.end(Exit(signal="SIGSEGV"))
        await self._loop.create_future()

    async def block(self, seconds: float) -> None:
        """Compute without ever yielding: nothing else of this process runs at that time."""
        process = self._process
        blocked = Event(time=self._now(), process=process.name, what="loop.blocked", phase=Phase.LIFE, note=f"{seconds:.3f}")
        self._history.add(blocked)
        process.freeze("busy")
        self._loop.call_later(seconds, process.thaw, "busy", context=self._loop.outside)
        await self._clock.sleep(0.0)


TAIL = 2**32 - 1  # the random part of an id: the time part may differ between runs
SCENE: ContextVar[Scene] = ContextVar("scene")


@asynccontextmanager
async def _written(job: Job) -> AsyncIterator[Scene]:
    """Record when code starts and when it has ended, for any reason."""
    scene = SCENE.get().of(job.id, "handler")
    scene.write("handler.start", job)
    try:
        yield scene
    finally:
        scene.write("handler.end", job)


async def _work(scene: Scene, job: Job, steps: int) -> None:
    for step in range(steps):
        await scene.wait(scene.chance.random() * 2 * scene.pace)
        await scene.move(job, step, steps)


async def quick(job: Job) -> str:
    """Finish almost at once."""
    async with _written(job) as scene:
        await scene.wait(scene.chance.random() * 0.1)
        return scene.done(job)


async def long(job: Job) -> str:
    """Work for a while and report progress."""
    async with _written(job) as scene:
        await _work(scene, job, scene.chance.choice([2, 5, 20]))
        return scene.done(job)


async def silent(job: Job) -> str:
    """Work for long without reporting progress."""
    async with _written(job) as scene:
        await scene.wait(scene.chance.random() * 25 * scene.pace)
        return scene.done(job)


async def raising(job: Job) -> str:
    """Fail in many of the attempts."""
    async with _written(job) as scene:
        await scene.wait(scene.chance.random() * scene.pace)
        if scene.chance.random() < 0.6:
            raise ValueError(str(job.token))
        return scene.done(job)


async def answering(job: Job) -> Json:
    """Return one of all kinds of answers."""
    async with _written(job) as scene:
        await scene.wait(scene.chance.random() * scene.pace)
        answers: list[Json] = [Snooze(scene.pace), Retry(scene.pace), Retry(), Cancel("enough"), Fail("never")]
        return scene.done(job) if scene.chance.random() < 0.3 else scene.chance.choice(answers)


async def resuming(job: Job) -> str:
    """Save a checkpoint after each step, and start from the last one."""
    async with _written(job) as scene:
        first: int = job.checkpoint_value or 0
        for step in range(first, 5):
            await scene.wait(scene.chance.random() * scene.pace)
            await scene.move(job, step, 5)
            await scene.save(job, step + 1)
        return scene.done(job)


async def crashing(job: Job) -> str:
    """Kill the process in some attempts."""
    async with _written(job) as scene:
        await scene.wait(scene.chance.random() * scene.pace)
        if scene.chance.random() < 0.3:
            await scene.crash()
        return scene.done(job)


async def poison(job: Job) -> str:
    """Kill the process, every time."""
    async with _written(job) as scene:
        await scene.wait(scene.chance.random() * scene.pace)
        await scene.crash()
        return scene.done(job)


# language: deaf, numb – names of tasks in the kept worlds
async def deaf(job: Job) -> str:
    """Ignore cancellation for as long as it works."""
    async with _written(job) as scene:
        for _ in range(scene.chance.choice([1, 5, 25])):
            await _endure(scene, scene.pace)
            scene.write("handler.effect", job)
        return scene.done(job)


async def blocking(job: Job) -> str:
    """Block the event loop of its worker."""
    async with _written(job) as scene:
        await scene.wait(scene.chance.random() * scene.pace)
        await scene.block(scene.chance.random() * 12 * scene.pace)
        scene.write("handler.effect", job)
        return scene.done(job)


async def stuck(job: Job) -> str:
    """Block the event loop for longer than any time limit."""
    async with _written(job) as scene:
        await scene.block(60 * scene.pace)
        return scene.done(job)


async def parent(job: Job) -> str:
    """Enqueue children between its steps."""
    async with _written(job) as scene:
        for step in range(scene.chance.choice([1, 2, 3])):
            await scene.bear(job, scene.chance.choice(CHILDREN), scene.chance.choice([None, None, f"child {step}"]))
            await scene.wait(scene.chance.random() * scene.pace)
            await scene.move(job, step, 3)
        return scene.done(job)


async def parting(job: Job) -> str:
    """Die often before the answer about its child arrives."""
    async with _written(job) as scene:
        await scene.wait(scene.chance.random() * scene.pace)
        birth = asyncio.ensure_future(scene.bear(job, "quick", None))
        birth.add_done_callback(lambda done: done.cancelled() or done.exception())  # perhaps no code is left that awaits it
        await scene.wait(scene.chance.random() * scene.pace)
        if scene.chance.random() < 0.5:
            await scene.crash()
        await birth
        return scene.done(job)


async def steady(job: Job) -> str:
    """Report progress often enough."""
    async with _written(job) as scene:
        for step in range(scene.chance.choice([3, 20])):
            await scene.wait(scene.chance.random() * scene.pace)
            await (scene.save(job, step) if step % 3 else scene.move(job, step, 20))
        return scene.done(job)


async def creeping(job: Job) -> str:
    """Report progress as slowly as allowed, and sometimes twice at once."""
    async with _written(job) as scene:
        for step in range(3):
            await scene.wait(0.045 * CREEP * scene.pace)
            await scene.move(job, step, 3)
            await scene.wait(scene.chance.uniform(0.6, 0.98) * CREEP * scene.pace)
            await (scene.save(job, step) if scene.chance.random() < 0.5 else scene.move(job, step, 3))
        return scene.done(job)


async def stalling(job: Job) -> str:
    """Often pause for longer than allowed."""
    async with _written(job) as scene:
        for step in range(3):
            await scene.move(job, step, 3)
            await scene.wait(scene.chance.choice([0.3, 2.0]) * CREEP * scene.pace)
        return scene.done(job)


async def numb(job: Job) -> str:
    """Pause for longer than allowed, and ignore the cancellation."""
    async with _written(job) as scene:
        await scene.move(job, 0, 1)
        await _endure(scene, scene.chance.choice([1, 3]) * CREEP * scene.pace)
        return scene.done(job)


async def _endure(scene: Scene, seconds: float) -> None:
    """Wait, and ignore any cancellation."""
    working = asyncio.ensure_future(scene.wait(seconds))
    while not working.done():
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            continue


STEPS = 10.0  # of ordinary length in a ttl
CREEP = 6.0  # steps at which some tasks may pause
CHILDREN = ("quick", "raising")
LIMITED = ("steady", "creeping", "stalling", "numb", "overtime")
_BACKOFF = Backoff.fixed("500ms", "1s", "2s")
_HANDLERS: tuple[Callable[[Job], Awaitable[Json]], ...] = (
    long, resuming, crashing, poison, deaf, blocking, stuck, parent, parting,
)  # fmt: skip
_FORGOTTEN: tuple[Callable[[Job], Awaitable[Json]], ...] = (quick, silent, raising, answering)


async def write_row(rows: list[str], job: RescuedJob) -> None:
    """Run as rescue hook: write a row, in time or not, and return or raise."""
    scene = SCENE.get().of(job.id, "hook")
    await scene.wait(scene.chance.random() * 1.5 * scene.pace)
    rows.append(f"{job.attempt} {job.reason} {job.state}")
    if scene.is_rough and scene.chance.random() < 0.3:
        if scene.chance.random() < 0.3:
            await scene.crash()
        raise ValueError("no")


@cache
def tasks(ttl: float, *, has_hooks: bool = False) -> dict[str, TaskDefinition]:
    """Return all tasks by name, for leases of ``ttl`` seconds."""
    define = partial(_define, on_rescue=write_row if has_hooks else None)
    rest = CREEP / STEPS * ttl
    made = (
        *(define(handler, max_attempts=4, backoff=_BACKOFF) for handler in _HANDLERS),
        *(define(handler, max_attempts=4, backoff=_BACKOFF, retention="0s") for handler in _FORGOTTEN),
        *(define(handler, queue="slow", progress_within=rest, backoff=_BACKOFF) for handler in (creeping, stalling, numb)),
        define(steady, progress_within=0.75 * ttl, backoff=_BACKOFF),
        define(long, name="overtime", progress_within=ttl, timeout=ttl, backoff=_BACKOFF),
        define(crashing, name="crashing_once", on_crash="fail", backoff=_BACKOFF),
        define(long, name="long_held", on_crash="hold", backoff=_BACKOFF),
        define(long, name="long_patient", max_crashes=20, backoff=_BACKOFF, queue="slow"),
    )
    return {definition.name: definition for definition in made}


NAMES = tuple(sorted(tasks(30.0)))
NEW = ("resuming", "steady")


@cache
def old_tasks(ttl: float, *, has_hooks: bool = False) -> dict[str, TaskDefinition]:
    """Return the tasks of the release before: some tasks are missing, and some have other policies.

    Their crash budgets are the same. A release that allows fewer crashes may claim a crashed job whose next crash would end it:
    no worker knew that before, so this attempt would run beside others.
    """
    known = {name: task for name, task in tasks(ttl, has_hooks=has_hooks).items() if name not in NEW}
    for name, on_crash in (("raising", CrashPolicy.RETRY), ("long", CrashPolicy.HOLD), ("crashing_once", CrashPolicy.RETRY)):
        policy = structs.replace(known[name].policy, max_attempts=2, on_crash=on_crash)
        known[name] = structs.replace(known[name], policy=policy)
    return known


def registry(known: Mapping[str, TaskDefinition]) -> Registry:
    """Return a registry of all tasks, for a worker."""
    made = Registry()
    made.add(*known.values())
    return made
