"""A machine in memory: pipes, worker processes as their supervisor sees them, and what a worker sees of itself."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from holdfast._core.identity import ProcessIdentity
from holdfast._engine import messages
from holdfast._ports.host import Exit
from holdfast._ports.transport import Hint

PROCESS = ProcessIdentity("host", 7, 700, "boot", "pid:1", "time:1")


class MemoryChannel:
    """One end of a pipe."""

    def __init__(self) -> None:
        self._inbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.other: MemoryChannel = self
        self.is_closed = False

    @classmethod
    def pair(cls) -> "tuple[MemoryChannel, MemoryChannel]":
        left, right = cls(), cls()
        left.other, right.other = right, left
        return left, right

    def send(self, message: bytes) -> None:
        if not self.is_closed:
            self.other._inbox.put_nowait(message)

    async def receive(self) -> bytes | None:
        message = await self._inbox.get()
        if message is None:
            self._inbox.put_nowait(None)
        return message

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.other._inbox.put_nowait(None)
            self._inbox.put_nowait(None)

    def say(self, message: messages.Message) -> None:
        """Send a message, encoded as the engine encodes it."""
        self.send(messages.encode(message))

    async def hear(self, kind: type[Any]) -> Any:
        """Return the next message of that kind; drop those before it."""
        while True:
            data = await self.receive()
            assert data is not None, f"the pipe was closed before {kind.__name__} came"
            message = messages.decode(data)
            if isinstance(message, kind):
                return message

    def received(self) -> list[Any]:
        """Return the messages that have arrived and were not read yet."""
        found = []
        while not self._inbox.empty():
            data = self._inbox.get_nowait()
            if data is not None:
                found.append(messages.decode(data))
        return found


class MemorySupervisorLink:
    """The link from a worker to its supervisor."""

    def __init__(self, channel: MemoryChannel, process: ProcessIdentity = PROCESS, limits: tuple[str, ...] = ()) -> None:
        self.channel, self.limits = channel, limits
        self.code_running: list[bool] = []
        self._process = process

    def process(self) -> ProcessIdentity:
        return self._process

    def set_code_running(self, is_running: bool) -> None:
        self.code_running.append(is_running)


class MemoryChild:
    """A worker process that the test plays through ``far``, the worker's end of the pipe."""

    def __init__(self, pid: int) -> None:
        self.process = ProcessIdentity("host", pid, pid * 100, "boot", "pid:1", "time:1")
        self.channel, self.far = MemoryChannel.pair()
        self.deadlines: list[float] = []
        self.is_frozen = False
        self.is_guarded = True
        self.kills = 0
        self.has_ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()

    def set_deadline(self, guard_deadline: float) -> bool:
        self.deadlines.append(guard_deadline)
        return self.is_guarded

    def is_stopped(self) -> bool:
        return self.is_frozen

    def dump_stacks(self) -> str:
        return "its stacks"

    def kill(self) -> None:
        self.kills += 1
        self.end(Exit(signal="SIGKILL"))

    def end(self, exit: Exit) -> None:
        """End the process, unless it has ended already."""
        if not self.has_ended.done():
            self.has_ended.set_result(exit)
            self.far.close()

    async def wait(self) -> Exit:
        return await asyncio.shield(self.has_ended)


class MemoryHost:
    """A machine whose worker processes the test plays."""

    def __init__(self) -> None:
        self.children: asyncio.Queue[MemoryChild] = asyncio.Queue()
        self.spawned: list[MemoryChild] = []
        self.times: list[float] = []
        self.running: set[int] = set()
        self.killed: list[int] = []
        self.errors: deque[Exception] = deque()
        self.may_spawn = asyncio.Event()
        self.may_spawn.set()

    def process(self) -> ProcessIdentity:
        return ProcessIdentity("host", 1, 100, "boot", "pid:1", "time:1")

    def is_running(self, process: ProcessIdentity) -> bool:
        return process.pid in self.running

    def memory(self, process: ProcessIdentity) -> int | None:
        return process.pid * 2**20

    def kill_orphans(self, process: ProcessIdentity) -> int:
        self.killed.append(process.pid)
        return 0

    async def spawn(self, arguments: Sequence[str]) -> MemoryChild:
        self.times.append(asyncio.get_running_loop().time())
        if self.errors:
            raise self.errors.popleft()
        await self.may_spawn.wait()
        child = MemoryChild(100 + len(self.spawned))
        self.spawned.append(child)
        self.children.put_nowait(child)
        self.running.add(child.process.pid)
        child.has_ended.add_done_callback(lambda _: self.running.discard(child.process.pid))
        return child


class MemoryTransport:
    """A transport that delivers hints to its subscribers in this process."""

    deliveries = None

    def __init__(self) -> None:
        self.published: list[Hint] = []
        self.wakes: list[Callable[[Hint], None]] = []
        self.is_closed = False

    async def publish(self, hints: Sequence[Hint]) -> None:
        self.published += hints
        for hint in hints:
            for wake in self.wakes:
                wake(hint)

    async def subscribe(self, wake: Callable[[Hint], None]) -> None:
        self.wakes.append(wake)

    async def close(self) -> None:
        self.is_closed = True
