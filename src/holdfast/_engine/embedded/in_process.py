"""A worker in the user's event loop, and its supervisor's view of it from another thread: nothing here can be killed."""

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextvars import Context

from holdfast._core.identity import ProcessIdentity
from holdfast._core.payload import cut_text
from holdfast._engine import messages
from holdfast._engine.worker.worker import Worker
from holdfast._ports.host import Exit, Host, SupervisorLink

ABANDONED = "abandoned"
"""The value in place of a signal: code that could not be stopped runs on, and its messages no longer count."""
MOST_STACKS = 16 * 1024
READY = messages.encode(messages.Ready())


class LoopChannel:
    """One end of a pipe inside one process; ``loop`` is the event loop that receives here. ``send`` may be called in any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._is_closed = False
        self.other: LoopChannel = self
        self.on_send: Callable[[bytes], None] = _nothing

    @classmethod
    def pair(cls, one: asyncio.AbstractEventLoop, other: asyncio.AbstractEventLoop) -> "tuple[LoopChannel, LoopChannel]":
        """Return both ends of a new pipe, the first for loop ``one``."""
        left, right = cls(one), cls(other)
        left.other, right.other = right, left
        return left, right

    def send(self, message: bytes) -> None:
        """Queue a message for the other end; do nothing once this end is closed."""
        if not self._is_closed:
            self.other._put(message)
            self.on_send(message)

    async def receive(self) -> bytes | None:
        """Return the next message; after all messages, and once either end is closed, return ``None`` at each call."""
        message = await self._messages.get()
        if message is None:
            self._messages.put_nowait(None)
        return message

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self.other._put(None)
            self._put(None)

    def _put(self, message: bytes | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._messages.put_nowait, message)
        except RuntimeError:
            pass  # that loop is closed: no reader is left there


class InProcessWorker:
    """One worker in the user's event loop. All its methods but ``dump_stacks`` run in that loop."""

    limits: tuple[str, ...] = ()

    def __init__(self, channel: LoopChannel, process: ProcessIdentity) -> None:
        self._channel, self._process = channel, process
        self.worker: Worker | None = None
        self.task: asyncio.Task[None] | None = None
        self._thread = 0
        self._is_ours = True

    @property
    def channel(self) -> LoopChannel:
        """This end of the pipe to the supervisor."""
        return self._channel

    def process(self) -> ProcessIdentity:
        return self._process

    def set_code_running(self, is_running: bool) -> None:
        """Do nothing: no guard watches, because Holdfast may not end the user's process."""

    def start(self, make: Callable[[SupervisorLink], Worker], ended: Callable[[Exit], None]) -> None:
        """Start the worker; ``ended`` is called with its exit."""
        self._thread = threading.get_ident()
        self.worker = make(self)
        self.task = asyncio.get_running_loop().create_task(self.worker.run(), name="holdfast worker")
        self.task.add_done_callback(lambda done: self._move_out(done, ended))

    def _move_out(self, done: "asyncio.Task[None]", ended: Callable[[Exit], None]) -> None:
        error = None if done.cancelled() else done.exception()
        if not self._is_ours:
            return  # the supervisor and the channel are the parent's, and an error here only means that this is a fork
        self._channel.close()
        if error is not None:
            asyncio.get_running_loop().call_exception_handler({"message": "holdfast: the worker broke", "exception": error})
        ended(Exit(0) if error is None and not done.cancelled() else Exit(1))

    def abandon(self) -> None:
        """Cancel all code that can be cancelled; a handler in a thread runs on, and every call on its job raises ``JobLost``."""
        if self.worker is not None:
            self.worker.abandon()
        if self.task is not None:
            self.task.cancel()

    def forget(self) -> None:
        """Drop the lease in a forked child: the running jobs are the parent's."""
        self._is_ours = False
        if self.worker is not None:
            self.worker.lease.lose()

    def dump_stacks(self) -> str:
        """Return the stacks of the event loop's thread and of the handlers in threads."""
        names = {each.ident: each.name for each in threading.enumerate()}
        frames = {ident: frame for ident, frame in sys._current_frames().items() if ident in names}
        ours = [i for i in frames if i == self._thread or names[i].startswith("holdfast-handler")]
        stacks = [f"Thread {names[i]}:\n{''.join(traceback.format_stack(frames[i]))}" for i in ours]
        return cut_text("\n".join(stacks), MOST_STACKS)


