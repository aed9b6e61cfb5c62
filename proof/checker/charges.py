"""The charges of a job: limits by the owner's clock, isolated attempts, and no charge for drains and outages.

Also: results are written under their token, and only an intended wait makes a job due later.
"""

from collections import defaultdict
from uuid import UUID

from msgspec import Struct

from holdfast._core.job import PLACE_OF, AttemptOutcome, Place, Reason, State, Token
from holdfast._core.lifecycle import Precondition
from holdfast._core.policy import CrashPolicy
from proof.checker.history import CRASHED, FAIL_OVER, ROWS, Event, JobRow, LeaseRow
from proof.checker.verdicts import RATE, CheckContext, Seers

ACCURACY = 0.01


class _Attempt(Struct):
    """One run of code under one token: when it started, when it last progressed, and its longest pause so far."""

    started: float
    moved: float
    longest_pause: float = 0.0

    def move(self, now: float) -> None:
        self.longest_pause, self.moved = max(self.longest_pause, now - self.moved), now


class Charges:
    """S9 beyond counting, S13, S25 of the job itself, L7, and jobs or results lost without a reason: L3, L8."""

    def __init__(self, context: CheckContext) -> None:
        self._context, self._expect = context, context.expect
        self._leases: dict[UUID, LeaseRow] = {}
        self._active: defaultdict[UUID, int] = defaultdict(int)
        self._attempts: dict[tuple[UUID, Token], _Attempt] = {}
        self._claimed: dict[UUID, float] = {}
        self._reported: dict[UUID, float] = {}
        self._undelivered: dict[tuple[UUID, Token], None] = {}

    def seers(self) -> Seers:
        """Return the events that these rules read."""
        seers: Seers = {"job": self._see_row, "lease": self._see_lease, "handler.move": self._see_progress}
        if self._context.rules.keeps_results:
            seers |= {"handler.done": self._see_done}
        return seers | {"handler.start": self._see_start, "handler.end": self._see_end}

    def finish(self) -> None:
        """Report the results that no store has recorded."""
        if self._context.rules.keeps_results:
            for job, token in self._undelivered:
                self._expect("L8", False, job, "the result that code of {} had returned was never written", token)

    def _see_lease(self, event: Event) -> None:
        if event.lease is not None and isinstance(event.after, LeaseRow):
            self._leases[event.lease] = event.after

    # what code does

    def _see_end(self, event: Event) -> None:
        if event.note == CRASHED:
            self._context.crashed.add((event.job, event.token))

    def _see_start(self, event: Event) -> None:
        if event.job is not None and event.token is not None:
            self._attempts[event.job, event.token] = _Attempt(event.time, event.time)

    def _see_progress(self, event: Event) -> None:
        if event.job is not None and event.token is not None and (event.job, event.token) in self._attempts:
            self._attempts[event.job, event.token].move(event.time)

    def _see_done(self, event: Event) -> None:
        if event.job is not None and event.token is not None:
            self._undelivered[event.job, event.token] = None

    # what becomes of its job

    def _see_row(self, event: Event) -> None:
        before, after = event.before, event.after
        if event.by is not None and event.by.verb == FAIL_OVER:
            self._count(before, -1)
            self._count(after, +1)
            return
        if isinstance(before, JobRow) and isinstance(after, JobRow) and event.job is not None:
            was_active, is_active = (PLACE_OF[row.state] is Place.ACTIVE for row in (before, after))
            if is_active and not was_active:
                self._claimed[event.job] = self._reported[event.job] = event.time
                self._expect_isolation(event.job, before, after)
            elif is_active and event.by is not None and event.by.verb in ("report", "start"):
                self._reported[event.job] = event.time
            if was_active and not is_active:
                self._see_moved(event, event.job, before, after)
            self._expect_result(event.job, before, after)
        self._count(before, -1)
        self._count(after, +1)

    def _count(self, row: object, number: int) -> None:
        if isinstance(row, JobRow) and row.lease is not None and PLACE_OF[row.state] is Place.ACTIVE:
            self._active[row.lease] += number

    def _expect_isolation(self, job: UUID, before: JobRow, after: JobRow) -> None:
        lease = None if after.lease is None else self._leases.get(after.lease)
        if lease is None or after.lease is None or not self._isolates(lease):
            return
        problem = (
            "its isolated attempt ran beside others" if before.is_last_try else "it was claimed by a worker for isolated attempts"
        )
        self._expect("S9", before.is_last_try == lease.is_isolated, job, problem)
        is_isolated = not lease.is_isolated or self._active[after.lease] == 0
        self._expect("S9", is_isolated, job, "two jobs run in a worker for one isolated attempt")

    def _isolates(self, lease: LeaseRow) -> bool:
        """Return whether the worker isolates attempts: one in a user's own process cannot start a worker for them."""
        return self._context.rules.isolates and lease.process not in self._context.apps

    def _see_moved(self, event: Event, job: UUID, before: JobRow, after: JobRow) -> None:
        lease = None if before.lease is None else self._leases.get(before.lease)
        if (job, before.token) in self._undelivered:
            del self._undelivered[job, before.token]
            self._expect("L8", after.state is State.COMPLETED, job, "the result of {} was dropped", before.token)
        by = event.by
        if by is None:
            return
        if by.record in (AttemptOutcome.STALLED, AttemptOutcome.TIMED_OUT):
            self._expect(
                "L8", self._context.rules.has_stalls, job, "it was charged as {}, and only the store was unreachable", by.record
            )
            self._expect_limit_exceeded(event, job, before, lease, is_timed=by.record is AttemptOutcome.TIMED_OUT)
        if after.reason is Reason.WORKER_CRASHED and before.policy.on_crash is CrashPolicy.RETRY and lease is not None:
            is_guilty = not before.policy.needs_isolation(before.crashes) or lease.is_isolated or job in lease.culprits
            self._expect("S9", is_guilty or not self._isolates(lease), job, "it was charged with its last crash beside others")
        is_draining = lease is not None and lease.is_draining
        is_lost = (by.precondition is Precondition.LEASE_ENDED or by.record is AttemptOutcome.RELEASED) and not is_draining
        self._expect("L3", self._context.rules.has_long_silence or not is_lost, job, "it was taken from a healthy worker")
        is_drained = (
            by.precondition is Precondition.LEASE_ENDED and lease is not None and is_draining and job not in lease.culprits
        )
        is_free = (before.failures, before.crashes) == (after.failures, after.crashes)
        if is_drained or by.record is AttemptOutcome.RELEASED:
            self._expect("L7", is_free, job, "the job was charged although its worker only released it")
        if after.state is State.AVAILABLE:
            self._expect_position_kept(job, before, after, by.record)

    def _expect_position_kept(self, job: UUID, before: JobRow, after: JobRow, record: AttemptOutcome | None) -> None:
        """Check a job that returns to its queue at once: it must not be due later, and only code that ran counts as an attempt."""
        has_run = record is not None or before.state is not State.RUNNING
        problem = "its code never ran, and attempt {} became {}"
        if before.state is State.RUNNING or not self._context.has_forgotten:  # else the store may have forgotten its start
            self._expect("S9", after.attempt == before.attempt - (not has_run), job, problem, before.attempt, after.attempt)
        is_first_crash = record is AttemptOutcome.CRASHED and after.crashes == 1
        if record in (None, AttemptOutcome.RELEASED) or is_first_crash:
            lost = after.due_in - before.due_in - self._context.rules.step
            self._expect("S25", lost <= ACCURACY, job, "the job lost its position in its queue: it is due {:.3f} s later", lost)

    def _expect_limit_exceeded(self, event: Event, job: UUID, before: JobRow, lease: LeaseRow | None, *, is_timed: bool) -> None:
        """Check the charge of a limit. For the owner, code paused or ran for the limit. For others, the row is older still."""
        limit, rules = before.policy.timeout if is_timed else before.policy.progress_within, self._context.rules
        attempt = self._attempts.get((job, before.token))
        if limit is None or attempt is None or event.by is None or not rules.is_timed:
            return
        attempt.longest_pause = max(attempt.longest_pause, event.time - attempt.moved)
        took = event.time - attempt.started if is_timed else attempt.longest_pause
        problem = "the job was charged after {:.2f} s, and its limit is {:.2f} s"
        self._expect("S9", took * RATE + ACCURACY >= limit, job, problem, took, limit)
        if event.by.precondition is Precondition.OVERDUE and lease is not None and not self._context.has_forgotten:
            known = (self._claimed if is_timed else self._reported).get(job, attempt.started)
            late, wanted = event.time - known, limit + lease.ttl + lease.grace
            problem = "another supervisor judged the job {:.2f} s after its last report, and not {:.2f} s"
            self._expect("S9", late * RATE + rules.step + ACCURACY >= wanted, job, problem, late, wanted)

    def _expect_result(self, job: UUID, before: JobRow, after: JobRow) -> None:
        is_completing = after.state is State.COMPLETED and before.state is not State.COMPLETED
        if is_completing:
            is_gate = after.member is not None and after.member.is_gate  # it has no code
            is_free = not self._context.rules.returns_tokens or after.task.startswith(ROWS) or is_gate
            is_own = after.result == str(before.token) or (not after.result and is_free)
            self._expect("S13", is_own, job, "the job of {} completed with the result '{}'", before.token, after.result)
        elif after.result != before.result:
            self._expect("S13", not after.result, job, "the result of the job became '{}' apart from its state", after.result)
