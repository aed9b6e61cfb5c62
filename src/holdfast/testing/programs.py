"""The user code of simulated workers: one task for each way in which handlers behave, and what each writes down."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar

from holdfast._core.job import Json
from holdfast._core.outcome import Cancel, Fail, Retry, Snooze
from holdfast._core.policy import Backoff
from holdfast._engine.context import Job
from holdfast._engine.registry import Registry, define
from holdfast._ports.clock import Clock
from holdfast._ports.host import Exit
from holdfast.testing.history import Event, History, Phase
from holdfast.testing.loop import Process, VirtualLoop


class Scene:
    """What a handler of a simulated worker can do to its world."""

    def __init__(
        self,
        loop: VirtualLoop,
        process: Process,
        *,
        clock: Clock,
        history: History,
        now: Callable[[], float],
        pace: Callable[[], float],
    ) -> None:
        self.chance: random.Random = loop.chance
        self._pace = pace
        self._loop = loop
        self._process = process
        self._clock = clock
        self._history = history
        self._now = now

    @property
    def pace(self) -> float:
        """Seconds of an ordinary step."""
        return self._pace()

    def write(self, what: str, job: Job) -> None:
        """An event of user code."""
        self._history.add(
            Event(time=self._now(), process=self._process.name, what=what, phase=Phase.LIFE, job=job.id, token=job.token)
        )

    async def wait(self, seconds: float) -> None:
        """Work, or look like it."""
        await self._clock.sleep(seconds)

    async def crash(self) -> None:
        """A segmentation fault."""
        self._process.end(Exit(signal="SIGSEGV"))
        await self._loop.create_future()

    async def block(self, seconds: float) -> None:
        """Compute without ever yielding: nothing else of this process runs meanwhile."""
        process = self._process
        process.freeze("busy")
        self._loop.call_later(seconds, process.thaw, "busy", context=self._loop.outside)
        await self._clock.sleep(0.0)


SCENE: ContextVar[Scene] = ContextVar("scene")


@asynccontextmanager
async def _written(job: Job) -> AsyncIterator[Scene]:
    """Says when code starts and when it has ended, however."""
    scene = SCENE.get()
    scene.write("handler.start", job)
    try:
        yield scene
    finally:
        scene.write("handler.end", job)


async def _work(scene: Scene, job: Job, steps: int) -> None:
    for step in range(steps):
        await scene.wait(scene.chance.random() * 2 * scene.pace)
        scene.write("handler.effect", job)
        await job.progress(stage="work", fraction=step / steps, message=str(job.token))


async def quick(job: Job) -> str:
    """Ends at once."""
    async with _written(job) as scene:
        await scene.wait(scene.chance.random() * 0.1)
        return str(job.token)


async def long(job: Job) -> str:
    """Works for a while and says so."""
    async with _written(job) as scene:
        await _work(scene, job, scene.chance.choice([2, 5, 20]))
        return str(job.token)


async def silent(job: Job) -> str:
    """Works for long and says nothing."""
    async with _written(job) as scene:
        await scene.wait(scene.chance.random() * 25 * scene.pace)
        return str(job.token)


async def raising(job: Job) -> str:
    """Often fails."""
    async with _written(job) as scene:
        await scene.wait(scene.chance.random() * scene.pace)
        if scene.chance.random() < 0.6:
            raise ValueError(str(job.token))
        return str(job.token)


async def answering(job: Job) -> Json:
    """Gives every kind of answer."""
    async with _written(job) as scene:
        await scene.wait(scene.chance.random() * scene.pace)
        answers: list[Json] = [Snooze(scene.pace), Retry(scene.pace), Retry(), Cancel("enough"), Fail("never")]
        return scene.chance.choice([str(job.token), str(job.token), *answers])


async def resuming(job: Job) -> str:
    """Saves a checkpoint after each step and starts from the last one."""
    async with _written(job) as scene:
        first: int = job.checkpoint_value or 0
        for step in range(first, 5):
            await scene.wait(scene.chance.random() * scene.pace)
            scene.write("handler.effect", job)
            await job.progress(stage="step", fraction=step / 5, message=str(job.token))
            await job.checkpoint(step + 1)
        return str(job.token)


async def crashing(job: Job) -> str:
    """Sometimes kills its process."""
    async with _written(job) as scene:
        await scene.wait(scene.chance.random() * scene.pace)
        if scene.chance.random() < 0.3:
            await scene.crash()
        return str(job.token)


async def poison(job: Job) -> str:
    """Always kills its process."""
    async with _written(job) as scene:
        await scene.wait(scene.chance.random() * scene.pace)
        await scene.crash()
        return str(job.token)


async def deaf(job: Job) -> str:
    """Ignores cancellation for as long as it works."""
    async with _written(job) as scene:
        until = scene.chance.choice([1, 5, 25])
        for _ in range(until):
            working = asyncio.ensure_future(scene.wait(scene.pace))
            while not working.done():
                try:
                    await asyncio.shield(working)
                except asyncio.CancelledError:
                    continue
            scene.write("handler.effect", job)
        return str(job.token)


async def blocking(job: Job) -> str:
    """Blocks the event loop of its worker."""
    async with _written(job) as scene:
        await scene.wait(scene.chance.random() * scene.pace)
        await scene.block(scene.chance.random() * 20 * scene.pace)
        scene.write("handler.effect", job)
        return str(job.token)


async def stuck(job: Job) -> str:
    """Blocks the event loop for longer than anybody's patience."""
    async with _written(job) as scene:
        await scene.block(60 * scene.pace)
        return str(job.token)


_BACKOFF = Backoff.fixed("500ms", "1s", "2s")
_HANDLERS: tuple[Callable[[Job], Awaitable[Json]], ...] = (
    quick, long, silent, raising, answering, resuming, crashing, poison, deaf, blocking, stuck,
)  # fmt: skip
TASKS = {
    definition.name: definition
    for definition in (
        *(define(handler, max_attempts=4, backoff=_BACKOFF) for handler in _HANDLERS),
        define(crashing, name="crashing_once", on_crash="fail", backoff=_BACKOFF),
        define(long, name="long_held", on_crash="hold", backoff=_BACKOFF),
        define(long, name="long_patient", max_crashes=20, backoff=_BACKOFF),
    )
}


def registry() -> Registry:
    """All of them."""
    made = Registry()
    for definition in TASKS.values():
        made.add(definition)
    return made
