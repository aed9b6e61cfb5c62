"""The verbs of a book that change nothing: jobs, counts, workers and their history, queues, due jobs, and overdue leases and jobs."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from heapq import nsmallest
from itertools import islice, takewhile
from typing import Literal
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import MOST_ATTEMPTS, BeatView, DueJob, LeaseView, OverdueJob, QueueView
from holdfast._core.audit import AuditEntry, AuditFilter, is_listed
from holdfast._core.book.moment import Moment, micros
from holdfast._core.book.rows import NO_WORKER, Lease, Range, Rows, Waiting
from holdfast._core.book.state import BookState
from holdfast._core.error_groups import ErrorList, grouped
from holdfast._core.job import ActiveJob, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.limits import CountedBy, is_limited
from holdfast._core.record import JobRecord, active_job, as_read, is_expired, matches, needs_isolation
from holdfast._core.requests import IsolatedJobs, JobFilter, QueueSettings

_SECOND = timedelta(seconds=1)
_RUNNING, _STALLED, _TIMED_OUT = State.RUNNING, RescueReason.STALLED, RescueReason.TIMED_OUT


class BookReading(BookState):
    """The verbs that only read; each keeps the promise of the verb of this name in ``_ports/store``."""

    def get(self, now: Moment, job: UUID) -> JobRecord | None:
        row = self._all.jobs.get(job)
        if row is None:
            return None
        attempts = self._all.attempts.get(job, {})
        records = (attempts[token].record for token in sorted(attempts, key=lambda token: token.number))
        known = tuple(each for each in records if each is not None)
        return structs.replace(as_read(row, now.wall), attempts=known[-MOST_ATTEMPTS:])

    def list(self, now: Moment, which: JobFilter) -> tuple[JobRecord, ...]:
        views = (as_read(row, now.wall) for row in sorted(self._all.jobs.values(), key=lambda row: row.id, reverse=True))
        found = (view for view in views if matches(view, which, now.wall) and not (which.only_workflows and self._is_lone(view)))
        return tuple(islice(found, which.skip, which.skip + which.limit))

    def errors(self, now: Moment, look: int, limit: int) -> ErrorList:
        del now
        return grouped(self._all.jobs.values(), look, limit)

    def counts(
        self, now: Moment, by: Literal["queue", "task"] | None = None, most: int | None = None
    ) -> dict[tuple[str, State], int]:
        del most  # they are counted all the time
        found = Counter[tuple[str, State]]()
        for (queue, task, state), number in self._tallies(now.wall):
            found["" if by is None else queue if by == "queue" else task, state] += number
        return {group: number for group, number in found.items() if number}

    def _tallies(self, wall: datetime) -> Iterator[tuple[tuple[str, str, State], int]]:
        """Return how many jobs of a queue and a task are in a state, as they are read at that time; parts of a number may be negative."""
        yield from self._all.tally.items()
        for (task, queue, *_), line in self._all.ranges.items():
            early = line.later(wall)
            yield (queue, task, State.AVAILABLE), len(line) - early
            yield (queue, task, State.SCHEDULED), early
        for (queue, task), line in self._all.awaiting.items():
            early = line.later(wall)
            yield (queue, task, State.SCHEDULED), -early
            yield (queue, task, State.BLOCKED), early

    def workers(self, now: Moment) -> tuple[LeaseView, ...]:
        alive = [lease for lease in self._all.leases.values() if lease.end is None]
        alive.sort(key=lambda lease: (lease.opened_at, lease.spec.id))
        return tuple(self._lease_view(lease.spec.id, now) for lease in alive)

    def worker_history(self, now: Moment, worker: str, limit: int) -> tuple[BeatView, ...]:
        del now
        beats = [kept.beat for _, kept in sorted(self._all.beats.items(), reverse=True) if kept.beat.worker == worker]
        return tuple(sorted(beats, key=lambda beat: beat.at, reverse=True)[:limit])

    def audits(self, now: Moment, which: AuditFilter) -> tuple[AuditEntry, ...]:
        del now
        newest_first = (kept.entry for _, kept in sorted(self._all.audits.items(), reverse=True))
        return tuple(islice((each for each in newest_first if is_listed(each, which)), which.limit))

    def queues(self, now: Moment, most: int | None = None) -> tuple[QueueView, ...]:
        del most
        paused, chosen = self._all.paused_queues, self._all.queue_settings
        found: dict[str, dict[State, int]] = {queue: {} for queue in (*paused, *chosen)}
        for (queue, state), number in self.counts(now, "queue").items():
            found.setdefault(queue, {})[state] = number
        return tuple(
            QueueView(name=name, paused_at=paused.get(name), counts=found[name], settings=chosen.get(name, QueueSettings()))
            for name in sorted(found)
        )

    def waiting_tasks(self, now: Moment) -> tuple[str, ...]:
        del now
        return tuple(sorted({task for task, *_ in self._all.ranges}))

    def due(
        self,
        now: Moment,
        tasks: Sequence[str],
        limit: int,
        *,
        queues: Sequence[str] | None = None,
        isolated: IsolatedJobs = IsolatedJobs.EXCLUDE,
        age: float = 0.0,
    ) -> tuple[DueJob, ...]:
        found = self._ranges(tasks, queues, isolated, now.wall)
        limited = self._all.limits
        ranges = {which: waiting for which, waiting in found.items() if not is_limited(CountedBy(*which[:3]), limited)}
        rows = self._first(ranges, limit, now.wall - timedelta(microseconds=micros(age)))
        return tuple(DueJob(row.id, row.queue, row.token.number) for row in rows)

    def held(self, now: Moment, lease: UUID, limit: int | None = None) -> tuple[ActiveJob, ...]:
        del now
        return tuple(active_job(row) for row in self._held(lease)[:limit])

    def expired(self, now: Moment, limit: int) -> tuple[LeaseView, ...]:
        silent = [lease for lease, known in self._all.leases.items() if known.end is None and self._overdue(known, now) > 0]
        ended = [lease for lease in self._holders() if not self._is_alive(lease)]
        found = [self._lease_view(lease, now) for lease in (*silent, *ended)]
        return tuple(sorted(found, key=lambda view: (view.end is None, -view.overdue, view.id))[:limit])

    def _holders(self) -> Collection[UUID]:
        """Return the leases that have jobs."""
        return self._all.holds

    def _states_held(self, lease: UUID) -> Sequence[State]:
        """Return the states of the jobs that a lease has."""
        return [self._all.jobs[job].state for job in self._all.holds.get(lease, ())]

    def overdue(self, now: Moment, limit: int) -> tuple[OverdueJob, ...]:
        rows = [self._all.jobs[job] for job in self._all.timed]
        worst = [(*max((self._late(row, charge, now), charge) for charge in (_STALLED, _TIMED_OUT)), row) for row in rows]
        worst.sort(key=lambda each: (-each[0], each[2].token.number))
        return tuple(self._overdue_job(row, charge) for late, charge, row in worst[:limit] if late > 0)

    def _overdue(self, lease: Lease, now: Moment) -> int:
        """Return the microseconds since the lease expired, negative before."""
        return now.elapsed(lease.spec.id, lease.renewed_at) - micros(lease.spec.timing.ttl)

    def _late(self, row: JobRecord, charge: RescueReason, now: Moment) -> int:
        """Return the microseconds since which other workers may judge the job; they may not unless it is positive."""
        is_timed = charge is _TIMED_OUT
        limit = row.policy.timeout if is_timed else row.policy.progress_within
        if limit is None or row.lease is None or row.state is not _RUNNING or not self._is_alive(row.lease):
            return 0
        lease, marks = self._all.leases[row.lease].spec, self._all.marks[row.id]
        return now.elapsed(row.id, marks.started if is_timed else marks.moved) - micros(limit + lease.timing.ttl + lease.grace)

    def _overdue_job(self, row: JobRecord, charge: RescueReason) -> OverdueJob:
        assert row.lease is not None
        return OverdueJob(active_job(row), row.worker or "", charge, self._all.leases[row.lease].spec.timing)

    def _ranges(
        self, tasks: Collection[str], queues: Sequence[str] | None, isolated: IsolatedJobs, wall: datetime
    ) -> dict[Range, Iterator[Waiting]]:
        def may_be_taken(waiting: Waiting) -> bool:
            row = self._all.jobs[waiting[1]]
            is_wanted = isolated is IsolatedJobs.INCLUDE or needs_isolation(row) is (isolated is IsolatedJobs.ONLY)
            return is_wanted and not is_expired(row, wall)

        return {
            which: filter(may_be_taken, waiting)
            for which, waiting in self._all.ranges.items()
            if which[0] in tasks and (queues is None or which[1] in queues) and which[1] not in self._all.paused_queues
        }

    def _first(self, ranges: dict[Range, Iterator[Waiting]], most: int, until: datetime) -> Rows:
        due = [
            (priority, at, job)
            for (*_, priority), waiting in ranges.items()
            for at, job in islice(takewhile(lambda each: each[0] <= until, waiting), most)
        ]
        return [self._all.jobs[job] for _, _, job in nsmallest(most, due)]

    def _lease_view(self, lease: UUID, now: Moment) -> LeaseView:
        known, states = self._all.leases.get(lease), self._states_held(lease)
        if known is None:
            spec = structs.replace(NO_WORKER, id=lease)
            known = Lease(spec, now.wall, now.stamp, now.stamp, end=LeaseEnd(RescueReason.EXPIRED))
        return LeaseView(
            id=lease,
            worker=known.spec.worker,
            process=known.spec.process,
            timing=known.spec.timing,
            overdue=self._overdue(known, now) / 1e6,
            seen=known.seen + now.beats(lease),
            age=(now.wall - known.opened_at) / _SECOND,
            holds=len(states),
            claimed=states.count(State.CLAIMED),
            is_draining=known.is_draining,
            end=known.end,
            queues=known.spec.queues,
            tasks=known.spec.tasks,
            grace=known.spec.grace,
            slots=known.spec.slots,
            is_isolated=known.spec.is_isolated,
            declares=known.spec.declares,
        )
