"""Reading a limited number of rows of which some may be damaged: these must not hide the rows after them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

Value = TypeVar("Value")


async def first_readable(
    fetch: Callable[[int | None], Awaitable[Sequence[Any]]],
    readable: Callable[[Sequence[Any]], tuple[Value, ...]],
    limit: int | None,
) -> tuple[Value, ...]:
    """Return the first ``limit`` readable values, or all with ``None``. If rows are unreadable, fetch again, beyond the limit."""
    most = limit
    while True:
        found = await fetch(most)
        values = readable(found)
        if limit is None or most is None or len(found) < most or len(values) >= limit:
            return values[:limit]
        most = limit + 2 * (len(found) - len(values))
