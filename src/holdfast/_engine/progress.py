"""Progress on its way to the store: one write for many jobs."""

from collections.abc import Sequence
from uuid import UUID

from holdfast._core.requests import ProgressUpdate
from holdfast._ports.store import Ownership
from holdfast.errors import StoreBusy


async def report(store: Ownership, updates: Sequence[ProgressUpdate]) -> tuple[frozenset[UUID], frozenset[UUID]]:
    """Write the updates; return the jobs that were lost, and those that another session has locked, which are not written."""
    try:
        return await store.report(updates), frozenset()
    except StoreBusy as error:
        if not error.jobs:
            raise
        return error.lost, error.jobs
