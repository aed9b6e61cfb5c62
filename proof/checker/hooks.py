"""Rescue hooks of simulated users: the rows that they write, and the check that each hook runs in time, once, and in the end."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from uuid import UUID

from msgspec import structs

from holdfast._core.book.book import Book
from holdfast._core.job import PLACE_OF, Place, State, Token
from holdfast._core.lifecycle import Precondition
from holdfast._core.record import JobRecord
from holdfast.errors import JobLost
from proof.checker.history import FAIL_OVER, Event, JobRow
from proof.checker.verdicts import CheckContext, Seers

Rows = list[str]


class HookedBook(Book):
    """A book with transactions for its users' rows: for each job a list of the rows that its hooks wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: defaultdict[UUID, Rows] = defaultdict(list)

    @contextmanager
    def hook(self, job: UUID, token: Token, hook_due_at: datetime | None) -> Iterator[Rows]:
        """Run a hook in a transaction: its writes commit together with the end of the hook, or not at all."""
        self._require_due(job, token, hook_due_at)
        written: Rows = []
        yield written
        self._complete_hook(self._require_due(job, token, hook_due_at), token, written)

    def _require_due(self, job: UUID, token: Token, hook_due_at: datetime | None) -> JobRecord:
        row = self._all.jobs.get(job)
        if row is None or row.token != token or row.hook_due_at is None or row.hook_due_at != hook_due_at:
            raise JobLost(f"job {job} has no hook due under token {token}")
        return row

    def _complete_hook(self, row: JobRecord, token: Token, written: Rows) -> None:
        self.rows[row.id] += written
        self._put(structs.replace(row, hook_due_at=None))


class Hooks:
    """The parts of S3, S7 and L2 that concern hooks.

    The hook of a rescued job commits before code of the job runs again, in one transaction with the end of its due time, under the
    token of the job. It also commits in the end where no code runs again.
    """

    def __init__(self, context: CheckContext) -> None:
        self._context, self._expect = context, context.expect
        self._rows: dict[UUID, JobRow] = {}
        self._is_done = False

    def seers(self) -> Seers:
        """Return the events that these rules read."""
        return {"job": self._see_row, "handler.start": self._see_start, "done": self._see_done}

    def finish(self) -> None:
        """Report the hooks of ended jobs that are still due."""
        if self._context.rules.is_complete and not self._is_done:
            for job, row in self._rows.items():
                is_left = row.is_owed and row.is_known and (row.is_finished or row.state is State.HELD)
                self._expect("L2", not is_left, job, "at the end the hook of the job is still due")

    def _see_done(self, event: Event) -> None:
        self._is_done = True

    def _see_start(self, event: Event) -> None:
        row = None if event.job is None else self._rows.get(event.job)
        if row is not None and row.policy.has_rescue_hook and row.token == event.token:
            self._expect("S7", not row.is_owed, event.job, "code of the job starts, and its hook is due")

    def _see_row(self, event: Event) -> None:
        assert event.job is not None
        before, after, job = event.before, event.after, event.job
        if not isinstance(after, JobRow):
            self._rows.pop(job, None)
            is_pruned = event.by is not None and event.by.verb == "prune"
            if isinstance(before, JobRow) and is_pruned:
                self._expect("S7", not before.is_owed, job, "the job was deleted, and its hook was due")
            return
        self._rows[job] = after
        if isinstance(before, JobRow) and not (event.by is not None and event.by.verb == FAIL_OVER):
            self._judge(event, job, before, after)

    def _judge(self, event: Event, job: UUID, before: JobRow, after: JobRow) -> None:
        if event.by is not None and event.by.verb == "prune":
            self._expect("S7", not before.is_owed, job, "the payload of the job was deleted, and its hook was due")
        commits = after.hooks_committed - before.hooks_committed
        is_paid = before.is_owed and not after.is_owed
        if commits:
            is_own = event.by is not None and event.by.token == before.token
            self._expect("S3", is_own, job, "the hook of a former owner has committed")
            self._expect("S7", commits == 1 and is_paid, job, "a hook of the job has committed, and none was due")
        elif is_paid:
            is_completed = after.state is State.COMPLETED and PLACE_OF[before.state] is Place.ACTIVE
            self._expect("S7", is_completed, job, "the hook of the job is no longer due, and has not committed")
        is_rescue = event.by is not None and event.by.precondition in (
            Precondition.LEASE_ENDED,
            Precondition.OVERDUE,
        )
        if is_rescue and before.state is State.RUNNING and PLACE_OF[after.state] is not Place.ACTIVE:
            self._expect(
                "S7", after.is_owed is before.policy.has_rescue_hook or before.is_owed, job, "it was rescued, and no hook is due"
            )
