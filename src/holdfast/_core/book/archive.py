"""What a book knows of an object with finished jobs, which are no longer in the book."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.job import State
from holdfast._core.record import JobRecord, is_of
from holdfast._core.requests import JobFilter


class Archive(Struct, frozen=True, omit_defaults=True):
    """An object with finished jobs. ``low`` and ``high``: their least and greatest id. ``groups``: how many it still has of each queue,
    task and state. ``size``: its bytes before compression. ``names_bodies``: whether a row names bytes that are in another object."""

    low: UUID
    high: UUID
    delete_after: datetime
    groups: tuple[tuple[str, str, State, int], ...]
    size: int
    names_bodies: bool = False

    @property
    def jobs(self) -> int:
        """How many jobs it still has."""
        return sum(number for *_, number in self.groups)

    def without(self, rows: Iterable[JobRecord]) -> "Archive":
        """Return the archive after these jobs have gone back to the book."""
        left = {(queue, task, state): number for queue, task, state, number in self.groups}
        for row in rows:
            left[row.queue, row.task, row.state] -= 1
        return structs.replace(self, groups=tuple((*group, number) for group, number in left.items() if number))

    def may_match(self, which: JobFilter) -> bool:
        """Return whether one of its jobs may be one of those to list."""
        if which.down_to is not None and self.high < which.down_to:
            return False
        if which.only_workflows or which.workflow is not None or (which.before is not None and self.low >= which.before):
            return False
        return any(
            is_of(which.queue, queue) and is_of(which.task, task) and is_of(which.state, state)
            for queue, task, state, _ in self.groups
        )


class ListedArchive(Struct, frozen=True):
    """An archive that may have jobs to list. ``gone``: the jobs in its object that it no longer has."""

    key: str
    archive: Archive
    gone: frozenset[UUID]
