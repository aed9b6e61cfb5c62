"""The stores of a bucket as simulated processes have them: the real ones, with their threads on the loop of the world."""

import asyncio
from _thread import RLock
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from functools import partial
from importlib.metadata import version
from typing import Any, TypeVar
from uuid import UUID

from holdfast._core.flow_changes import FlowChange
from holdfast.stores.objects.committer import Outcome, Request, _is_soft
from holdfast.stores.objects.head import Leader
from holdfast.stores.objects.routed_store import RoutedStore
from holdfast.stores.objects.store import ObjectStore
from proof.checker.history import IN_MEMORY, By, Event, Phase
from proof.simulator.loop import Process, VirtualLoop
from proof.stores.recording_commits import CommittedBook, Uncommitted

CALLER: ContextVar[str] = ContextVar("caller", default="")
"""The process whose call a broker answers; empty where a process calls its own store."""
Result = TypeVar("Result")
Noted = Callable[[Sequence[Event]], None]
"""Takes the beats that a leader keeps in memory, once they are answered. The time of each is that at which the leader noted it."""


class VirtualThread:
    """The thread of a process in which its store works, on the loop of the world."""

    def __init__(self, loop: VirtualLoop, process: Process) -> None:
        self._loop, self.process = loop, process

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function there, later. The answer to a request knows who calls."""
        for each in arguments:
            if isinstance(each, Request):
                each.answer = CalledAnswer(CALLER.get() or self.process.name)
        self._loop.call_soon(function, *arguments, context=self._loop.context_of(self.process.thread))

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine there, and return its result. A caller that is cancelled cancels it."""
        task: asyncio.Task[Result] = self._loop.create_task(work, context=self._loop.context_of(self.process.thread))
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # no caller will take it
            raise
        return task.result()

    def close(self) -> None:
        """Do nothing: the loop belongs to the world."""


class _OneLock(RLock):  # type: ignore[misc]  # final in its stub only
    """The lock of all answers: in a world there is only one thread."""

    def notify_all(self) -> None:
        """Do nothing: no other thread waits."""


_LOCK: Any = _OneLock()


class CalledAnswer(Future[Any]):
    """The answer to a call of the process ``caller``. ``leave`` is called as soon as it is given."""

    def __init__(self, caller: str) -> None:
        # That of the class makes a lock for each answer, and takes it a dozen times.
        self._condition, self._state = _LOCK, "PENDING"
        self._result = self._exception = None
        self._waiters, self._done_callbacks = list[Any](), list[Any]()
        self.caller = caller
        self.leave: Callable[[], None] = lambda: None

    def set_result(self, result: Any) -> None:
        self.leave()
        super().set_result(result)


class SimulatedObjects(ObjectStore):
    """The real store, with its thread on the loop of the world."""

    def place(self, thread: VirtualThread, uncommitted: Uncommitted, noted: Noted) -> None:
        """Place it in its process. ``uncommitted``: where its book records its changes."""
        self._thread, self._process = thread, thread.process  # type: ignore[assignment]
        uncommitted.wall = self._committer.now
        call: Callable[[Request, int], tuple[Outcome, bytes]] = self._committer._call
        setattr(self._committer, "_call", partial(self._record, call, uncommitted, noted))  # noqa: B010 - a method of one object
        undo = self._committer._replica.undo
        setattr(self._committer._replica, "undo", partial(self._take_back, undo, uncommitted))  # noqa: B010 - a method of one object

    async def stand(self, url: str) -> None:
        """Stand for election, without the probe of the bucket's server."""
        await self._thread.run(self._committer.stand(Leader(self._chance.uuid4(), url, version("holdfast"))))

    def _take_back(self, undo: Callable[[], tuple[FlowChange, ...]], uncommitted: Uncommitted) -> tuple[FlowChange, ...]:
        """Take back a write that has not landed, as far as is known, and the beats that were to be answered with it."""
        uncommitted.beats.clear()
        return undo()

    def _record(
        self,
        call: Callable[[Request, int], tuple[Outcome, bytes]],
        uncommitted: Uncommitted,
        noted: Noted,
        request: Request,
        number: int,
    ) -> tuple[Outcome, bytes]:
        """Call a verb in the name of its caller. What changes nothing leaves no events for a later write."""
        if not isinstance(request.answer, CalledAnswer):  # a request of the store itself
            request.answer = CalledAnswer(self._process.name)
        answer, book = request.answer, self._committer._replica.book
        assert isinstance(book, CommittedBook)
        uncommitted.caller = answer.caller
        if not number:
            uncommitted.beats.clear()
        outcome, changes = call(request, number)
        if not book.is_changed:
            uncommitted.events.clear()
        is_soft = self._committer._election.leads and _is_soft(request) and outcome.error is None
        note = f"{IN_MEMORY}{self._committer._replica.head.epoch}"
        beats = _beats(book, outcome.value.alive, answer.caller, note, uncommitted.now()) if is_soft else []
        uncommitted.beats += beats
        answer.leave = partial(noted, beats)
        return outcome, changes


class SimulatedRoutes(RoutedStore, SimulatedObjects):
    """The same for a process that calls the broker which leads."""


def _beats(book: CommittedBook, leases: Sequence[UUID], caller: str, note: str, now: float) -> list[Event]:
    rows = [(lease, book.lease_row(lease)) for lease in leases]
    beat = partial(Event, time=now, process=caller, what="lease", phase=Phase.TRUTH, by=By("beat"), note=note)
    return [beat(lease=lease, before=row, after=row) for lease, row in rows]
