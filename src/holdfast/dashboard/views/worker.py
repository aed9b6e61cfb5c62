"""The page of a worker: what it is, and its beats of the last 24 hours."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from holdfast._core.answers import BeatView, LeaseView
from holdfast._core.attempt_line import span
from holdfast._core.durations import in_words
from holdfast._core.story_words import counted
from holdfast.dashboard import charts
from holdfast.dashboard.actions import buttons
from holdfast.dashboard.charts import Chart, Range
from holdfast.dashboard.views.page import Asked, Page, jobs_where, message
from holdfast.errors import Unsupported
from holdfast.http.permissions import Action
from holdfast.http.resources import condition

DAY: Final = 86_400.0
STEP: Final = 900.0
MEGABYTE: Final = 1_000_000
HEADS: Final = ("from", "running", "held beside them", "slots", "memory", "longest loop lag", "longest silence")


class Quarter(Struct, frozen=True, kw_only=True):
    """The most of each figure in a quarter of an hour; ``None``: it is unknown."""

    at: datetime
    running: float | None = None
    claimed: float | None = None
    slots: float | None = None
    memory: float | None = None
    lag: float | None = None
    silence: float | None = None


async def worker(asked: Asked) -> Page:
    """Return the page of a worker, which may have ended since."""
    live = next((each for each in await asked.app.workers.alist() if each.worker == asked.id), None)
    try:
        beats = await asked.app.workers.ahistory(asked.id)
        nothing = "No beat of this worker was kept in the last 24 hours. One is kept each minute."
    except Unsupported:
        beats, nothing = [], "This store keeps no history of workers."
    if live is None and not beats:
        text = f"No worker is called {asked.id}."
        return message("No worker has this name", text, "Beats are kept for 24 hours.", status=404)
    found = quarters(beats, asked.now)
    values: dict[str, Any] = {
        "name": asked.id,
        "summary": _summary(live, beats, asked.now),
        "facts": _facts(live),
        "running": jobs_where(worker=asked.id),
        "buttons": [] if live is None or live.is_draining else buttons("worker", asked.id, asked.may, Action.DRAIN),
        "charts": _drawn(found, asked.now) if beats else [],
        "heads": HEADS,
        "rows": [_row(each) for each in reversed(found) if each.slots is not None],
        "nothing": nothing,
    }
    return Page(template="worker.html", title="Worker", section="/workers", values=values)


def quarters(beats: Sequence[BeatView], now: datetime) -> list[Quarter]:
    """Return the last 24 hours in quarters, oldest first."""
    since = now - timedelta(seconds=DAY)
    sorted_beats: list[list[BeatView]] = [[] for _ in range(int(DAY // STEP))]
    for beat in beats:
        place = int((beat.at - since).total_seconds() // STEP)
        if 0 <= place < len(sorted_beats):
            sorted_beats[place].append(beat)

    def most(found: Sequence[BeatView], of: Callable[[BeatView], float | None]) -> float | None:
        return max((value for each in found if (value := of(each)) is not None), default=None)

    return [
        Quarter(
            at=since + timedelta(seconds=STEP * place),
            running=most(found, lambda beat: beat.running),
            claimed=most(found, lambda beat: beat.claimed),
            slots=most(found, lambda beat: beat.slots),
            memory=most(found, lambda beat: beat.memory),
            lag=most(found, lambda beat: beat.loop_lag),
            silence=most(found, lambda beat: None if beat.answered_at is None else (beat.at - beat.answered_at).total_seconds()),
        )
        for place, found in enumerate(sorted_beats)
    ]


def _drawn(found: Sequence[Quarter], now: datetime) -> list[Chart]:
    shown = Range(now - timedelta(seconds=DAY), now, len(found))
    running, slots = [each.running for each in found], [each.slots for each in found]
    memory = [None if each.memory is None else each.memory / MEGABYTE for each in found]
    lag = [None if each.lag is None else each.lag * 1000 for each in found]
    about = "over the last 24 hours"
    return [
        charts.amounts(
            "Jobs running",
            shown,
            running,
            slots,
            figure=_last(running),
            unit=f"of {_last(slots)}",
            label=f"Jobs running {about}, at most {_most(running)}",
            names=("running", "slots"),
        ),
        charts.amounts(
            "Memory",
            shown,
            memory,
            None,
            figure=_last(memory),
            unit="MB",
            label=f"Memory {about}, at most {_most(memory)} MB",
            names=(),
        ),
        charts.amounts(
            "Loop lag",
            shown,
            lag,
            None,
            figure=_last(lag),
            unit="ms",
            label=f"How late the event loop answered {about}, at most {_most(lag)} ms",
            names=(),
        ),
    ]


def _last(values: Sequence[float | None]) -> str:
    return next((f"{value:,.0f}" for value in reversed(values) if value is not None), "–")


def _most(values: Sequence[float | None]) -> str:
    return f"{max((value for value in values if value is not None), default=0.0):,.0f}"


def _summary(live: LeaseView | None, beats: Sequence[BeatView], now: datetime) -> str:
    if live is None:
        return f"This worker has ended. Its last kept beat was {in_words((now - beats[0].at).total_seconds())} ago."
    ago = in_words(max(live.overdue + live.timing.ttl, 0.0))
    end = f"It is judged {in_words(-live.overdue)} from now unless another beat comes." if live.overdue <= 0 else "It is overdue."
    return f"This worker is {condition(live)} and holds {counted(live.holds, 'job')}. Its last beat was {ago} ago. {end}"


def _facts(live: LeaseView | None) -> list[tuple[str, str]]:
    if live is None:
        return []
    known = [("host", live.process.host), ("process", str(live.process.pid)), ("up", in_words(live.age))]
    return [*known, ("slots", str(live.slots)), ("queues", ", ".join(live.queues) or "all"), ("tasks", ", ".join(live.tasks))]


def _row(of: Quarter) -> list[str]:
    def number(value: float | None) -> str:
        return "–" if value is None else f"{value:,.0f}"

    memory = "–" if of.memory is None else f"{of.memory / MEGABYTE:,.0f} MB"
    times: list[Any] = [of.lag, of.silence]
    return [
        f"{of.at:%H:%M}",
        *(number(each) for each in (of.running, of.claimed, of.slots)),
        memory,
        *("–" if each is None else span(each) for each in times),
    ]
