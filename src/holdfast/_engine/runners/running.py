"""One handler at work, and why the engine stops it."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from enum import StrEnum
from typing import Any
from uuid import UUID

from msgspec import Struct

from holdfast._core.job import Claim, Token
from holdfast._core.workflow import Output
from holdfast._engine.runners.threads import Work
from holdfast._engine.tasks.job_context import JobContext
from holdfast._engine.tasks.registry import RunnerKind, TaskDefinition


class Stop(StrEnum):
    """Why the engine stops a handler's code."""

    LOST = "lost"
    CANCELLED = "cancelled"
    LATE = "late"
    DRAINED = "drained"
    STALLED = "stalled"
    TIMED_OUT = "timed_out"


class Running(Struct, eq=False):
    """A handler at work in this process, or in a runner of it. ``crash``: how a runner ended that this worker had not killed.
    ``is_announced``: the start of its code, at ``begun_at``, has listeners. ``waited``: for how long the job was due by then.
    ``timer``: set to its ``timeout`` while it is in a runner.
    ``pause``: seconds to wait before a job that has not begun is tried again. ``asked``: the read of the results that it takes;
    ``is_launched``: it no longer waits for them. ``task``: to be cancelled; ``work``: what it awaits. ``in_thread``: its call.
    ``unavailable``: why no runner could be started for it.
    ``was_killed``: its runner was, because it did not stop. ``is_running_hook``: its rescue hook is at work in this process, for
    handlers of any kind."""

    claim: Claim
    definition: TaskDefinition
    context: JobContext
    kind: RunnerKind
    may_start: Callable[[], bool]
    is_announced: bool
    claimed_at: float
    asked: asyncio.Task[Mapping[UUID, Output]] | None = None
    is_launched: bool = False
    task: asyncio.Task[Any] | None = None
    work: Coroutine[Any, Any, None] | None = None
    in_thread: Work | None = None
    has_begun: bool = False
    begun_at: float | None = None
    waited: float | None = None
    stop: Stop | None = None
    stops_requested: frozenset[Stop] = frozenset()
    stopped_at: float | None = None
    stacks: str | None = None
    crash: str | None = None
    unavailable: str | None = None
    timer: asyncio.TimerHandle | None = None
    pause: float = 0.0
    was_killed: bool = False
    is_running_hook: bool = False

    def begin(self, at: float) -> None:
        """Note that the code begins now, which may be in a thread."""
        self.has_begun, self.begun_at = True, at
        self.waited = self.context.waited = self.claim.waited + at - self.claimed_at

    def take_asked(self) -> asyncio.Task[Mapping[UUID, Output]] | None:
        """Return the read of the results, if there is one, and forget it: it holds those of other jobs as well."""
        asked, self.asked = self.asked, None
        return asked

    @property
    def waits_for_thread(self) -> bool:
        """Whether no thread has begun its call yet."""
        return self.in_thread is not None and not self.has_begun

    @property
    def key(self) -> tuple[UUID, Token]:
        """The job's id and the attempt's token."""
        return self.claim.job.id, self.claim.job.token
