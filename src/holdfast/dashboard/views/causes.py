"""Why jobs fail, as the page of all errors has it: grouped again only once another job has failed, because that reads many rows."""

from datetime import datetime, timedelta
from typing import Final
from weakref import WeakKeyDictionary

from msgspec import Struct

from holdfast._core.error_groups import ErrorList
from holdfast._core.job import State
from holdfast.app import App
from holdfast.dashboard.views.page import Asked

LOOK: Final = 10_000
"""The newest failed jobs that the page groups."""
KEPT: Final = timedelta(seconds=30)
"""How long groups are shown again while no other job fails: a retry or a deletion of older ones shows up later."""


class _Known(Struct, frozen=True):
    at: datetime
    newest: ErrorList
    failed: int
    found: ErrorList


_read: "WeakKeyDictionary[App, _Known]" = WeakKeyDictionary()


async def causes(asked: Asked) -> ErrorList:
    """Return the groups of the newest failed jobs; a page that renews itself gets those it had, if no other job has failed."""
    if not asked.is_live:
        return await asked.app.errors.alist(look=LOOK)
    newest = await asked.app.errors.alist(look=1, limit=1)
    failed = sum(queue.counts.get(State.FAILED, 0) for queue in await asked.queues())
    known = _read.get(asked.app)
    if known is None or (known.newest, known.failed) != (newest, failed) or asked.now - known.at > KEPT:
        known = _read[asked.app] = _Known(asked.now, newest, failed, await asked.app.errors.alist(look=LOOK))
    return known.found
