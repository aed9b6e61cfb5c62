"""``app.errors``: failed jobs, grouped by the cause of their failure."""

from collections.abc import Callable
from functools import partial
from typing import Final

from holdfast._core.error_groups import ErrorGroup, ErrorList
from holdfast._engine import store_defaults
from holdfast._engine.client.client import Client
from holdfast.errors import ConfigurationError, JobNotFound
from holdfast.sync import blocking

LOOK: Final = 50_000
"""The newest failed jobs that are looked at."""


class Errors:
    """``app.errors``: see why jobs fail, one line for each cause."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        self._connect = connect

    async def alist(self, *, limit: int = 100, look: int = LOOK) -> ErrorList:
        """Return the newest ``look`` failed jobs in groups of one cause, that with the newest failure first, at most ``limit`` groups.

        >>> app.errors.list(limit=5).groups[0].count  # doctest: +SKIP
        412
        """
        named = (("limit", limit), ("look", look))
        problems = [
            f"{name}={number!r}: use an integer from 1" for name, number in named if type(number) is not int or number < 1
        ]
        if problems:
            raise ConfigurationError(problems)
        return await self._connect().ask("errors", partial(store_defaults.errors, look=look, limit=limit))

    async def aget(self, key: str) -> ErrorGroup:
        """Return the group of this key, or of the one key that begins so; ``JobNotFound`` if none of the newest failed jobs has it."""
        groups = (await self.alist(limit=LOOK)).groups
        found = [group for group in groups if key and group.key.startswith(key)]
        if not found:
            raise JobNotFound(f"none of the newest {LOOK:,} failed jobs has the error {key!r}: see `holdfast errors list`")
        if len(found) > 1:
            raise ConfigurationError(
                [f"error {key!r}: {len(found)} errors begin so, name more of {found[0].key} or {found[1].key}"]
            )
        return found[0]

    list = blocking(alist)
    get = blocking(aget)
