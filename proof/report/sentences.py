"""The sentences of a story, each with its time and its weight: repetitions are counted, and the least important are left out."""

from collections.abc import Sequence

from msgspec import Struct

from holdfast._core.job import Token
from holdfast.testing.history import Event

LONGEST = 11  # sentences of a story
TOGETHER = 0.01  # seconds in which two events are one
MINOR, USUAL, VITAL = 1, 2, 3
BIRTH = "birth"  # begins the key of the sentence on how a job was enqueued: every story keeps it


class Beat(Struct):
    """One sentence of a story."""

    time: float
    text: str
    weight: int = USUAL
    key: str = ""
    token: Token | None = None
    times: int = 1
    last: float = 0.0

    def line(self) -> str:
        """Return the sentence with its time, and how often it repeats."""
        more = f" ({self.times} times, until {self.last:.2f} s)" if self.times > 1 else ""
        return f"{self.time:9.2f} s  {self.text}{more}"


class Beats:
    """All sentences of a story, in order."""

    def __init__(self) -> None:
        self._beats: list[Beat] = []

    @property
    def last(self) -> Beat | None:
        """The newest sentence, if any."""
        return self._beats[-1] if self._beats else None

    def find(self, key: str) -> Beat | None:
        """Return the newest sentence with that key; a joined sentence has several keys."""
        return next((beat for beat in reversed(self._beats) if key and key in beat.key.split("|")), None)

    def add(self, beat: Beat) -> None:
        """Append a sentence, also if it repeats an earlier one."""
        self._beats.append(beat)

    def say(self, event: Event, text: str, weight: int = USUAL, *, key: str = "", token: Token | None = None) -> None:
        """Append the sentence of an event; if an earlier sentence has the same key, count a repetition of that instead."""
        known = self.find(key)
        if known is None:
            self.add(Beat(event.time, text, weight, key, token or event.token))
        elif event.time - max(known.time, known.last) > TOGETHER:
            known.times, known.last = known.times + 1, event.time

    def forget(self, key: str) -> None:
        """Remove the sentences with that key, which a later event describes better."""
        self._beats = [beat for beat in self._beats if beat.key != key]

    def lines(self, tokens: set[Token]) -> list[str]:
        """Return the lines of the story of these claims.

        Sentences before the first of these claims weigh little. Of the sentences that weigh least, the oldest are left out first.
        """
        beats = self._beats
        first = next((index for index, beat in enumerate(beats) if beat.token in tokens), 0)
        weights = [_weight(beat, tokens, is_early=index < first) for index, beat in enumerate(beats)]
        omitted = sorted(range(len(beats)), key=lambda index: (weights[index], index))[: max(0, len(beats) - LONGEST)]
        return list(_kept(beats, set(omitted)))


def _weight(beat: Beat, tokens: set[Token], *, is_early: bool) -> int:
    if beat.key.startswith(BIRTH):
        return VITAL
    if is_early:
        return MINOR
    return VITAL if beat.token in tokens and beat.weight == USUAL else beat.weight


def _kept(beats: Sequence[Beat], omitted: set[int]) -> list[str]:
    lines = [beat.line() for index, beat in enumerate(beats) if index not in omitted]
    if omitted:
        lines.insert(min(omitted), f"{'':13}… ({len(omitted)} of less weight left out)")
    return lines
