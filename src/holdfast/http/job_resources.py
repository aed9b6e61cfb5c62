"""Reads of jobs: the list, one job, its story, why it waits, counts, and the causes of failures."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, defstruct, structs

from holdfast._core.error_groups import ErrorGroup, ErrorList
from holdfast._core.explanation import Explanation
from holdfast._core.story import Story, story_of
from holdfast._core.view import JobView
from holdfast._engine.operators.errors import LOOK
from holdfast._engine.operators.looking import MOST_LOOKED, alook
from holdfast._engine.operators.story import story_facts
from holdfast.http.identity import Role
from holdfast.http.job_items import JobItem, explained, included, item_of, mask_for, masked, may_read, tag_of, without_messages
from holdfast.http.managed import Managed
from holdfast.http.operation import Call, Operation, Reply
from holdfast.http.redact import mask_of
from holdfast.http.selectors import Selector, query_of, require_readable, where_of
from holdfast.http.submitting import id_of_path

MOST_ITEMS: Final = 500
READING: Final = frozenset((Role.VIEWER, Role.OPERATOR))
READING_ONE: Final = READING | {Role.PRODUCER, Role.WORKER}

JobQuery: Final[Any] = defstruct(
    "JobQuery",
    [
        ("limit", Annotated[int, Meta(ge=1, le=MOST_ITEMS)], 100),
        ("cursor", str | UnsetType, UNSET),
        ("include", str | UnsetType, UNSET),
    ],
    bases=(Selector,),
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    module=__name__,
)
JobPage: Final[Any] = defstruct(
    "JobPage",
    [
        ("items", list[JobItem]),
        ("next", str | None),
        ("complete", bool),
        ("looked_back_to", datetime | None),
    ],
    frozen=True,
    module=__name__,
    namespace={
        "__doc__": "A page of a list, newest first. ``next``: the cursor of the page after it. ``complete``: nothing that matches is left. "
        "``looked_back_to``: when the oldest job was enqueued that was looked at."
    },
)


class ItemQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to include of a job: payload, result and checkpoint, with commas between them."""

    include: str | UnsetType = UNSET


class CountQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to group counts."""

    by: Literal["queue", "task"] | UnsetType = UNSET


class ErrorQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many causes of failures to list."""

    limit: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 100


class JobResources:
    """What the API reads of jobs."""

    def __init__(self, managed: Managed) -> None:
        self._managed = managed

    def operations(self) -> list[Operation]:
        """Describe the reads of jobs."""
        counts = dict[str, int | dict[str, int]]
        return [
            _read("/jobs", "List jobs, newest first.", JobPage, self._list, JobQuery),
            _read(
                "/jobs/{id}",
                "Read a job with its attempts. ETag: its state and claim, for If-Match.",
                JobItem,
                self._item,
                ItemQuery,
                roles=READING_ONE,
                refusals=(404,),
            ),
            _read("/jobs/{id}/story", "Read what happened to a job.", Story, self._story, refusals=(404,)),
            _read("/jobs/{id}/explanation", "Read why a job is in its state.", Explanation, self._explain, refusals=(404,)),
            _read("/counts", "Count jobs by state, of all or of each queue or task.", counts, self._counts, CountQuery),
            _read("/errors", "List why jobs failed.", ErrorList, self._errors, ErrorQuery),
            _read("/errors/{key}", "Read one cause of failures.", ErrorGroup, self._error, refusals=(404,)),
        ]

    async def _list(self, call: Call) -> Reply:
        query, managed = call.asked, self._managed
        include, where = included(call, query.include), where_of(query)
        require_readable(where, call.may)
        which = repr(sorted(query_of(where).items()))
        before = managed.cursors.read(query.cursor, which) if query.cursor else None
        look = await alook(managed.jobs, where, query.limit, before, most=MOST_LOOKED)
        is_readable = may_read(call)
        items = [item_of(each, managed, include, is_readable=is_readable) for each in look.jobs]
        last = look.back_to or (look.jobs[-1] if look.jobs else None)
        is_complete = look.back_to is None and len(look.jobs) < query.limit
        following = None if is_complete or last is None else managed.cursors.make(last.id, which)
        return Reply(JobPage(items, following, is_complete, None if last is None else last.created_at))

    async def _item(self, call: Call) -> Reply:
        include = included(call, call.asked.include)
        record = await self._managed.record(id_of_path(call))
        item = item_of(JobView.of(record), self._managed, include, is_readable=may_read(call), is_whole=True)
        return Reply(item, headers={"ETag": tag_of(record)})

    async def _story(self, call: Call) -> Reply:
        job = await self._managed.jobs.aget(id_of_path(call))
        names, redact = self._managed.sensitive(job.task), self._managed.redact
        visible = masked(job, names, redact) if may_read(call) else without_messages(job)
        now = self._managed.now()
        return Reply(story_of(visible, visible.attempts, now, await story_facts(self._managed.workers, job, now)))

    async def _explain(self, call: Call) -> Reply:
        job = await self._managed.jobs.aget(id_of_path(call))
        mask = mask_of((job.payload, job.checkpoint), self._managed.sensitive(job.task))
        return Reply(explained(await self._managed.jobs.aexplain(job.id), job, mask, is_readable=may_read(call)))

    async def _counts(self, call: Call) -> Reply:
        return Reply(await self._managed.jobs.acounts(call.asked.by or None))

    async def _errors(self, call: Call) -> Reply:
        found = await self._managed.errors.alist(limit=call.asked.limit, look=LOOK)
        return Reply(structs.replace(found, groups=await self._visible(call, found.groups)))

    async def _error(self, call: Call) -> Reply:
        (found,) = await self._visible(call, [await self._managed.errors.aget(call.path["key"])])
        return Reply(found)

    async def _visible(self, call: Call, groups: Sequence[ErrorGroup]) -> tuple[ErrorGroup, ...]:
        """Return the groups with their messages, if the sender may read these, without the sensitive values of the jobs they are from."""
        if not may_read(call):
            return tuple(structs.replace(each, message="") for each in groups)
        store = self._managed.environment().store
        records = await asyncio.gather(*(store.get(each.job) for each in groups))
        masks = [mask_for(each, self._managed) for each in records]
        return tuple(structs.replace(each, message=mask(each.message)) for each, mask in zip(groups, masks, strict=True))


def _read(
    path: str,
    summary: str,
    answer: Any,
    run: Any,
    query: Any = None,
    *,
    roles: frozenset[Role] = READING,
    refusals: tuple[int, ...] = (),
) -> Operation:
    return Operation(
        method="GET", path=path, summary=summary, roles=roles, answers={200: answer}, query=query, refusals=refusals, run=run
    )
