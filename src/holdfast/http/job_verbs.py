"""What operators do to one job: cancel it, run it again, move its time, delete it."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType

from holdfast._core.job import State
from holdfast._core.requests import MEANT, JobFilter, Steer, SteerVerb
from holdfast._engine.client.acting import named
from holdfast._engine.client.client import ACTIONS
from holdfast._engine.tasks.options import due
from holdfast.errors import ConfigurationError
from holdfast.http.changes import Change, Reason, make
from holdfast.http.job_items import tag_of
from holdfast.http.managed import Managed
from holdfast.http.operation import Call, Operation, Reply
from holdfast.http.permissions import ROLES, Action
from holdfast.http.problems import ApiError
from holdfast.http.submitting import id_of_path, not_found

VERBS: Final[Mapping[Action, SteerVerb]] = {
    Action.CANCEL: SteerVerb.CANCEL,
    Action.RETRY: SteerVerb.REOPEN,
    Action.RESCHEDULE: SteerVerb.RESCHEDULE,
    Action.DELETE: SteerVerb.DELETE,
}


class Cancel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to cancel a job."""

    reason: Reason = ""


class Retry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to run a job again. ``fresh``: without its checkpoint and its steps."""

    fresh: bool = False
    reason: Reason = ""


class Reschedule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The time at which a waiting job is due: ``delay`` from now in seconds or as ``"10m"``, or ``run_at``."""

    delay: float | str | None = None
    run_at: datetime | None = None
    reason: Reason = ""


class DeleteQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a job is deleted."""

    reason: Reason | UnsetType = UNSET


class JobState(Struct, frozen=True):
    """The state of a job after the call; a running one that is cancelled is asked to end."""

    state: State


class JobVerbs:
    """The changes to one job."""

    def __init__(self, managed: Managed) -> None:
        self._managed = managed

    def operations(self) -> list[Operation]:
        """Describe the changes to one job."""
        return [
            _verb(
                Action.CANCEL, "Cancel a job that waits, and ask one that runs to end.", Cancel, self._cancel, is_optional=True
            ),
            _verb(Action.RETRY, "Run a finished, held or scheduled job now.", Retry, self._retry, is_optional=True),
            _verb(Action.RESCHEDULE, "Set when a waiting job is due.", Reschedule, self._reschedule),
            Operation(
                method="DELETE",
                path="/jobs/{id}",
                summary="Remove every trace of a job that no worker runs.",
                roles=ROLES[Action.DELETE],
                action=Action.DELETE,
                query=DeleteQuery,
                answers={204: None},
                has_match=True,
                refusals=(404, 409, 412),
                run=self._delete,
            ),
        ]

    async def _cancel(self, call: Call) -> Reply:
        return Reply(JobState(await self.steer(call, Action.CANCEL, Steer(SteerVerb.CANCEL))))

    async def _retry(self, call: Call) -> Reply:
        return Reply(JobState(await self.steer(call, Action.RETRY, Steer(SteerVerb.REOPEN, is_fresh=call.body.fresh))))

    async def _reschedule(self, call: Call) -> Reply:
        how = reschedule(call.body.delay, call.body.run_at)
        return Reply(JobState(await self.steer(call, Action.RESCHEDULE, how)))

    async def _delete(self, call: Call) -> Reply:
        await self.steer(call, Action.DELETE, Steer(SteerVerb.DELETE))
        return Reply(None, 204)

    async def steer(self, call: Call, action: Action, how: Steer) -> State:
        """Apply the verb to the job that a call names; return its state, which is the old one of a deleted job."""
        job = id_of_path(call)
        change = Change.of(call, action, f"/jobs/{job}")
        return await make(change, lambda: steered(self._managed, job, how, call.match))


def reschedule(delay: float | str | None, run_at: datetime | None) -> Steer:
    """Return the verb that sets when jobs are due. Raises ``ConfigurationError`` for a time that is none."""
    problems: list[str] = []
    wait, when = due("delay", delay, run_at, problems)
    if delay is None and run_at is None:
        problems.append("delay: pass it or run_at")
    if problems:
        raise ConfigurationError(problems)
    return Steer(SteerVerb.RESCHEDULE, wait, when)


async def steered(managed: Managed, job: UUID, how: Steer, match: str | None = None) -> State:
    """Apply the verb to one job; return its state. ``match``: only if this is the tag of its state.

    Raises ``ApiError`` if it has another one, or if the verb does not fit its state. The write judges the state again.
    """
    record = await managed.record(job)
    if match not in (None, "*", tag_of(record)):
        raise _moved(job, record.state)
    which = JobFilter(state=None if match is None else record.state)
    by = managed.client.note(ACTIONS[how.verb], named([job]))
    answer = await managed.client.steer(how, [job], which, by=by)
    now = answer.states.get(job)
    if job in answer.left and match is not None and now is not None:
        raise _moved(job, now)
    if how.verb is SteerVerb.DELETE and now is None:
        return record.state
    if now is None:
        raise not_found(job)
    if how.verb is not SteerVerb.CANCEL and now not in MEANT[how.verb]:
        raise ApiError(409, "wrong_state", f"job {job} is {now}, which {_NAMES[how.verb]} does not change", "read the job again")
    return now


_NAMES: Final = {verb: action.value for action, verb in VERBS.items()}


def _moved(job: UUID, now: State) -> ApiError:
    return ApiError(412, "moved", f"job {job} is {now}, and not as If-Match says", "read the job again")


def _verb(
    action: Action, summary: str, body: Any, run: Callable[[Call], Awaitable[Reply]], *, is_optional: bool = False
) -> Operation:
    return Operation(
        method="POST",
        path=f"/jobs/{{id}}/{action}",
        summary=summary,
        roles=ROLES[action],
        action=action,
        body=body,
        is_body_optional=is_optional,
        answers={200: JobState},
        has_match=True,
        refusals=(404, 409, 412),
        run=run,
    )
