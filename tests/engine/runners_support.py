"""Runner processes that a test plays, in place of real ones."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from holdfast._core.outcome import Done
from holdfast._engine.embedded.in_process import LoopChannel
from holdfast._engine.runners import messages
from holdfast._engine.runners.options import Runners
from holdfast._engine.runners.pool import RunnerPool
from holdfast._engine.tasks.registry import TaskDefinition, define
from holdfast._ports.host import Exit
from tests.engine.support import LEASE, Bench, until

Message = TypeVar("Message")

GRACE, MARGIN, PAUSE = 4.0, 1.0, 2.0
DONE = messages.RunEnded(messages.OutcomeData.of(Done(b'"done"')))
STACKS = 'File "shop.py", line 7 in spin'


class FakeChild:
    """A runner process that the test plays."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.channel, self.theirs = LoopChannel.pair(loop, loop)
        self.is_killed = False
        self.received = list[messages.Message]()
        self._unread = deque[messages.Message]()
        self._exit: asyncio.Future[Exit] = loop.create_future()
        self._crash_stacks = ""
        self._reading = loop.create_task(self._read())

    def say(self, *sent: messages.Message) -> None:
        for message in sent:
            self.theirs.send(messages.encode(message))

    async def next(self, kind: type[Message]) -> Message:
        """Return the next message, which must be of this kind."""
        await until(lambda: self._unread)
        message = self._unread.popleft()
        assert isinstance(message, kind), message
        return message

    def die(self, exit: Exit, *, stacks: str = "") -> None:
        if not self._exit.done():
            self._crash_stacks = stacks
            self.theirs.close()
            self._exit.set_result(exit)

    async def dump_stacks(self) -> str:
        return STACKS

    def last_stacks(self) -> str:
        return self._crash_stacks

    def kill(self) -> None:
        self.is_killed = True
        self.die(Exit(signal="SIGKILL"))

    async def wait(self) -> Exit:
        return await asyncio.shield(self._exit)

    async def _read(self) -> None:
        while (data := await self.theirs.receive()) is not None:
            message = messages.decode(data)
            self.received.append(message)
            self._unread.append(message)


class FakeRunnerHost:
    """A host that starts fake runners, or raises ``error``."""

    def __init__(self) -> None:
        self.children = list[FakeChild]()
        self.error: OSError | None = None

    async def spawn(self) -> FakeChild:
        if self.error is not None:
            raise self.error
        self.children.append(FakeChild())
        return self.children[-1]


class RunnerBench(Bench):
    """A worker's engine whose handlers with ``process=True`` run in fake runners."""

    def __init__(self, *tasks: Callable[..., Any] | TaskDefinition, size: int = 2, runners: Runners | None = None) -> None:
        super().__init__(*tasks)
        self.host = FakeRunnerHost()
        limits = {"grace": GRACE, "margin": MARGIN, "pause": PAUSE}
        self.pool = RunnerPool(
            self.host, runners or Runners(kill_after=GRACE), size=size, **limits, events=self.log.events, chance=self.chance
        )
        self.executor._pool = self.pool
        self.exchange = self.open_exchange(LEASE)

    async def child(self, number: int = 0) -> FakeChild:
        """Return that runner, once it was started."""
        await until(lambda: len(self.host.children) > number)
        return self.host.children[number]

    async def begun_child(self, number: int = 0) -> FakeChild:
        """Return that runner once the code of its first job runs."""
        child = await self.child(number)
        child.say(messages.Ready())
        await child.next(messages.Run)
        child.say(messages.RunStarted())
        return child

    async def complete(self, number: int = 0) -> None:
        """Have that runner complete its first job."""
        (await self.begun_child(number)).say(DONE)


def processed(**options: Any) -> TaskDefinition:
    """Return a task whose handler runs in a process."""

    def handler() -> None:
        raise AssertionError("it ran in the worker")

    return define(handler, process=True, **options)
