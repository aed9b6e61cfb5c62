"""What operators do to queues, schedules, workflows and limits."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, cast

from msgspec import Meta, Struct

from holdfast._core.job import State
from holdfast._core.schedule import ScheduleView
from holdfast._core.workflow import Revived
from holdfast._engine.operators.limits import ScopeWord
from holdfast.errors import ConfigurationError
from holdfast.http.changes import MOST_REASON, Change, Reason, make
from holdfast.http.managed import Managed
from holdfast.http.operation import Call, Operation, Reply
from holdfast.http.permissions import ROLES, Action
from holdfast.http.resources import absent

Act = Callable[[str], Awaitable[Any]]


class Asked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why something is done."""

    reason: Reason = ""


class Pausing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a queue or a schedule is paused: an operator who finds it paused reads it."""

    reason: Annotated[str, Meta(min_length=1, max_length=MOST_REASON)]


class QueueState(Struct, frozen=True):
    """A queue, and whether it is paused."""

    queue: str
    is_paused: bool


class PurgedQueue(Struct, frozen=True):
    """How many waiting jobs were deleted."""

    queue: str
    deleted: int


class Started(Struct, frozen=True):
    """The job that was enqueued."""

    id: str


class DrainedWorker(Struct, frozen=True):
    """A worker that drains now. ``holds``: the jobs that it had when it was asked."""

    worker: str
    holds: int


class ResetRows(Struct, frozen=True):
    """How many rows were taken back."""

    rows: str
    reset: int


class WorkflowState(Struct, frozen=True):
    """The state of a workflow's own job."""

    state: State


class Verbs:
    """The changes to everything beside single jobs."""

    def __init__(self, managed: Managed) -> None:
        self._managed = managed

    def operations(self) -> list[Operation]:
        """Describe the changes beside jobs."""
        queue, schedule, workflow = "/queues/{name}", "/schedules/{name}", "/workflows/{id}"
        return [
            self._operation(queue, Action.PAUSE, "Start no more jobs of a queue.", QueueState, self.pause, Pausing),
            self._operation(queue, Action.RESUME, "Let a paused queue run again.", QueueState, self.resume),
            self._operation(queue, Action.PURGE, "Delete all waiting jobs of a queue.", PurgedQueue, self.purge),
            self._operation(
                "/workers/{name}", Action.DRAIN, "Let a worker end its jobs, take no more, and end.", DrainedWorker, self.drain
            ),
            self._operation(schedule, Action.RUN, "Enqueue the job of a schedule now.", Started, self.run),
            self._operation(schedule, Action.PAUSE, "Stop a schedule.", ScheduleView, self.pause_schedule, Pausing),
            self._operation(schedule, Action.RESUME, "Let a paused schedule go on.", ScheduleView, self.resume_schedule),
            self._operation(workflow, Action.CANCEL, "Cancel a workflow.", WorkflowState, self.cancel),
            self._operation(
                workflow, Action.PAUSE, "Start no more nodes of a workflow.", WorkflowState, self.pause_workflow, Pausing
            ),
            self._operation(workflow, Action.RESUME, "Let a paused workflow go on.", WorkflowState, self.resume_workflow),
            self._operation(workflow, Action.RETRY, "Run again what did not complete.", WorkflowState, self.retry),
            self._operation(workflow, Action.RECOVER, "Repair a workflow.", Revived, self.recover),
            self._operation("/rows/{name}", Action.RESET, "Take stuck rows of a watched table back.", ResetRows, self.reset_rows),
            self._operation("/limits/{scope}", Action.RESET, "Remove the limit of the cluster.", None, self.reset),
            self._operation(
                "/limits/{scope}/{name}", Action.RESET, "Remove a limit; one in code comes back.", None, self.reset_of
            ),
        ]

    def _operation(self, path: str, action: Action, summary: str, answer: Any, act: Act, body: Any = Asked) -> Operation:
        async def run(call: Call) -> Reply:
            name = "/".join(call.path.values())
            change = Change.of(call, action, f"{path.partition('{')[0]}{name}")
            found = await make(change, lambda: act(name))
            return Reply(None, 204) if answer is None else Reply(found)

        return Operation(
            method="POST",
            path=f"{path}/{action}",
            summary=summary,
            roles=ROLES[action] & _OPERATING,
            action=action,
            body=body,
            is_body_optional=body is Asked,
            answers={204: None} if answer is None else {200: answer},
            refusals=(404,),
            run=run,
        )

    async def pause(self, queue: str) -> QueueState:
        await self._managed.queues.apause(queue)
        return QueueState(queue, is_paused=True)

    async def resume(self, queue: str) -> QueueState:
        """Allow claims from a queue."""
        await self._managed.queues.aresume(queue)
        return QueueState(queue, is_paused=False)

    async def purge(self, queue: str) -> PurgedQueue:
        """Delete the waiting jobs of a queue."""
        return PurgedQueue(queue, await self._managed.queues.apurge(queue))

    async def drain(self, worker: str) -> DrainedWorker:
        """Let a worker take no more jobs and end; its whole name is needed."""
        if all(each.worker != worker for each in await self._managed.workers.alist()):
            raise absent("worker", worker, "/workers")
        asked = await self._managed.workers.adrain(worker)
        return DrainedWorker(worker, asked.holds)

    async def run(self, schedule: str) -> Started:
        """Enqueue the job of a schedule."""
        await self._require_schedule(schedule)
        return Started(str((await self._managed.schedules.arun_now(schedule)).id))

    async def pause_schedule(self, schedule: str) -> ScheduleView:
        await self._require_schedule(schedule)
        return await self._managed.schedules.apause(schedule)

    async def resume_schedule(self, schedule: str) -> ScheduleView:
        """Let a schedule go on."""
        await self._require_schedule(schedule)
        return await self._managed.schedules.aresume(schedule)

    async def cancel(self, workflow: str) -> WorkflowState:
        return WorkflowState(await self._managed.workflows.acancel(workflow))

    async def pause_workflow(self, workflow: str) -> WorkflowState:
        return WorkflowState(await self._managed.workflows.apause(workflow))

    async def resume_workflow(self, workflow: str) -> WorkflowState:
        """Let a workflow go on."""
        return WorkflowState(await self._managed.workflows.aresume(workflow))

    async def retry(self, workflow: str) -> WorkflowState:
        """Run again what did not complete."""
        return WorkflowState(await self._managed.workflows.aretry(workflow))

    async def recover(self, workflow: str) -> Revived:
        return await self._managed.workflows.arecover_stuck(workflow)

    async def reset_rows(self, name: str) -> ResetRows:
        """Take rows back whose owner holds them for too long."""
        watched = self._managed.watches.get(name)
        if watched is None:
            raise absent("watched table", name, "/rows")
        return ResetRows(name, len(await watched.areset()))

    async def reset(self, scope: str) -> None:
        """Remove the limit of the cluster."""
        await self._managed.limits.aclear(cast(ScopeWord, scope))

    async def reset_of(self, scope: str) -> None:
        """Remove the limit of a task or of a queue, named as ``queue/mail``."""
        word, _, name = scope.partition("/")
        if word == "cluster":
            raise ConfigurationError(["scope: the cluster has no name"])
        await self._managed.limits.aclear(cast(ScopeWord, word), name)

    async def _require_schedule(self, name: str) -> None:
        if all(each.name != name for each in await self._managed.schedules.alist()):
            raise absent("schedule", name, "/schedules")


_OPERATING: Final = ROLES[Action.RUN] | ROLES[Action.RESET]
