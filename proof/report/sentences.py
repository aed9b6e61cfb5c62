"""The sentences of a story, each with its time and its weight: what is repeated is told once, what weighs least goes first."""

from collections.abc import Sequence

from msgspec import Struct

from holdfast._core.job import Token
from holdfast.testing.history import Event

LONGEST = 11  # sentences of a story
TOGETHER = 0.01  # seconds in which two events are one
MINOR, USUAL, VITAL = 1, 2, 3
BIRTH = "birth"  # begins the key of how a job came to be: no story begins later


class Beat(Struct):
    """One sentence."""

    time: float
    text: str
    weight: int = USUAL
    key: str = ""
    token: Token | None = None
    times: int = 1
    last: float = 0.0

    def line(self) -> str:
        """With its time."""
        more = f" ({self.times} times, until {self.last:.2f} s)" if self.times > 1 else ""
        return f"{self.time:9.2f} s  {self.text}{more}"


class Beats:
    """All of a story, in order."""

    def __init__(self) -> None:
        self._beats: list[Beat] = []

    @property
    def last(self) -> Beat | None:
        """The newest one."""
        return self._beats[-1] if self._beats else None

    def find(self, key: str) -> Beat | None:
        """The newest one with that key; one that was joined has several."""
        return next((beat for beat in reversed(self._beats) if key and key in beat.key.split("|")), None)

    def add(self, beat: Beat) -> None:
        """Another one, whatever was said before."""
        self._beats.append(beat)

    def say(self, event: Event, text: str, weight: int = USUAL, *, key: str = "", token: Token | None = None) -> None:
        """What an event comes to. With the key of an earlier one it only repeats that."""
        known = self.find(key)
        if known is None:
            self.add(Beat(event.time, text, weight, key, token or event.token))
        elif event.time - max(known.time, known.last) > TOGETHER:
            known.times, known.last = known.times + 1, event.time

    def forget(self, key: str) -> None:
        """It was said too early."""
        self._beats = [beat for beat in self._beats if beat.key != key]

    def lines(self, tokens: set[Token]) -> list[str]:
        """The story of these claims: what came before them counts little. Of what counts least the oldest goes first."""
        beats = self._beats
        first = next((place for place, beat in enumerate(beats) if beat.token in tokens), 0)
        weights = [_weight(beat, tokens, is_early=place < first) for place, beat in enumerate(beats)]
        doomed = sorted(range(len(beats)), key=lambda place: (weights[place], place))[: max(0, len(beats) - LONGEST)]
        return list(_told(beats, set(doomed)))


def _weight(beat: Beat, tokens: set[Token], *, is_early: bool) -> int:
    if beat.key.startswith(BIRTH):
        return VITAL
    if is_early:
        return MINOR
    return VITAL if beat.token in tokens and beat.weight == USUAL else beat.weight


def _told(beats: Sequence[Beat], doomed: set[int]) -> list[str]:
    lines = [beat.line() for place, beat in enumerate(beats) if place not in doomed]
    if doomed:
        lines.insert(min(doomed), f"{'':13}… ({len(doomed)} of less weight left out)")
    return lines
