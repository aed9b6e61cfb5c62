"""One frame of ``holdfast top``: what is read for it, and how it is drawn."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct, structs

from holdfast._core.answers import LeaseView, QueueView
from holdfast._core.attempt_line import span as short_span
from holdfast._core.history import History
from holdfast._core.job import PLACE_OF, Place, State
from holdfast._core.overview import Need
from holdfast._core.queue_counts import at_least
from holdfast._core.story_words import counted
from holdfast._core.text import printable
from holdfast._core.view import JobView
from holdfast.cli.output import span
from holdfast.cli.workers import condition
from holdfast.errors import Unsupported
from holdfast.settings import public_url

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from holdfast.app import App

BAR = 20
MOST_RATES = 30
HEIGHTS = "▁▂▃▄▅▆▇█"

Order = Literal["for", "progress", "task"]


class RunningRow(Struct, frozen=True, kw_only=True):
    """A running job without its payload. ``seconds``: since it started."""

    id: str
    task: str
    queue: str
    worker: str | None
    attempt: int
    seconds: float | None
    stage: str | None
    fraction: float | None
    message: str | None

    @classmethod
    def of(cls, job: JobView, now: datetime) -> "RunningRow":
        """Take what a list may show of a job."""
        return cls(
            id=str(job.id),
            task=job.task,
            queue=job.queue,
            worker=job.worker,
            attempt=job.attempt,
            seconds=None if job.started_at is None else round(max(0.0, (now - job.started_at).total_seconds()), 1),
            stage=job.stage,
            fraction=job.fraction,
            message=job.message,
        )


ORDERS: Final[Mapping[Order, Callable[[RunningRow], Any]]] = {
    "for": lambda job: -(job.seconds or 0.0),
    "progress": lambda job: -(job.fraction or 0.0),
    "task": lambda job: (job.task, job.id),
}


class QueueRow(Struct, frozen=True, kw_only=True):
    """A queue. ``rate``, ``failed``: jobs that ended and that failed per second since the frame before; in the first, ``rate`` is that of
    the last full minute, if the store keeps a history.

    ``rates``: those of the last 15 minutes, or of the frames before if the store keeps no history, oldest first. ``wait_p99``: the seconds
    that 99 of 100 jobs waited less in these minutes. ``capped``: states of which not all jobs were counted: then it has no rate.
    """

    name: str
    paused_at: datetime | None
    counts: Mapping[State, int]
    rate: float | None = None
    failed: float | None = None
    rates: Sequence[float] = ()
    wait_p99: float | None = None
    capped: Sequence[State] = ()


class Frame(Struct, frozen=True, kw_only=True):
    """What ``top`` shows at one moment. ``needs``: what an operator should look at."""

    at: datetime
    store: str = ""
    needs: Sequence[Need] = ()
    workers: Sequence[LeaseView]
    queues: Sequence[QueueRow]
    running: Sequence[RunningRow]


def read(app: "App", wall: float, before: Frame | None = None) -> Frame:
    """Read the frame of this moment, ``wall`` seconds after the epoch; rates are counted since the frame before."""
    at = datetime.fromtimestamp(wall, UTC)
    known = {} if before is None else {line.name: line for line in before.queues}
    elapsed = 0.0 if before is None else (at - before.at).total_seconds()
    seen, last = app.overview(), _last_minutes(app)
    return Frame(
        at=at,
        store=public_url(app.settings.url),
        needs=seen.needs,
        workers=seen.workers,
        queues=[_with_history(_line(queue, known.get(queue.name), elapsed), last) for queue in seen.queues],
        running=sorted((RunningRow.of(job, at) for job in seen.running), key=ORDERS["for"]),
    )


def _line(queue: QueueView, before: QueueRow | None, elapsed: float) -> QueueRow:
    row = QueueRow(name=queue.name, paused_at=queue.paused_at, counts=queue.counts, capped=queue.capped)
    if before is None or elapsed <= 0 or queue.capped or before.capped:
        return row
    rate, failed = (
        round(max(0, count(queue.counts) - count(before.counts)) / elapsed, 1)
        for count in (_ended, lambda counts: counts.get(State.FAILED, 0))
    )
    return structs.replace(row, rate=rate, failed=failed, rates=(*before.rates, rate)[-MOST_RATES:])


def _last_minutes(app: "App") -> History | None:
    """Return the last 15 minutes of each queue, or nothing if the store keeps no history, or no worker has written any."""
    try:
        found = app.history(since="15m", by="queue")
    except Unsupported:
        return None
    return found if found.total.slots or found.groups else None


def _with_history(row: QueueRow, last: History | None) -> QueueRow:
    if last is None:
        return row
    steps, total = last.groups.get(row.name, ()), last.totals.get(row.name)
    rates = [round(step.rate, 2) for step in steps] or [0.0] * len(last.steps)
    rate = row.rate if row.rate is not None else rates[-1]
    return structs.replace(row, rate=rate, rates=rates, wait_p99=None if total is None else total.wait_p99)


def _ended(counts: Mapping[State, int]) -> int:
    return sum(count for state, count in counts.items() if PLACE_OF[state] is Place.FINISHED)


def draw(frame: Frame, hint: str = "", order: Order = "for") -> "RenderableType":
    """Draw what needs you, queues, running jobs and workers for a terminal. Text that a job reports cannot control the terminal."""
    from rich.console import Group
    from rich.text import Text

    parts = [_title(frame), *([Text(hint, style="dim")] if hint else []), *_needs(frame)]
    return Group(*parts, Text(), _queues(frame), Text(), _running(frame, order), Text(), _workers(frame))


def _title(frame: Frame) -> "Text":
    from rich.text import Text

    slots, busy = sum(worker.slots for worker in frame.workers), sum(worker.holds - worker.claimed for worker in frame.workers)
    parts = [
        Text("holdfast top", style="bold"),
        Text(printable(frame.store)),
        Text(f"{frame.at:%H:%M:%S}Z"),
        Text(f"● {counted(len(frame.workers), 'worker')}", style="" if frame.workers else "red"),
        Text(f"▶ {busy}/{slots}", style="blue"),
    ]
    if rates := [line.rate for line in frame.queues if line.rate is not None]:
        failed = sum(line.failed or 0.0 for line in frame.queues)
        parts += [Text(f"{sum(rates):.1f} ended/s"), Text(f"✕ {failed:.1f}/s", style="red" if failed else "")]
    return Text("  ").join(parts)


def _needs(frame: Frame) -> list["Text"]:
    from rich.text import Text

    return [
        Text.assemble(("! ", "bold yellow"), printable(need.text), "  ", (printable(need.step), "dim")) for need in frame.needs
    ]


def _table(*columns: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=True, overflow="ellipsis")
    return table


def _workers(frame: Frame) -> "Table":
    table = _table("worker", "state", "jobs", "queues", "age")
    for worker in frame.workers:
        running, ahead = worker.holds - worker.claimed, f" + {worker.claimed}" if worker.claimed else ""
        jobs = f"{running}/{worker.slots}{ahead}" if worker.slots else f"{running}{ahead}"
        style = "red" if worker.overdue > 0 else ""
        queues = printable(", ".join(worker.queues)) or "all"
        _add(table, printable(worker.worker), condition(worker), jobs, queues, span(worker.age), style=style)
    return table


def _queues(frame: Frame) -> "Table":
    table = _table("queue", "condition", "jobs/s", "wait p99", "last 15 min", *State)
    for line in frame.queues:
        is_paused = line.paused_at is not None
        counts = (count_text(line, state) if line.counts.get(state) else "" for state in State)
        rate = ("–" if line.capped else "") if line.rate is None else f"{line.rate:.1f}"
        state = "paused" if is_paused else "open"
        wait = "–" if line.wait_p99 is None else short_span(line.wait_p99)
        _add(table, printable(line.name), state, rate, wait, sparkline(line.rates), *counts, style="yellow" if is_paused else "")
    return table


def count_text(queue: QueueView | QueueRow, state: State) -> str:
    """Return how many jobs of a queue are in a state."""
    count = queue.counts.get(state, 0)
    return at_least(count) if state in queue.capped and count else str(count)


def _running(frame: Frame, order: Order) -> "Table":
    table = _table("running", "task", "try", "for", "progress", "stage", "message", "worker")
    for job in sorted(frame.running, key=ORDERS[order]):
        shown = (printable(text) for text in (job.stage or "", job.message or "", job.worker or ""))
        _add(table, job.id, printable(job.task), str(job.attempt), span(job.seconds), _bar(job.fraction), *shown)
    return table


def _add(table: "Table", *cells: str, style: str = "") -> None:
    """Add a row of plain text: it is not read as rich's markup."""
    from rich.text import Text

    table.add_row(*(Text(cell) for cell in cells), style=style)


def _bar(fraction: float | None) -> str:
    if fraction is None:
        return ""
    full = round(min(1.0, max(0.0, fraction)) * BAR)
    return f"{'█' * full}{'░' * (BAR - full)} {fraction:4.0%}"


def sparkline(rates: Sequence[float]) -> str:
    """Draw rates as bars of eight heights, each a part of the highest one.

    >>> sparkline([0.0, 1.0, 4.0, 2.0])
    '▁▃█▅'
    """
    most = max(rates, default=0.0)
    return "".join(HEIGHTS[round(rate / most * (len(HEIGHTS) - 1)) if most else 0] for rate in rates)
