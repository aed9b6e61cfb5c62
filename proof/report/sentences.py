"""The sentences of a story, each with its time and its weight. Repetitions are counted; the least important ones are left out."""

from collections.abc import Sequence

from msgspec import Struct

from holdfast._core.job import Token
from proof.checker.flow_rows import FlowRow, SignalRow, StepRow
from proof.checker.history import Event, ScheduleRow

LONGEST = 11  # sentences of a story
TOGETHER = 0.01  # seconds in which two events are one
MINOR, USUAL, VITAL = 1, 2, 3
BIRTH = "birth"  # begins the key of the sentence on how a job was enqueued; every story keeps that sentence


class Sentence(Struct):
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


class Sentences:
    """All sentences of a story, in order."""

    def __init__(self) -> None:
        self._sentences: list[Sentence] = []

    @property
    def last(self) -> Sentence | None:
        """The newest sentence, if any."""
        return self._sentences[-1] if self._sentences else None

    def find(self, key: str) -> Sentence | None:
        """Return the newest sentence with that key; a joined sentence has several keys."""
        return next((sentence for sentence in reversed(self._sentences) if key and key in sentence.key.split("|")), None)

    def append(self, sentence: Sentence) -> None:
        """Append a sentence, also if it repeats an earlier one."""
        self._sentences.append(sentence)

    def add(self, event: Event, text: str, weight: int = USUAL, *, key: str = "", token: Token | None = None) -> None:
        """Append the sentence of an event; if an earlier sentence has the same key, count a repetition of that instead."""
        known = self.find(key)
        if known is None:
            self.append(Sentence(event.time, text, weight, key, token or event.token))
        elif event.time - max(known.time, known.last) > TOGETHER:
            known.times, known.last = known.times + 1, event.time

    def forget(self, key: str) -> None:
        """Remove the sentences with that key, which a later event describes better."""
        self._sentences = [sentence for sentence in self._sentences if sentence.key != key]

    def lines(self, tokens: set[Token]) -> list[str]:
        """Return the lines of the story of these claims.

        Sentences before the first of these claims weigh little. Of the sentences that weigh least, the oldest are left out first.
        """
        sentences = self._sentences
        first = next((index for index, sentence in enumerate(sentences) if sentence.token in tokens), 0)
        weights = [_weight(sentence, tokens, is_early=index < first) for index, sentence in enumerate(sentences)]
        omitted = sorted(range(len(sentences)), key=lambda index: (weights[index], index))[: max(0, len(sentences) - LONGEST)]
        return list(_kept(sentences, set(omitted)))


def _weight(sentence: Sentence, tokens: set[Token], *, is_early: bool) -> int:
    if sentence.key.startswith(BIRTH):
        return VITAL
    if is_early:
        return MINOR
    return VITAL if sentence.token in tokens and sentence.weight == USUAL else sentence.weight


def _kept(sentences: Sequence[Sentence], omitted: set[int]) -> list[str]:
    lines = [sentence.line() for index, sentence in enumerate(sentences) if index not in omitted]
    if omitted:
        lines.insert(min(omitted), f"{'':13}… ({len(omitted)} of less weight left out)")
    return lines


def change_of_flow(event: Event, noun: str) -> str:
    """Return what becomes of a workflow, of a step or of a signal; ``noun``: the job, which is the root of the workflow."""
    match event.after:
        case FlowRow() as row:
            now = "is paused" if row.is_paused else "goes on" if row.ended_for is None else f"is cancelled: {row.ended_for}"
            return f"the workflow of {noun} {now}"
        case StepRow() as row:
            result = "records that its time is over" if row.result is None else f"returns {row.result}"
            return f"use {row.nth} of the step {row.name} of {noun} {result}"
        case SignalRow() as row:
            return f"the signal {row.name} is {'consumed by' if event.what == 'signal.taken' else 'kept for'} {noun}: {row.value}"
        case _:
            return f"the workflow of {noun} is gone"


def change_of_schedule(event: Event) -> str:
    """Return what a process does to a schedule, as the rest of a sentence that begins with the process."""
    name, row, verb = event.note, event.after, "" if event.by is None else event.by.verb
    if not isinstance(row, ScheduleRow):
        return f"removes schedule {name}"
    following = "it is paused" if row.is_paused else f"the next one is {row.next_at:%H:%M:%S.%f}"
    if verb == "advance" and row.last_tick is not None:
        return f"moves schedule {name} on from its tick {row.last_tick:%H:%M:%S.%f}, at {row.at:%H:%M:%S.%f}: {following}"
    return f"changes schedule {name} at {row.at:%H:%M:%S.%f}, whose last tick is {row.last_tick or 'none'}: {following}"
