"""The subject of a story: the job of a violation, or the last job of the process at fault, and the claims in question."""

from collections.abc import Iterator, Sequence
from uuid import UUID

from proof.checker.history import Event, JobRow, LeaseRow


class Focus:
    """The jobs, leases, processes and claims of a story. ``values``: the other values that the violation names.

    Without a job the values name leases or processes.
    """

    def __init__(self, events: Sequence[Event], job: UUID | None, values: Sequence[object]) -> None:
        self.processes = {value for value in values if isinstance(value, str)} if job is None else set()
        self.leases = set[UUID]() if job is not None else set(self._blamed(events, values))
        self.jobs = [job, *_others(events, job, values)] if job is not None else self._held(events)
        ours = [event for event in events if event.job in self.jobs]
        self.leases |= {lease for event in ours if (lease := _lease(event)) is not None}
        spoken = {*map(str, values), *_claims(ours[-1:]), *_claims([event for event in ours if event.what == "job"][-1:])}
        known = {event.after.token for event in ours if isinstance(event.after, JobRow)}
        self.tokens = {token for token in known if token.claim is not None and str(token) in spoken}
        rows = (event.after for event in reversed(ours))
        self.queue = next((row.queue for row in rows if isinstance(row, JobRow)), "")

    def _blamed(self, events: Sequence[Event], values: Sequence[object]) -> Iterator[UUID]:
        for event in events:
            is_theirs = isinstance(event.after, LeaseRow) and event.after.process in self.processes
            if event.lease is not None and (is_theirs or event.lease in values):
                yield event.lease

    def _held(self, events: Sequence[Event]) -> list[UUID]:
        """Return the last job that had an owner under one of these leases."""
        job = next((event.job for event in reversed(events) if event.what == "job" and _lease(event) in self.leases), None)
        return [] if job is None else [job]


def _lease(event: Event) -> UUID | None:
    """Return the lease under which the job is owned now, or was before."""
    rows = [row for row in (event.after, event.before) if isinstance(row, JobRow)]
    return next((row.lease for row in rows if row.lease is not None), None)


def _others(events: Sequence[Event], job: UUID, values: Sequence[object]) -> list[UUID]:
    known = {event.job for event in events}
    return [value for value in values if isinstance(value, UUID) and value in known and value != job]


def _claims(events: Sequence[Event]) -> Iterator[str]:
    """Yield the claims that an event names, and those that its rows name."""
    for event in events:
        yield from (str(event.token), str(event.by and event.by.token))
        for row in (event.before, event.after):
            if isinstance(row, JobRow):
                yield from (str(row.token), row.witness, row.result)
