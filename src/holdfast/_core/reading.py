"""Reading at most so many rows of which some may be spoiled: they must not hide those behind them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

Value = TypeVar("Value")


async def first_readable(
    fetch: Callable[[int | None], Awaitable[Sequence[Any]]],
    readable: Callable[[Sequence[Any]], tuple[Value, ...]],
    limit: int | None,
) -> tuple[Value, ...]:
    """Return the first ``limit`` values that can be read. What cannot be read is asked for beyond the limit; ``None``: all."""
    most = limit
    while True:
        found = await fetch(most)
        values = readable(found)
        if limit is None or most is None or len(found) < most or len(values) >= limit:
            return values[:limit]
        most = limit + 2 * (len(found) - len(values))
