"""The time from the return of a job, without its fault, until its code runs again, behind any backlog."""

from collections.abc import Collection, Iterable, Iterator
from uuid import UUID

from holdfast._core.job import PLACE_OF, Place, State
from proof.checker.history import Event, JobRow


def waits(history: Iterable[Event], jobs: Collection[UUID]) -> Iterator[tuple[UUID, float]]:
    """Yield each of these jobs that kept its position, with the seconds from its return until its code started.

    An operator who moves or retries the job ends the wait without a figure.
    """
    since: dict[UUID, float] = {}
    for event in history:
        if event.job is None or event.job not in jobs:
            continue
        if event.what == "handler.start" and event.job in since:
            yield event.job, event.time - since.pop(event.job)
        elif isinstance(event.before, JobRow) and isinstance(event.after, JobRow):
            if keeps_its_place(event.before, event.after):
                since[event.job] = event.time
            elif PLACE_OF[event.after.state] is not Place.ACTIVE:
                since.pop(event.job, None)


def keeps_its_place(before: JobRow, after: JobRow) -> bool:
    """Return whether a move returned the job to the place that it had from the start: no attempt had a failure or a second crash.

    After these a job waits, and then stands behind those that came before the end of its wait.
    """
    is_back = PLACE_OF[before.state] is Place.ACTIVE and after.state is State.AVAILABLE
    return is_back and after.failures == 0 and after.crashes <= 1 and not after.is_cancel_requested
