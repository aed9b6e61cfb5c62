"""The cost of attempts: each failure is counted once, and interrupted code runs again only if its task allows it."""

from uuid import UUID

from holdfast._core.job import PLACE_OF, AttemptOutcome, Place, State, Token
from holdfast._core.policy import CrashPolicy
from proof.checker.history import Event, JobRow
from proof.checker.verdicts import CheckContext, Seers

FAILURES = (AttemptOutcome.FAILED, AttemptOutcome.STALLED, AttemptOutcome.TIMED_OUT)
INTERRUPTED = (None, AttemptOutcome.RELEASED, AttemptOutcome.CRASHED)  # attempts that their code did not end itself


class Budgets:
    """The part of S9 that concerns failures and ``on_crash``."""

    def __init__(self, context: CheckContext) -> None:
        self._context, self._expect = context, context.expect
        self._started: set[tuple[UUID, Token]] = set()

    def seers(self) -> Seers:
        """Return the events that these rules read."""
        return {"handler.start": self._see_start, "job": self._see_row}

    def finish(self) -> None:
        """Do nothing: these rules need no check at the end."""

    def _see_start(self, event: Event) -> None:
        if event.job is not None and event.token is not None:
            self._started.add((event.job, event.token))

    def _see_row(self, event: Event) -> None:
        before, after, by, job = event.before, event.after, event.by, event.job
        if not isinstance(before, JobRow) or not isinstance(after, JobRow) or by is None or job is None:
            return
        has_ended = PLACE_OF[before.state] is Place.ACTIVE and PLACE_OF[after.state] is not Place.ACTIVE
        if has_ended and by.verb == "exchange":
            self._see_attempt(job, before, after, by.record)

    def _see_attempt(self, job: UUID, before: JobRow, after: JobRow, record: AttemptOutcome | None) -> None:
        failures = before.failures + (record in FAILURES)
        self._expect("S9", after.failures == failures, job, "its failures were {}, now {}", before.failures, after.failures)
        # A store that lost an outcome in a fail-over still records the job as running, and no process knows its code.
        was_interrupted = record in INTERRUPTED and (job, before.token) in self._started and not self._context.has_forgotten
        if was_interrupted and before.policy.on_crash is not CrashPolicy.RETRY:
            is_heeded = after.state is not State.AVAILABLE
            self._expect(
                "S9", is_heeded, job, "its code was cut short, its task says '{}', and it runs again", before.policy.on_crash
            )
