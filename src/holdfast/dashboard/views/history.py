"""The last hours as pages show them: read once a minute, drawn, and as a table beneath."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final
from weakref import WeakKeyDictionary

from holdfast._core.attempt_line import span
from holdfast._core.history import COMPLETED, MINUTE, By, History, HistoryStep, aligned
from holdfast._engine.operators.history import SETTLED
from holdfast.app import App
from holdfast.dashboard import charts
from holdfast.dashboard.charts import per_second
from holdfast.dashboard.views.page import Asked
from holdfast.errors import Unsupported

RANGES: Final[Mapping[str, str]] = {"1h": "1m", "6h": "5m", "24h": "15m"}
"""How far back a chart may go, and the length of its steps."""
NAMES: Final[Mapping[str, str]] = {"1h": "hour", "6h": "6 hours", "24h": "24 hours"}
SHORT: Final = "15m"
"""The time of the figures of each queue."""
HEADS: Final = (
    *("from", "completed /s", "failed /s", "retried /s", "other /s", "rescued"),
    *("wait median", "wait p99", "run median", "run p99", "slots in use", "slots"),
)

_read: "WeakKeyDictionary[App, dict[tuple[str, str, By | None], History]]" = WeakKeyDictionary()


async def history_of(asked: Asked, since: str, step: str, by: By | None = None) -> History | None:
    """Return the history, which changes once a minute and so is read no more often; ``None`` if the store keeps none."""
    kept = _read.setdefault(asked.app, {})
    key = since, step, by
    now = asked.now.astimezone()
    if (found := kept.get(key)) is not None and found.until == aligned(now - timedelta(seconds=SETTLED), MINUTE):
        return found
    try:
        kept[key] = await asked.app.ahistory(since=since, step=step, by=by)
    except Unsupported:
        return None
    return kept[key]


def range_of(asked: Asked) -> str:
    """Return how far back the reader wants to look."""
    given = asked.query.get("range", "")
    return given if given in RANGES else "1h"


async def last_hours(asked: Asked) -> dict[str, Any]:
    """Return the charts of the overview, and what the rest of the page takes from the same rows."""
    chosen = range_of(asked)
    history = await history_of(asked, chosen, RANGES[chosen])
    recent = await history_of(asked, SHORT, SHORT, "queue")
    if history is None or recent is None:
        return {"charts": [], "range": chosen, "flow": None, "of_queues": {}, "figures": None, "nothing": _UNKNOWN}
    is_empty = not any(step.slots or step.ended for step in history.steps)
    name = NAMES[chosen]
    drawn = [] if is_empty else [draw(history, name) for draw in (charts.ended, charts.waiting, charts.slots)]
    return {
        "charts": drawn,
        "range": chosen,
        "flow": None if is_empty else _flow(history, name),
        "of_queues": recent.totals,
        "figures": {"heads": HEADS, "rows": [figures(step) for step in reversed(history.steps) if step.slots or step.ended]},
        "nothing": f"There is nothing to draw of the last {name}. Charts begin a minute after a worker starts.",
    }


_UNKNOWN: Final = "This store keeps no history, so there are no charts."


def _flow(history: History, name: str) -> dict[str, str]:
    """Return the rates of the last step, and what came back during the whole time."""
    last, total = history.steps[-1], history.total
    rates = {"retried": total.retried} | {word: total.ended.get(word, 0.0) for word in ("snoozed", "released")}
    back = [f"{per_second(rate)} /s {word}" for word, rate in rates.items() if rate]
    return {
        "started": f"{per_second(last.started)} /s",
        "ended": f"{per_second(last.rate)} /s",
        "back": " · ".join(back),
        "rescued": f"{total.rescued:,} rescued in the last {name}" if total.rescued else "",
    }


def figures(step: HistoryStep) -> Sequence[str]:
    """Return a step as a row of the table."""
    times = (step.wait_p50, step.wait_p99, step.run_p50, step.run_p99)
    return (
        f"{step.at:%H:%M}",
        per_second(step.ended.get(COMPLETED, 0.0)),
        per_second(charts.failed(step)),
        per_second(step.retried),
        per_second(charts.others(step)),
        f"{step.rescued:,}",
        *("–" if each is None else span(each) for each in times),
        f"{step.in_use:.1f}",
        f"{step.slots:.0f}",
    )
