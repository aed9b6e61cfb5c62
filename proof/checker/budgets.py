"""What attempts cost: each failure is counted once, and code that was cut short runs again only if its task says so."""

from uuid import UUID

from holdfast._core.job import PLACE_OF, AttemptOutcome, Place, State, Token
from holdfast._core.policy import CrashPolicy
from holdfast.testing.history import Event, JobRow
from proof.checker.verdicts import Ledger, Seers

FAILURES = (AttemptOutcome.FAILED, AttemptOutcome.STALLED, AttemptOutcome.TIMED_OUT)
CUT_SHORT = (None, AttemptOutcome.RELEASED, AttemptOutcome.CRASHED)  # attempts that their code did not end itself


class Budgets:
    """S9 as far as it speaks of failures and of ``on_crash``."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._expect = ledger, ledger.expect
        self._started: set[tuple[UUID, Token]] = set()

    def seers(self) -> Seers:
        """Which events it looks at."""
        return {"handler.start": self._see_start, "job": self._see_row}

    def finish(self) -> None:
        """Nothing is left to be said."""

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
        # A store that has forgotten an outcome finds a job that runs, and nobody who knows of its code.
        was_cut = record in CUT_SHORT and (job, before.token) in self._started and not self._ledger.has_forgotten
        if was_cut and before.policy.on_crash is not CrashPolicy.RETRY:
            is_heeded = after.state is not State.AVAILABLE
            self._expect(
                "S9", is_heeded, job, "its code was cut short, its task says '{}', and it runs again", before.policy.on_crash
            )
