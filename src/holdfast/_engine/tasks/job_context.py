"""What both kinds of jobs share that handlers receive, and what they need of the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from msgspec import structs

from holdfast._core.durations import Duration, seconds
from holdfast._core.headers import inherited
from holdfast._core.payload import MESSAGE_LIMIT, cut_text, decode_json, encode_checkpoint, encode_step
from holdfast._core.steps import usable
from holdfast._engine.tasks.child_spec import ChildSpec, require_member
from holdfast._engine.tasks.steps import Step, StepLog, StepWriter, Suspension, current_key
from holdfast.errors import JobLost

if TYPE_CHECKING:
    from holdfast._core.answers import EnqueueAnswer
    from holdfast._core.job import ActiveJob, Claim, Failed, Json, NewJob, RescueReason, Token
    from holdfast._engine.client.handle import Handle


class ChildWriter(Protocol):
    """Writes the jobs that a handler enqueues."""

    async def enqueue(self, job: ActiveJob, child: NewJob, *, joins: bool) -> EnqueueAnswer:
        """Return once the child is durable. ``JobLost`` if the job belongs to another attempt: then there is no child.

        ``joins``: it becomes a member of the workflow of the job.
        """
        ...

    async def outcomes(self, job: ActiveJob, children: Sequence[UUID]) -> Mapping[UUID, bytes | Failed]:
        """Return the outcomes of those of these children that have ended."""
        ...

    async def parents(self, job: ActiveJob) -> Mapping[str, Sequence[UUID]]:
        """Return, by the name of each node that the job depends on, the jobs whose outcomes are those of the node."""
        ...


class ProgressSink(Protocol):
    """Takes a handler's reports: the worker's progress writer or, in a runner process, the pipe to the worker."""

    @property
    def children(self) -> ChildWriter:
        """The writer of the child jobs that a handler enqueues with ``job.enqueue``."""
        ...

    @property
    def steps(self) -> StepWriter:
        """The reader and writer of the steps that a handler takes with ``job.step``."""
        ...

    def progress(self, job: ActiveJob, *, stage: str | None, fraction: float | None, message: str | None) -> None:
        """Keep the latest progress until the next write."""
        ...

    async def checkpoint(self, job: ActiveJob, data: bytes) -> None:
        """Return once the checkpoint is durable; ``JobLost`` if the job belongs to another attempt."""
        ...

    def transaction(self, job: ActiveJob, within: Any) -> AbstractAsyncContextManager[Any]:
        """Open a transaction that commits the user's rows only if the job's token is still valid. ``within``: on this connection."""
        ...

    def blocking_transaction(self, job: ActiveJob, within: Any) -> AbstractContextManager[Any]:
        """Open the same transaction for code outside of an event loop."""
        ...


class JobContext:
    """What both kinds of handler see of their job; the engine marks it when the job is lost or to be cancelled."""

    state: Any = None
    """What ``App(lifespan=…)`` yielded in this worker: connections and the like, which its handlers share."""
    on_begun: Callable[[], None] | None = None
    """For the engine: called when code that runs in another process starts there."""
    uses_steps = False
    """For the engine: whether this attempt has asked for the job's steps."""
    _is_lost = _is_draining = False
    _steps: StepLog | None = None

    def __init__(self, claim: Claim, reporter: ProgressSink) -> None:
        self._claim = claim
        self._reporter = reporter
        self._checkpoint = claim.checkpoint
        self._is_cancelled = claim.job.cancel_requested
        self.saw_cancellation = False
        self.waited = claim.waited
        """For the engine: for how long the job was due when its code began; in a runner, when it was claimed."""

    @property
    def id(self) -> UUID:
        """The job's id: the same in every attempt, so an idempotency key."""
        return self._claim.job.id

    @property
    def task(self) -> str:
        """The name of the job's task."""
        return self._claim.job.task

    @property
    def key(self) -> str:
        """The job's key, usually the tenant; empty if it has none."""
        return self._claim.key

    @property
    def headers(self) -> dict[str, str]:
        """The headers the job was enqueued with; a copy. Jobs that this one enqueues inherit them."""
        return dict(self._claim.headers)

    @property
    def attempt(self) -> int:
        """Which start of the handler this is, from 1."""
        return self._claim.job.attempt

    @property
    def crashes(self) -> int:
        """How many workers have died while they ran this job."""
        return self._claim.job.crashes

    @property
    def rescued(self) -> RescueReason | None:
        """Why this job was last taken from a worker while its code ran; ``None``: it never was."""
        return None if self._claim.rescue is None else self._claim.rescue.reason

    @property
    def token(self) -> Token:
        """The fencing token of this attempt; give its number to outside systems that can compare."""
        return self._claim.job.token

    @property
    def checkpoint_value(self) -> Json:
        """What the last checkpoint of any attempt saved, or ``None``."""
        return None if self._checkpoint is None else decode_json(self._checkpoint)

    @property
    def is_cancelled(self) -> bool:
        """Whether the handler should end soon. A handler that saw it and returned nothing has not completed its job."""
        self.saw_cancellation = self._is_cancelled
        return self.saw_cancellation

    @property
    def step_key(self) -> str:
        """The idempotency key of the step whose function runs: the same in every attempt, ``job id:name:nth``.

        A step whose process dies before its result is recorded runs again. An outside system that knows the key does its work once.
        """
        return current_key()

    @property
    def suspension(self) -> Suspension | None:
        """Why the handler must end, although its job has not; for the engine."""
        return None if self._steps is None else self._steps.suspension

    @property
    def unused_steps(self) -> tuple[str, ...]:
        """The recorded steps that this attempt has not asked for; for the engine."""
        return () if self._steps is None else self._steps.unused

    def mark_lost(self) -> None:
        """Make every later call raise ``JobLost``; for the engine."""
        self._is_lost = True

    def mark_cancelled(self) -> None:
        """Set ``is_cancelled`` for a handler that reads it; for the engine."""
        self._is_cancelled = True

    def mark_draining(self) -> None:
        """Ask a run that could go on for long to end at its next good moment; for the engine."""
        self._is_draining = True

    def _require_owned(self) -> None:
        if self._is_lost:
            raise JobLost(f"job {self.id} was taken from this attempt ({self.attempt}); its handler must end")
        if self._steps is not None:
            self._steps.require_awake()

    def _step_log(self) -> StepLog:
        self._require_owned()
        if self._steps is None:
            self._steps, self.uses_steps = StepLog(self._claim.job, self._reporter.steps), True
        return self._steps

    async def _begin_step(self, name: str, *, is_unordered: bool) -> Step:
        return await self._step_log().begin(usable("step", name), is_unordered=is_unordered)

    async def _end_step(self, step: Step, value: Json) -> Json:
        assert self._steps is not None
        try:
            result = encode_step(step.name, value)
        except BaseException:
            self._steps.drop(step)
            raise
        await self._steps.end(step, result)
        if self._claim.job.policy.progress_within is not None:
            self._reporter.progress(self._claim.job, stage=None, fraction=None, message=None)
        return decode_json(result)

    async def _sleep(self, for_: Duration) -> None:
        await self._step_log().sleep(seconds(for_))

    async def _wait_for(self, name: str, timeout: Duration | None) -> Json:
        log = self._step_log()
        value = await log.wait_for(usable("signal", name), None if timeout is None else seconds(timeout))
        return decode_json(value, f"signal {name!r}: its value")

    async def _progress(self, stage: str | None, fraction: float | None, message: str | None) -> None:
        self._require_owned()
        # Checked here, where the mistake is made: many jobs share the write, and one bad value would fail it for all.
        self._reporter.progress(
            self._claim.job,
            stage=None if stage is None else cut_text(stage, MESSAGE_LIMIT),
            fraction=None if fraction is None else float(fraction),
            message=None if message is None else cut_text(message, MESSAGE_LIMIT),
        )

    async def _save(self, value: Json) -> None:
        self._require_owned()
        data = encode_checkpoint(value)
        await self._reporter.checkpoint(self._claim.job, data)
        self._checkpoint = data

    def _new_child(self, child: ChildSpec) -> NewJob:
        self._require_owned()
        job = child.new_child()
        return structs.replace(job, headers=inherited(self._claim.headers, job.headers))

    async def _enqueue(self, child: ChildSpec, job: NewJob) -> Handle:
        active = self._claim.job
        joins = active.flow not in (None, active.id) and not child.is_detached
        if joins:
            require_member(child, job)
        try:
            answer = await self._reporter.children.enqueue(active, job, joins=joins)
        except asyncio.CancelledError:
            self._require_owned()
            raise
        return child.handle(job, answer)
