"""Which broker leads: what one of them concludes from the heads that it reads and from its own commits. Pure: clocks are arguments.

``monotonic`` stands still in suspend, so that a challenger waits longer. ``boottime`` goes on in suspend, so that a leader stops earlier.
"""

from enum import Enum
from typing import Final
from uuid import UUID

LEADER_TTL: Final = 12.0
"""The seconds for which the version must stand unchanged before another process may take over."""
RESERVE: Final = 2.0
"""The seconds by which a leader stops to answer from memory before another process may take over."""
HEARTBEAT: Final = 4.0
"""The seconds after a commit within which a leader makes another one."""
LOOK: Final = 2.0
"""The seconds between two looks of a standby."""


class Silence:
    """For how long a version has stood unchanged, as one process sees it."""

    def __init__(self) -> None:
        self._version = -1
        self._since = 0.0

    def observe(self, version: int, *, asked: float, received: float) -> bool:
        """Take a version as read; return whether it was the same one for so long that the leader has lost its leadership.

        ``asked`` and ``received``: when, on the monotonic clock. The version may have changed at any time between the two.
        """
        if version != self._version:
            self._version, self._since = version, received
        return asked - self._since >= LEADER_TTL


class Phase(Enum):
    """What a broker does. ``LAPSE``: it leads, as far as it knows, but may answer nothing before a commit of it has landed."""

    FOLLOW = "follow"
    CHALLENGE = "challenge"
    LEAD = "lead"
    LAPSE = "lapse"


class Election:
    """The part of one process: of a broker, whose id ``me`` is new with each start, or of a process that writes without a broker, which
    may challenge to depose a broker and never leads."""

    def __init__(self, me: UUID | None) -> None:
        self._me, self._silence = me, Silence()
        self.phase = Phase.FOLLOW
        self._epoch = -1
        self._until = float("-inf")
        self._is_in_doubt = False
        self._version = -1

    @property
    def leads(self) -> bool:
        """Whether no other broker was seen since this one took over."""
        return self.phase in (Phase.LEAD, Phase.LAPSE)

    def observe(self, version: int, epoch: int, broker: UUID | None, *, asked: float, received: float) -> None:
        """Take a head as read. Any other id or epoch ends the leadership; one's own id without leadership is a registration that came
        late, and needs a new epoch as every other does."""
        is_silent = self._silence.observe(version, asked=asked, received=received)
        if version != self._version:
            self._version, self._is_in_doubt = version, False  # no write that was composed on another version can land any more
        if self.leads and (epoch, broker) == (self._epoch, self._me):
            return
        is_free = broker is None or broker == self._me
        self.phase = Phase.CHALLENGE if is_free or is_silent else Phase.FOLLOW

    def land(self, version: int, epoch: int, *, sent: float) -> None:
        """Take a commit of this broker as landed, the takeover too. ``sent``: when it was sent, on the boottime clock."""
        self.phase, self._epoch, self._version, self._is_in_doubt = Phase.LEAD, epoch, version, False
        self._until = sent + LEADER_TTL - RESERVE

    def lose(self) -> None:
        """Take a registration as lost, or in doubt: it is made again only after another look."""
        self.phase = Phase.FOLLOW

    def doubt(self) -> None:
        """Take a commit as without an answer: until another one lands, it may still change what would be answered from memory."""
        self._is_in_doubt = True

    def has_lapsed(self, now: float) -> bool:
        """Return whether the leadership has ended by the boottime clock, and no commit has landed since."""
        if self.phase is Phase.LEAD and now >= self._until:
            self.phase = Phase.LAPSE
        return self.phase is Phase.LAPSE

    def may_answer(self, now: float) -> bool:
        """Return whether an answer from memory may leave now, on the boottime clock."""
        return not self.has_lapsed(now) and self.phase is Phase.LEAD and not self._is_in_doubt
