"""A unique key that an unfinished job with another payload has."""

from typing import TYPE_CHECKING

from holdfast.errors import UniqueConflict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast._core.answers import EnqueueAnswer
    from holdfast._core.job import NewJob


def require_no_conflict(jobs: "Iterable[NewJob]", answer: "EnqueueAnswer") -> None:
    """Raise ``UniqueConflict`` for the first job whose key an unfinished job with another payload has."""
    for job in jobs:
        duplicate = answer.duplicates.get(job.id)
        if duplicate is not None and not duplicate.is_same:
            message = f"task {job.task}: job {duplicate.job} has the unique key {job.unique_key!r} and another payload"
            raise UniqueConflict(f"{message}: wait for it, cancel it, or use another key", duplicate.job)
