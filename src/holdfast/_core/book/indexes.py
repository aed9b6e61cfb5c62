"""The indexes of a book that follow from the records of jobs. No verb but ``list`` walks all jobs, because of these."""

from typing import TypeVar
from uuid import UUID

from holdfast._core.book.content import Content, Ended
from holdfast._core.book.line import Line
from holdfast._core.book.rows import Waiting, range_of
from holdfast._core.job import ACTIVE, FINISHED, State
from holdfast._core.record import JobRecord, retention_of
from holdfast._core.unique_keys import keeps_key, key_kept_until

Which = TypeVar("Which")

# read here once: to read a member of an enum is slow before Python 3.12
_AVAILABLE, _BLOCKED, _HELD, _RUNNING = State.AVAILABLE, State.BLOCKED, State.HELD, State.RUNNING


class BookIndexes:
    """What is done to the indexes when the record of a job changes."""

    _all: Content

    def _index_job(self, job: UUID, old: JobRecord | None, new: JobRecord | None) -> None:
        if old is not None:
            self._take_from_indexes(old)
        if new is not None:
            self._add_to_indexes(new)
        if old is None or new is None:
            row = new or old
            if row is not None and row.member is not None and row.member.flow == job and job in self._all.members:
                self._index_members_without(job, is_root_here=new is not None)

    def _add_to_indexes(self, row: JobRecord) -> None:
        known, state = self._all, row.state
        if state is _AVAILABLE:
            _add(known.ranges, range_of(row), (row.available_at, row.id))
            if row.expires_at is not None and row.attempt == 0:
                known.expiring.add((row.expires_at, row.id))
            if row.awaits is not None:
                _add(known.awaiting, (row.queue, row.task), (row.available_at, row.id))
        else:
            known.count((row.queue, row.task, state), 1)
            if state in ACTIVE:
                self._add_active(row)
            else:
                self._add_ended_or_parked(row)
        if row.unique_key is not None and keeps_key(row):
            known.keys[row.task, row.unique_key] = row.id
        if row.member is not None:
            known.members.setdefault(row.member.flow, {})[row.id] = None
            if row.member.flow == row.id and state not in FINISHED:
                known.open_flows.add(row.id)

    def _add_active(self, row: JobRecord) -> None:
        known = self._all
        if row.lease is not None:
            held = known.holds.get(row.lease)
            if held is None:
                held = known.holds[row.lease] = set()
            held.add(row.id)
        if _is_timed(row):
            known.timed[row.id] = None

    def _add_ended_or_parked(self, row: JobRecord) -> None:
        known, state = self._all, row.state
        if state is _BLOCKED or state is _HELD:
            known.parked.setdefault(row.queue, {})[row.id] = None
        elif row.finished_at is not None and not self._is_kept_for_root(row):
            _add(known.ended, _ended(row), (row.finished_at, row.id))
        if row.hook_due_at is not None and state is not _BLOCKED:
            _add(known.owed, row.task, (row.hook_due_at, row.id))

    def _take_from_indexes(self, row: JobRecord) -> None:
        known, state = self._all, row.state
        if state is _AVAILABLE:
            _remove(known.ranges, range_of(row), (row.available_at, row.id))
            if row.expires_at is not None and row.attempt == 0:
                known.expiring.remove((row.expires_at, row.id))
            if row.awaits is not None:
                _remove(known.awaiting, (row.queue, row.task), (row.available_at, row.id))
        else:
            known.count((row.queue, row.task, state), -1)
            if state in ACTIVE:
                self._take_active(row)
            else:
                self._take_ended_or_parked(row)
        if row.unique_key is not None and known.keys.get((row.task, row.unique_key)) == row.id:
            del known.keys[row.task, row.unique_key]
        if row.member is not None:
            _drop(known.members, row.member.flow, row.id)
            if row.member.flow == row.id and state not in FINISHED:
                known.open_flows.remove(row.id)

    def _take_active(self, row: JobRecord) -> None:
        known = self._all
        if row.lease is not None:
            held = known.holds[row.lease]
            held.remove(row.id)
            if not held:
                del known.holds[row.lease]
        if _is_timed(row):
            del known.timed[row.id]

    def _take_ended_or_parked(self, row: JobRecord) -> None:
        known, state = self._all, row.state
        if state is _BLOCKED or state is _HELD:
            _drop(known.parked, row.queue, row.id)
        elif row.finished_at is not None and not self._is_kept_for_root(row):
            _remove(known.ended, _ended(row), (row.finished_at, row.id))
        if row.hook_due_at is not None and state is not _BLOCKED:
            _remove(known.owed, row.task, (row.hook_due_at, row.id))

    def _index_members_without(self, root: UUID, *, is_root_here: bool) -> None:
        """Let the finished members of a flow be pruned by their own age while its root is not there, and only then."""
        for row in [self._all.jobs[member] for member in self._all.members[root] if member != root]:
            if row.state in FINISHED and row.finished_at is not None:
                which, waiting = _ended(row), (row.finished_at, row.id)
                if is_root_here:
                    _remove(self._all.ended, which, waiting)
                else:
                    _add(self._all.ended, which, waiting)

    def _is_kept_for_root(self, row: JobRecord) -> bool:
        return row.member is not None and row.member.flow != row.id and row.member.flow in self._all.jobs


def _ended(row: JobRecord) -> Ended:
    is_plain = row.member is None and row.hook_due_at is None and key_kept_until(row) is None
    return retention_of(row), row.is_stub, is_plain


def _is_timed(row: JobRecord) -> bool:
    has_limit = row.policy.timeout is not None or row.policy.progress_within is not None
    return has_limit and row.state is _RUNNING


def _add(lines: dict[Which, Line[Waiting]], which: Which, waiting: Waiting) -> None:
    line = lines.get(which)
    if line is None:
        line = lines[which] = Line()
    line.add(waiting)


def _remove(lines: dict[Which, Line[Waiting]], which: Which, waiting: Waiting) -> None:
    line = lines[which]
    line.remove(waiting)
    if not line:
        del lines[which]


def _drop(groups: dict[Which, dict[UUID, None]], which: Which, job: UUID) -> None:
    group = groups[which]
    del group[job]
    if not group:
        del groups[which]
