"""``@app.around_enqueue``: code around every enqueue, in the caller, which may change the job before it is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from uuid import UUID

from msgspec import structs

from holdfast._core.headers import headers_from
from holdfast._core.payload import decode_json
from holdfast._engine.tasks.around import Around, Passing
from holdfast._engine.tasks.options import Options

if TYPE_CHECKING:
    from holdfast._core.job import Json, NewJob


class NewJobView:
    """A job that is about to be enqueued. ``headers``, ``key``, ``priority`` and ``tags`` may be changed until the function yields.

    >>> def tenant(job: NewJobView):
    ...     job.headers["tenant"] = "acme"
    ...     yield
    """

    def __init__(self, job: NewJob) -> None:
        self._job = job
        self.headers: dict[str, str] = dict(job.headers)
        self.key: str = job.key
        self.priority: int = job.priority
        self.tags: Sequence[str] = job.tags

    @property
    def id(self) -> UUID:
        """The id that the job will have."""
        return self._job.id

    @property
    def task(self) -> str:
        """The name of its task."""
        return self._job.task

    @property
    def queue(self) -> str:
        """The queue it will wait in."""
        return self._job.queue

    @property
    def payload(self) -> Json:
        """The arguments of its handler, by name, as JSON; a copy."""
        return decode_json(self._job.payload)

    def changed(self) -> NewJob:
        """Return the job with the changes; ``ConfigurationError`` with every problem found."""
        job = self._job
        if (self.key, self.priority, self.tags) == (job.key, job.priority, job.tags):
            # The rest was checked when the job was made. Traces change only headers, and this saves a quarter of what they cost.
            return structs.replace(job, headers=headers_from(self.headers))
        own = Options.of(key=self.key or None, priority=self.priority, tags=self.tags, headers=self.headers)
        return structs.replace(job, key=self.key, priority=self.priority, tags=own.tags, headers=own.headers)


@contextmanager
def enqueued_within(wrappers: Sequence[Around], jobs: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
    """Run the code around the enqueue of these jobs, and yield them as that code changed them; the first function is the outermost."""
    with ExitStack() as stack:
        views = [NewJobView(job) for job in jobs]
        for view in views:
            for each in wrappers:
                stack.enter_context(Passing(each.open(view)))
        yield [view.changed() for view in views]
