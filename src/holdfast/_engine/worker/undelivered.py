"""Backups of unacknowledged outcomes with the supervisor, which delivers them if the worker dies."""

from collections.abc import Callable, Sequence
from uuid import UUID

from holdfast._core.job import Token
from holdfast._core.lifecycle import Transition
from holdfast._engine import messages

Keys = frozenset[tuple[UUID, Token]]


class OutcomeBackup:
    """The backup of one worker's outcomes, sent to its supervisor.

    It is sent when the store fails, and after a beat without an answer, because a call to the store may never end. A beat after their
    delivery the supervisor forgets them. Else it would send them again when the worker dies, and after the retention floor no store
    remembers that they were applied.
    """

    def __init__(self, send: Callable[[messages.Message], None]) -> None:
        self._send = send
        self._left = Keys()
        self._seen = Keys()

    def send(self, outcomes: Sequence[Transition]) -> None:
        """Send all these outcomes, unless the supervisor already has exactly these."""
        keys = _keys(outcomes)
        if keys != self._left:
            self._left = keys
            self._send(messages.UndeliveredOutcomes.of(outcomes))

    def send_stale(self, outcomes: Sequence[Transition]) -> None:
        """Send all these outcomes if one of them was also there at the last call, or one sent before is delivered; call it once a beat."""
        keys = _keys(outcomes)
        if keys & self._seen or self._left - keys:
            self.send(outcomes)
        self._seen = keys


def _keys(outcomes: Sequence[Transition]) -> Keys:
    return Keys((each.job, each.token) for each in outcomes)
