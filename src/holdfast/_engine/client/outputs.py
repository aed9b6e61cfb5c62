"""Reading the outcomes of jobs, with those of the items that some of them name."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from uuid import UUID

from holdfast._core.inputs import is_too_large
from holdfast._core.workflow import Items, Output

Read = Callable[[Sequence[UUID]], Awaitable[Mapping[UUID, Output]]]

PAGE = 500
"""The outcomes that are read at once."""


async def read_outputs(read: Read, ids: Sequence[UUID]) -> dict[UUID, Output]:
    """Return the outcomes of jobs and of all their items, page by page; it stops once they are more than a job may get."""
    return await with_rest(read, {}, list(dict.fromkeys(ids)))


async def with_rest(read: Read, found: Mapping[UUID, Output], left: Sequence[UUID]) -> dict[UUID, Output]:
    """Return the outcomes that were found, with those of the jobs that are left and of the items of all, as ``read_outputs`` does."""
    outcomes, unread = dict(found), [*left, *_items_of(found)]
    while unread and not is_too_large(outcomes):
        page, unread = unread[:PAGE], unread[PAGE:]
        news = await read(page)
        outcomes |= news
        unread += [item for item in _items_of(news) if item not in outcomes]
    return outcomes


def _items_of(outcomes: Mapping[UUID, Output]) -> list[UUID]:
    return [item for each in outcomes.values() if isinstance(each, Items) for item in each.jobs]
