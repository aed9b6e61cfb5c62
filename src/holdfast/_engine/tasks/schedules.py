"""For ``app.schedule(…)``: what a user writes about a schedule, checked."""

from datetime import datetime
from typing import Any, Final, Literal

from msgspec import structs

from holdfast._core.durations import Duration, seconds
from holdfast._core.schedule import UNNUMBERED, DeclaredSchedule, Definition, Overlap
from holdfast._core.text import shortened
from holdfast._core.ticks import MOST_COUNTED, Cron, Every, When
from holdfast._engine.tasks.registry import NAME
from holdfast._engine.tasks.task import PreparedJob
from holdfast.errors import ConfigurationError

CatchUp = Literal["last", "none", "all"] | int
"""How many of the newest missed ticks fire: one, none, a hundred, or this number."""
OverlapName = Literal["skip", "queue", "cancel"]

_CATCH_UPS: Final = {"none": 0, "last": 1, "all": 100}


def declare(
    when: When,
    job: PreparedJob[Any],
    *,
    name: str | None = None,
    catch_up: CatchUp = "last",
    overlap: OverlapName = "skip",
    jitter: Duration | None = None,
    grace: Duration = "1m",
) -> DeclaredSchedule:
    """Check what the user wrote about a schedule, and return it; ``ConfigurationError`` with every problem found."""
    if not isinstance(job, PreparedJob):
        raise ConfigurationError([f"schedule: {job!r} is not a job: use task.bind(…) with the task's arguments"])
    called, problems = job.task.name if name is None else name, list[str]()
    if not isinstance(called, str) or not NAME.fullmatch(called):
        problems.append(f"schedule {shortened(repr(called))}: use a name of 1 to 200 letters, digits and _ . : -")
    if not isinstance(when, Every | Cron):
        problems.append(f"schedule {called}: {when!r} says no time: use every('5m') or cron('0 3 * * *')")
    options = job.options
    for option in ("unique_key", "unique_by", "run_at", "within", "after"):
        if getattr(options, option) is not None:
            problems.append(f"schedule {called}: {option} does not fit a schedule: each tick has its own job; leave it out")
    if job.task.definition.unique_by is not None:
        remedy = f"schedule a task without unique_by, whose code enqueues {job.task.name}"
        problems.append(f"schedule {called}: the jobs of ticks would not keep the unique_by of {job.task.name}: {remedy}")
    most = _CATCH_UPS.get(catch_up) if isinstance(catch_up, str) else catch_up
    if type(most) is not int or not 0 <= most <= MOST_COUNTED:
        problems.append(f"schedule {called}: catch_up={catch_up!r}: use 'last', 'none', 'all', or a number up to {MOST_COUNTED}")
    if overlap not in set(Overlap):
        problems.append(f"schedule {called}: overlap={overlap!r}: use one of {', '.join(Overlap)}")
    delay, tolerance = (_seconds(called, each, value, problems) for each, value in (("jitter", jitter), ("grace", grace)))
    if problems:
        raise ConfigurationError(problems)
    template = structs.replace(job.new_member(), id=UNNUMBERED)
    definition = Definition(
        when=when, job=template, catch_up=most or 0, overlap=Overlap(overlap), jitter=delay, grace=max(1.0, tolerance)
    )
    return DeclaredSchedule(called, definition)


def _seconds(name: str, option: str, value: Duration | None, problems: list[str]) -> float:
    try:
        return 0.0 if value is None else seconds(value)
    except ValueError as error:
        problems.append(f"schedule {name}: {option}: {error}")
        return 0.0


def text_of(tick: datetime) -> str:
    """Return a tick as events name it."""
    return f"{tick:%Y-%m-%dT%H:%M:%S}Z"
