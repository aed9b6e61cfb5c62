"""Where a worker's next claim goes on: round the lanes, and from the lanes without a limit to those with one and back."""

from holdfast._core.answers import ExchangeAnswer
from holdfast._core.lanes import Cursor
from holdfast._core.requests import ClaimKind, ClaimRequest


class ClaimTurns:
    """The cursor of each kind of claim, and which kind is next. Delivered jobs are claimed beside these turns."""

    def __init__(self) -> None:
        self._cursors: dict[ClaimKind, Cursor] = {}
        self._exhausted = set[ClaimKind]()
        self.has_limited = False
        """Whether limits count waiting jobs."""
        self.kind = ClaimKind.PLAIN

    @property
    def cursor(self) -> Cursor:
        """The cursor of the next claim."""
        return self._cursors.get(self.kind, ())

    @property
    def cursor_ahead(self) -> Cursor:
        """The cursor of a claim of jobs that start later: it takes none that limits count."""
        return self._cursors.get(ClaimKind.PLAIN, ())

    @property
    def asks_again(self) -> bool:
        """Whether jobs may be due in lanes that no claim has looked at since the last rest."""
        kinds = ClaimKind if self.has_limited else (ClaimKind.PLAIN,)
        return not self._exhausted.issuperset(kinds)

    def answered(self, request: ClaimRequest, answer: ExchangeAnswer, *, frees: bool = False) -> None:
        """Go on from the answer of a claim. Claims of both kinds alternate while there are limits.

        ``frees``: the same write has settled jobs, so limits that were full may have free slots: this worker uses them at once.
        A claim of jobs that start later and took none does not count as a turn: it may leave out kinds of handlers.
        """
        if frees:
            self._exhausted.discard(ClaimKind.LIMITED)
        self.has_limited = answer.has_limited
        if request.prefetch and not answer.claims:
            return
        self._cursors[request.kind] = answer.cursor
        is_exhausted = answer.is_whole and len(answer.claims) < request.room
        (self._exhausted.add if is_exhausted else self._exhausted.discard)(request.kind)
        is_next_limited = self.has_limited and request.kind is ClaimKind.PLAIN
        self.kind = ClaimKind.LIMITED if is_next_limited else ClaimKind.PLAIN

    def rest(self) -> None:
        """Forget what was looked at: the worker waits now, and new jobs may come to any lane."""
        self._exhausted.clear()
