"""For ``app.history()``: what workers did in the last day, in steps."""

from datetime import datetime, timedelta

from holdfast._core.durations import Duration, seconds
from holdfast._core.history import HISTORY_RETENTION, MINUTE, MOST_MINUTES, By, History, aligned, folded
from holdfast._engine.client.client import Client
from holdfast.errors import ConfigurationError


async def read_history(
    client: Client,
    *,
    since: datetime | Duration,
    until: datetime | None = None,
    step: Duration = MINUTE,
    queue: str | None = None,
    task: str | None = None,
    by: By | None = None,
) -> History:
    """Read the rows of a time, and add them up."""
    start, end, length = _checked(since, until, step, client.now())
    if by not in (None, "queue", "task"):
        raise ConfigurationError([f'by={by!r}: use "queue" or "task"'])
    found = await client.minutes(start, end + timedelta(seconds=2 * MINUTE), MOST_MINUTES)
    return folded(found, start, end, length, queue=queue, task=task, by=by)


def _checked(
    since: datetime | Duration, until: datetime | None, step: Duration, now: datetime
) -> tuple[datetime, datetime, float]:
    """Return the first and the last moment, and the length of a step; raise ``ConfigurationError`` with every problem."""
    problems = list[str]()
    length = back = MINUTE
    try:
        length = seconds(step)
    except ValueError as error:
        problems.append(f"step: {error}")
    if length < MINUTE or length % MINUTE or length > HISTORY_RETENTION:
        problems.append(f"step={step!r}: use whole minutes, up to a day")
        length = MINUTE
    problems += [
        f"{name}={value}: use a datetime with a time zone"
        for name, value in (("since", since), ("until", until))
        if isinstance(value, datetime) and value.tzinfo is None
    ]
    if not isinstance(since, datetime):
        try:
            back = seconds(since)
        except ValueError as error:
            problems.append(f"since: {error}")
    if problems:
        raise ConfigurationError(problems)
    end = aligned(until or now - timedelta(seconds=SETTLED), MINUTE)
    if isinstance(since, datetime):
        back = (end - since).total_seconds()
    steps = min(-(-back // length), HISTORY_RETENTION // length)
    return end - timedelta(seconds=max(0.0, steps) * length), end, length


SETTLED = 10.0
"""Seconds after which all supervisors have written a minute."""
