"""The story of a job in a terminal: what happened, entry by entry."""

from collections.abc import Iterator
from datetime import datetime

from holdfast._core.durations import in_words
from holdfast._core.story import Story
from holdfast.cli.output import shown


def lines_of(story: Story) -> Iterator[str]:
    """Yield the summary, and what happened entry by entry: when, how long after the enqueue, and what."""
    yield shown(story.summary)
    yield ""
    for entry in story.entries:
        after = "" if entry.after is None else f"+{in_words(max(entry.after, 0.0))}"
        yield f"{_stamp(entry.at):<24} {after:>13}  {shown(entry.text)}".rstrip()


def _stamp(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}Z"
