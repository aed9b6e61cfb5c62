"""Reading the outcomes of jobs, with those of the items that some of them name."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from uuid import UUID

from holdfast._core.inputs import is_too_large
from holdfast._core.workflow import Items, Output

PAGE = 500
"""The outcomes that are read at once."""


async def read_outputs(
    read: Callable[[Sequence[UUID]], Awaitable[Mapping[UUID, Output]]], ids: Sequence[UUID]
) -> dict[UUID, Output]:
    """Return the outcomes of jobs and of all their items, page by page; it stops once they are more than a job may get."""
    found, left = dict[UUID, Output](), list(dict.fromkeys(ids))
    while left and not is_too_large(found):
        page, left = left[:PAGE], left[PAGE:]
        news = await read(page)
        found |= news
        left += [item for each in news.values() if isinstance(each, Items) for item in each.jobs if item not in found]
    return found
