"""Code begins only for a job that its claim still owns. A write starts jobs whose claim its worker knows; others pay nothing."""

from uuid import UUID

from holdfast._core.job import PLACE_OF, Place, State, Token
from proof.checker.history import Event, JobRow, Phase
from proof.checker.verdicts import CheckContext, Seers


class Starts:
    """S26, the part of S1 on code that begins, and the part of S10 on claims, which no caller sends again."""

    def __init__(self, context: CheckContext) -> None:
        self._context, self._expect = context, context.expect
        self._rows: dict[UUID, JobRow] = {}
        self._known = set[tuple[UUID | None, Token | None]]()
        self._copied = set[UUID | None]()  # ids of claims that arrive twice: what the second copy takes is excused
        self._took_at = dict[UUID, float]()
        self._thawed_at: dict[str, float] = {}

    def seers(self) -> Seers:
        """Return the events that these rules read."""
        own: Seers = {
            "claim": self._see_claim,
            "claim.copied": self._see_copy,
            "job": self._see_row,
            "handler.start": self._see_start,
        }
        frozen: Seers = {"process.freeze": self._see_freeze, "process.thaw": self._see_thaw}
        return own | frozen

    def finish(self) -> None:
        """Nothing is left to be judged at the end."""

    def _see_claim(self, event: Event) -> None:
        if event.phase is Phase.OK:
            self._known.add((event.job, event.token))

    def _see_copy(self, event: Event) -> None:
        self._copied.add(None if event.token is None else event.token.claim)

    def _see_freeze(self, event: Event) -> None:
        self._thawed_at[event.process] = float("inf")

    def _see_thaw(self, event: Event) -> None:
        self._thawed_at[event.process] = event.time

    def _see_start(self, event: Event) -> None:
        context = self._context
        if event.job is None or not context.rules.is_timed or context.has_forgotten or event.process in context.apps:
            return
        # A process may be frozen between its last look at the clock and the first line of the code.
        if event.time - self._thawed_at.get(event.process, float("-inf")) <= context.rules.waking:
            return
        row = self._rows.get(event.job)
        is_owned = row is not None and PLACE_OF[row.state] is Place.ACTIVE and row.token == event.token
        self._expect("S1", is_owned, event.job, "code began under {}, which did not own the job any more", event.token)

    def _see_row(self, event: Event) -> None:
        if event.job is not None:
            if isinstance(event.after, JobRow):
                self._rows[event.job] = event.after
            else:
                self._rows.pop(event.job, None)
        before, after, by = event.before, event.after, event.by
        if not (isinstance(before, JobRow) and isinstance(after, JobRow)) or by is None:
            return
        if by.verb == "claim" and after.token.claim is not None and self._context.rules.claims_once:
            is_once = event.time == self._took_at.setdefault(after.token.claim, event.time) or after.token.claim in self._copied
            self._expect("S10", is_once, event.job, "{} took the job, and the same call has taken others before", after.token)
        if by.verb == "start_through" and before.state is State.CLAIMED:
            is_known = (event.job, before.token) in self._known or before.token.claim in self._copied
            self._expect("S26", is_known, event.job, "its worker started {} and has no answer of that claim", before.token)
        # A store that forgets may have forgotten its start.
        if before.state is State.CLAIMED and by.verb == "exchange" and not self._context.has_forgotten:
            spent = (after.attempt - before.attempt, after.crashes - before.crashes, after.failures - before.failures)
            self._expect("S26", spent == (0, 0, 0), event.job, "its code never ran, and it paid for {}", before.token)
