"""Outcomes that the store has not answered, left with the supervisor: they outlive their worker."""

from collections.abc import Callable, Sequence
from uuid import UUID

from holdfast._core.job import Token
from holdfast._core.lifecycle import Transition
from holdfast._engine import messages

Keys = frozenset[tuple[UUID, Token]]


class OutcomeBackup:
    """Sent up the pipe when the store fails, and after a beat without an answer, because it may be that no call ever ends."""

    def __init__(self, send: Callable[[messages.Message], None]) -> None:
        self._send = send
        self._left = Keys()
        self._seen = Keys()

    def send(self, outcomes: Sequence[Transition]) -> None:
        """All of them, unless the supervisor has just these."""
        keys = _keys(outcomes)
        if keys != self._left:
            self._left = keys
            self._send(messages.UndeliveredOutcomes.of(outcomes))

    def send_stale(self, outcomes: Sequence[Transition]) -> None:
        """Once a beat: all, if one was there the last time too."""
        keys = _keys(outcomes)
        if keys & self._seen:
            self.send(outcomes)
        self._seen = keys


def _keys(outcomes: Sequence[Transition]) -> Keys:
    return Keys((each.job, each.token) for each in outcomes)
