"""The calls for many jobs: an action on all that a selector chooses, and the operations that work off large ones."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from holdfast._core.requests import Steer
from holdfast.http.changes import Change, Reason
from holdfast.http.job_resources import READING
from holdfast.http.job_verbs import VERBS, reschedule
from holdfast.http.managed import Managed
from holdfast.http.openapi import PREFIX
from holdfast.http.operation import Call, Operation, Reply
from holdfast.http.operations import MOST_AT_ONCE, Bulk, OperationProgress, Operations, Tally, count
from holdfast.http.permissions import ROLES, Action
from holdfast.http.problems import ApiError
from holdfast.http.selectors import Selector, query_of, require_readable, where_of

_OPTIONS: Final = ("delay", "run_at", "fresh")


class BulkAction(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An action on all jobs that the selector chooses. ``up_to``: when the sender looked, or else now; jobs that were enqueued or that
    ended later are left out. ``dry_run``: only count. ``delay`` or ``run_at`` are for a reschedule, ``fresh`` is for a retry."""

    action: Literal["cancel", "retry", "reschedule", "delete"]
    selector: Selector
    up_to: datetime | None = None
    reason: Reason = ""
    dry_run: bool = False
    delay: float | str | None = None
    run_at: datetime | None = None
    fresh: bool = False


class Acted(Struct, frozen=True, kw_only=True):
    """What an action did, or with ``dry_run`` how many jobs it would change; ``complete=False``: there are more.

    ``selector`` and ``up_to``: what it was for, so that it can be sent again.
    """

    action: Action
    dry_run: bool
    selector: dict[str, str]
    up_to: datetime
    jobs: int
    complete: bool = True
    changed: int = 0
    refused: int = 0
    states: dict[str, int] = {}


class OperationList(Struct, frozen=True):
    """The operations of this process, newest first."""

    items: list[OperationProgress]


class StopQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why an operation is stopped."""

    reason: Annotated[str, Meta(max_length=500)] | UnsetType = UNSET


class BulkActions:
    """Actions on many jobs."""

    def __init__(self, managed: Managed, operations: Operations) -> None:
        self._managed, self._operations = managed, operations

    def operations(self) -> list[Operation]:
        """Describe the calls for many jobs."""
        one, roles = "/operations/{id}", ROLES[Action.STOP]
        return [
            Operation(
                method="POST",
                path="/jobs/actions",
                summary=f"Act on all jobs that a selector chooses; more than {MOST_AT_ONCE:,} become an operation.",
                roles=roles,
                body=BulkAction,
                answers={200: Acted, 202: OperationProgress},
                refusals=(429,),
                run=self._act,
            ),
            _read("/operations", "List operations.", OperationList, self._list),
            _read(one, "Read how far an operation is.", OperationProgress, self._get, refusals=(404,)),
            Operation(
                method="DELETE",
                path=one,
                summary="Stop an operation; what it has done stays done.",
                roles=roles,
                action=Action.STOP,
                query=StopQuery,
                answers={200: OperationProgress},
                refusals=(404,),
                run=self._stop,
            ),
        ]

    async def _act(self, call: Call) -> Reply:
        body = call.body
        action = Action(body.action)
        if action not in call.may:
            raise ApiError(403, "forbidden", f"{call.identity.name} may not {action} jobs", "use a token of the role admin")
        up_to = body.up_to or self._managed.now()
        where = where_of(body.selector, up_to, must_choose=True)
        require_readable(where, call.may)
        bulk = bulk_of(action, where, body.delay, body.run_at, is_fresh=body.fresh)
        answer = Acted(action=action, dry_run=body.dry_run, selector=query_of(where_of(body.selector)), up_to=up_to, jobs=0)
        if body.dry_run:
            found = await count(self._managed.client, bulk)
            return Reply(structs.replace(answer, jobs=found.jobs, complete=found.is_all))
        done = await act(self._managed, self._operations, Change.of(call, action, "/jobs"), bulk)
        if isinstance(done, Tally):
            return Reply(structs.replace(answer, **structs.asdict(done)))
        return Reply(done, 202, {"Location": f"{PREFIX}/operations/{done.id}"})

    async def _list(self, _: Call) -> Reply:
        return Reply(OperationList(self._operations.list()))

    async def _get(self, call: Call) -> Reply:
        return Reply(self._operations.get(call.path["id"]))

    async def _stop(self, call: Call) -> Reply:
        operation = call.path["id"]
        return Reply(await self._operations.stop(Change.of(call, Action.STOP, f"/operations/{operation}"), operation))


def bulk_of(action: Action, where: Any, delay: float | str | None, run_at: datetime | None, *, is_fresh: bool = False) -> Bulk:
    """Return an action on many jobs. Raises ``ConfigurationError`` for options that do not fit it."""
    return Bulk.of(action, steer_of(action, delay, run_at, is_fresh=is_fresh), where)


def steer_of(
    action: Action, delay: float | str | None = None, run_at: datetime | None = None, *, is_fresh: bool = False
) -> Steer:
    """Return the verb of an action on many jobs. Raises ``ConfigurationError`` for options that do not fit it."""
    if action is Action.RESCHEDULE:
        return reschedule(delay, run_at)
    return Steer(VERBS[action], is_fresh=is_fresh)


async def act(managed: Managed, operations: Operations, change: Change, bulk: Bulk) -> Tally | OperationProgress:
    """Make a change now if the jobs are few, or begin an operation."""
    if (await count(managed.client, bulk, MOST_AT_ONCE)).is_all:
        return await operations.at_once(change, bulk)
    return operations.start(change, bulk, await count(managed.client, bulk))


def _read(path: str, summary: str, answer: Any, run: Any, **more: Any) -> Operation:
    return Operation(method="GET", path=path, summary=summary, roles=READING, answers={200: answer}, run=run, **more)