class InProcessChild:
    """The supervisor's view of an in-process worker, in the supervisor's event loop."""

    def __init__(self, worker: InProcessWorker, channel: LoopChannel, home: asyncio.AbstractEventLoop) -> None:
        self._worker, self._channel, self._home = worker, channel, home
        self._loop = asyncio.get_running_loop()
        self._exit: asyncio.Future[Exit] = self._loop.create_future()

    @property
    def process(self) -> ProcessIdentity:
        """The user's process, in which the supervisor runs too."""
        return self._worker.process()

    @property
    def channel(self) -> LoopChannel:
        """The supervisor's end of the pipe."""
        return self._channel

    def set_deadline(self, guard_deadline: float) -> bool:
        """Return ``True``: there is no guard that could be gone."""
        return True

    def is_stopped(self) -> bool:
        """Return whether the user's loop is closed: the program left it without ending the worker, and nothing runs there."""
        return self._home.is_closed()

    def dump_stacks(self) -> str:
        return self._worker.dump_stacks()

    def kill(self) -> None:
        """End the worker for its supervisor at once; its event loop, which may be blocked, cancels what it can when it can."""
        self._end(Exit(signal=ABANDONED))
        try:
            self._home.call_soon_threadsafe(self._worker.abandon)
        except RuntimeError:
            pass  # that loop is closed, and nothing runs there

    async def wait(self) -> Exit:
        return await asyncio.shield(self._exit)

    def ended(self, how: Exit) -> None:
        """Pass the worker's exit on to the supervisor; called in the user's loop."""
        try:
            self._loop.call_soon_threadsafe(self._end, how)
        except RuntimeError:
            pass  # the supervisor's loop is closed, too

    def _end(self, how: Exit) -> None:
        if not self._exit.done():
            self._exit.set_result(how)


class InProcessHost:
    """This machine, with workers that run in ``home``, the user's event loop, and in the user's ``context``."""

    def __init__(
        self,
        machine: Host,
        home: asyncio.AbstractEventLoop,
        context: Context,
        make: Callable[[SupervisorLink], Worker],
        on_ready: Callable[[], None],
        on_homeless: Callable[[], None],
    ) -> None:
        self._machine, self._home, self._context = machine, home, context
        self._make, self._on_ready, self._on_homeless = make, on_ready, on_homeless
        self.inside: list[InProcessWorker] = []

    def process(self) -> ProcessIdentity:
        return self._machine.process()

    def is_running(self, process: ProcessIdentity) -> bool:
        return self._machine.is_running(process)

    def memory(self, process: ProcessIdentity) -> int | None:
        return self._machine.memory(process)

    def kill_orphans(self, process: ProcessIdentity) -> int:
        return self._machine.kill_orphans(process)

    async def spawn(self, arguments: Sequence[str]) -> InProcessChild:
        """Start another worker in the user's loop."""
        ours, theirs = LoopChannel.pair(asyncio.get_running_loop(), self._home)
        theirs.on_send = lambda message: self._on_ready() if message == READY else None
        worker = InProcessWorker(theirs, self.process())
        child = InProcessChild(worker, ours, self._home)
        self.inside = [each for each in self.inside if each.task is None or not each.task.done()]
        self.inside.append(worker)
        try:
            self._home.call_soon_threadsafe(worker.start, self._make, child.ended, context=self._context)
        except RuntimeError:
            self._on_homeless()
            raise
        return child

    def close(self) -> None:
        """Close the pipes because the supervisor has ended: workers that still run then end by themselves."""
        for worker in self.inside:
            worker.channel.close()


def _nothing(message: bytes) -> None:
    """Ignore the message: the default of ``LoopChannel.on_send``."""
