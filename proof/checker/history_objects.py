"""The history of real processes on one bucket: each head that lands has one commit more, with all rows that it changes.

A bucket has no triggers. Its server writes down each commit when it lands, and a broker that leads each beat that it answers from
memory. Rows show no verb and no token that asked for a change, as in the other histories of real processes, so that the rules which
need them are not judged: what callers were answered, and charges. Workflows, steps, schedules and limits are left out: no test of
real faults on a bucket has any.

Leases have no common clock: each stands since its newest beat landed, or was answered from memory.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from holdfast._core.book.rows import Lease
from holdfast._core.book.table import RowChange
from holdfast._core.book.tables import decode
from holdfast._core.job import PLACE_OF, Place, RescueReason, State
from holdfast._core.record import JobRecord
from holdfast.stores.objects.head import KEY, Commit
from holdfast.stores.objects.head import read as read_head
from proof.checker.book_rows import job_row, lease_row
from proof.checker.history import By, Event, History, LeaseRow, Phase, label
from proof.checker.process_log import ProcessEvent


class Landed(Struct, frozen=True, tag=True):
    """A commit, and the time of the wall clock at which it landed."""

    time: float
    commit: Commit


class BeatAnswered(Struct, frozen=True, tag=True):
    """Leases whose beat a leader was about to answer from memory."""

    time: float
    leases: tuple[UUID, ...]


Note = Landed | BeatAnswered


class CommitLog:
    """Writes each new commit of a head to a file; call it with every object that is written, in order. ``now``: the wall clock."""

    def __init__(self, path: Path, now: Callable[[], float]) -> None:
        self._path, self._now, self._version = path, now, 0

    def __call__(self, key: str, body: bytes) -> None:
        if key.rpartition("/")[2] != KEY:
            return
        now, head = self._now(), read_head(body)
        for commit in head.tail:
            if commit.version > self._version:
                _append(self._path, Landed(now, commit))
        self._version = head.version


def tell_beats(path: Path, now: float, leases: Sequence[UUID]) -> None:
    """Write to the same file that a leader is about to answer a beat of these leases from memory."""
    _append(path, BeatAnswered(now, tuple(leases)))


def read(path: Path, process_log: Iterable[ProcessEvent] = ()) -> History:
    """Return the history so far, with the events of the process log, in the order of time."""
    notes = read_notes(path)
    began = notes[0].time if notes else 0.0
    events = [*Replay(began).events(notes), *(each.event(began) for each in process_log)]
    return History(sorted(events, key=lambda event: event.time))


def read_notes(path: Path) -> list[Note]:
    """Return what the file has, in the order in which it was written, without a line whose writer was killed."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [note for line in lines if (note := _note(line)) is not None]


class Replay:
    """The rows of a store, commit by commit. ``began``: the time at which its history begins."""

    def __init__(self, began: float = 0.0) -> None:
        self._began, self._version = began, 0
        self.rows = dict[tuple[str, Any], Any]()
        self._renewed_at = dict[UUID, float]()

    def events(self, notes: Iterable[Note]) -> Iterator[Event]:
        """Yield what became true, in order. ``ValueError``: a commit is missing, or two of one version landed."""
        for note in notes:
            if isinstance(note, BeatAnswered):
                yield from self._beats(note)
                continue
            if note.commit.version != self._version + 1:
                raise ValueError(f"commit {note.commit.version} landed after {self._version}")
            self._version = note.commit.version
            for changes in note.commit.changes:
                yield from self._request(note, [*decode(changes)])

    def _request(self, note: Landed, changes: Sequence[RowChange]) -> Iterator[Event]:
        is_archiving = any(name == "archives" and (name, key) not in self.rows for name, key, _ in changes)
        settled = {key for name, key, row in changes if name == "attempts" and row is not None}
        for name, key, after in changes:
            if is_archiving and after is None:
                continue  # the store still has the row, in another object
            before = self.rows.pop((name, key), None)
            if after is not None:
                self.rows[name, key] = after
            steps = [before, after]
            if name == "jobs" and before is not None and after is not None and (key, before.token) in settled:
                steps[1:1] = _between(before, after)
            for old, new in pairwise(steps):
                yield from self._change(note, name, key, old, new)

    def _beats(self, note: BeatAnswered) -> Iterator[Event]:
        for key in note.leases:
            lease = self.rows.get(("leases", key))
            if lease is not None and lease.end is None:
                yield self._lease_event(note.time, key, lease, lease, is_renewal=True)

    def _change(self, note: Landed, name: str, key: Any, before: Any, after: Any) -> Iterator[Event]:
        if name == "jobs":
            yield _job_event(note.time - self._began, key, note.commit, before, after)
        elif name == "leases" and after is not None:
            is_renewal = before is None or after.renewals != before.renewals
            if is_renewal or (after.end is None) != (before.end is None):
                yield self._lease_event(note.time, key, before, after, is_renewal=is_renewal)
        elif name == "paused_queues" and (before is None) != (after is None):
            word = "resumed" if after is None else "paused"
            yield Event(time=note.time - self._began, process="", what="queue", phase=Phase.TRUTH, note=f"{word} {key}")

    def _lease_event(self, now: float, key: UUID, before: Lease | None, after: Lease, *, is_renewal: bool) -> Event:
        old = None if before is None else self._lease_row(now, key, before)
        if is_renewal:
            self._renewed_at[key] = max(
                now, self._renewed_at.get(key, now)
            )  # a broker may stand still before it writes to the file
        end, row = after.end, self._lease_row(now, key, after)
        by = None if end is None else By("end_lease", is_judged=end.reason is RescueReason.EXPIRED)
        ender = label(after.spec.process) if end is not None and end.reason is RescueReason.CLOSED else ""
        return Event(
            time=now - self._began, process=ender, what="lease", phase=Phase.TRUTH, lease=key, before=old, after=row, by=by
        )

    def _lease_row(self, now: float, key: UUID, lease: Lease) -> LeaseRow:
        return lease_row(lease, now - self._renewed_at[key] - lease.spec.timing.ttl)


def _between(before: JobRecord, after: JobRecord) -> list[JobRecord]:
    """Return the row of a job between two writes of one request: a worker hands a job back, and claims it again."""
    is_claimed_again = PLACE_OF[before.state] is PLACE_OF[after.state] is Place.ACTIVE and before.token != after.token
    if not is_claimed_again:
        return []
    attempt = after.attempt - (after.state is State.RUNNING)
    returned = structs.replace(before, state=State.AVAILABLE, lease=None, attempt=attempt)
    return [structs.replace(returned, failures=after.failures, crashes=after.crashes)]


def _job_event(time: float, job: UUID, commit: Commit, before: JobRecord | None, after: JobRecord | None) -> Event:
    known = [row for row in (after, before) if row is not None]
    lease = next((row.lease for row in known if row.lease), None)
    token = known[0].token if known else None
    old, new = (None if row is None else job_row(row, commit.at) for row in (before, after))
    return Event(time=time, process="", what="job", phase=Phase.TRUTH, job=job, token=token, lease=lease, before=old, after=new)


def _append(path: Path, note: Note) -> None:
    """Append a line, in one write: several processes share the file, and some of them are killed."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, b"\n" + msgspec.json.encode(note) + b"\n")
    finally:
        os.close(file)


def _note(line: bytes) -> Note | None:
    try:
        note: Note = _decoder.decode(line)
    except msgspec.DecodeError:
        return None
    return note


_decoder = msgspec.json.Decoder(Note)
