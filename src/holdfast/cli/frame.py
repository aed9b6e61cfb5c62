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
from holdfast._core.short_ids import SHORT
from holdfast._core.story_words import counted
from holdfast._core.text import printable
from holdfast._core.view import JobView
from holdfast.cli.fitted import fitted
from holdfast.cli.output import span
from holdfast.cli.remedies import here
from holdfast.cli.workers import condition
from holdfast.errors import Unsupported
from holdfast.settings import public_url

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from holdfast.app import App

BAR = 20
WIDE = 120
"""The columns from which on a bar has its whole width."""
LEAST: Final = dict.fromkeys(("queue", "task", "worker", "queues"), 12) | {"stage": 8, "message": 10, "last 15 min": 8}
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


class Look(Struct, frozen=True, kw_only=True):
    """How a frame is looked at. ``filter``: a part of the names that are shown; ``chosen``: the number of a running job; ``story``: the
    lines of a job's story, which stand in place of the tables."""

    hint: str = ""
    order: Order = "for"
    filter: str = ""
    chosen: int = 0
    story: tuple[str, ...] = ()


PLAIN: Final = Look()


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
        needs=tuple(structs.replace(each, step=here(each.step)) for each in seen.needs),
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


def draw(frame: Frame, look: Look = PLAIN, width: int = 160) -> "RenderableType":
    """Draw what needs you, queues, running jobs and workers for a terminal. Text that a job reports cannot control the terminal."""
    from rich.console import Group
    from rich.text import Text

    hint = [Text(look.hint, style="dim")] if look.hint else []
    if look.story:
        return Group(_title(frame), *hint, Text(), *(Text(line) for line in look.story))
    parts = [_title(frame), *hint, *_needs(frame), Text(), *_queues(frame, look, width), Text(), *_running(frame, look, width)]
    return Group(*parts, Text(), *_workers(frame, width))


def running_rows(frame: Frame, look: Look) -> list[RunningRow]:
    """Return the running jobs that a frame shows, in its order."""
    found = (job for job in frame.running if _matches(look, job.id, job.task, job.queue, job.worker, job.stage))
    return sorted(found, key=ORDERS[look.order])


def _matches(look: Look, *texts: str | None) -> bool:
    return any(look.filter.lower() in text.lower() for text in texts if text is not None)


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


def _lines(
    names: Sequence[str], rows: Sequence[Sequence[str]], width: int, left_out: Sequence[str], styles: Sequence[str]
) -> list["Text"]:
    """Return the lines of a table as wide as the terminal at most, each with its style: it is not read as rich's markup."""
    from rich.text import Text

    lines = fitted(names, rows, width, keep=names[:1], least=LEAST, left_out=left_out)
    return [Text(line, style=style, no_wrap=True) for line, style in zip(lines, ["bold", *styles], strict=True)]


def _workers(frame: Frame, width: int) -> list["Text"]:
    rows, styles = [], []
    for worker in frame.workers:
        running, ahead = worker.holds - worker.claimed, f" + {worker.claimed}" if worker.claimed else ""
        jobs = f"{running}/{worker.slots}{ahead}" if worker.slots else f"{running}{ahead}"
        queues = printable(", ".join(worker.queues)) or "all"
        rows.append([printable(worker.worker), condition(worker), jobs, queues, span(worker.age)])
        styles.append("red" if worker.overdue > 0 else "")
    return _lines(("worker", "state", "jobs", "queues", "age"), rows, width, ("queues", "age"), styles)


def _queues(frame: Frame, look: Look, width: int) -> list["Text"]:
    rows, styles = [], []
    for line in frame.queues:
        if not _matches(look, line.name):
            continue
        counts = (count_text(line, state) if line.counts.get(state) else "" for state in State)
        rate = ("–" if line.capped else "") if line.rate is None else f"{line.rate:.1f}"
        wait = "–" if line.wait_p99 is None else short_span(line.wait_p99)
        is_paused = line.paused_at is not None
        rows.append([printable(line.name), "paused" if is_paused else "open", rate, wait, sparkline(line.rates), *counts])
        styles.append("yellow" if is_paused else "")
    names = ("queue", "condition", "jobs/s", "wait p99", "last 15 min", *State)
    return _lines(names, rows, width, ("completed", "cancelled", "last 15 min", "wait p99", "blocked", "held", "claimed"), styles)


def count_text(queue: QueueView | QueueRow, state: State) -> str:
    """Return how many jobs of a queue are in a state."""
    count = queue.counts.get(state, 0)
    return at_least(count) if state in queue.capped and count else str(count)


def _running(frame: Frame, look: Look, width: int) -> list["Text"]:
    rows, styles, jobs = [], [], running_rows(frame, look)
    bar, ends = BAR if width >= WIDE else BAR // 2, {job.id[-SHORT:] for job in jobs}
    is_short = bool(look.hint) and len(ends) == len(jobs)  # a pipe gets whole ids
    for number, job in enumerate(jobs):
        shown = (printable(text) for text in (job.stage or "", job.message or "", job.worker or ""))
        id = job.id[-SHORT:] if is_short else job.id
        rows.append([id, printable(job.task), str(job.attempt), span(job.seconds), _bar(job.fraction, bar), *shown])
        styles.append("reverse" if look.hint and number == look.chosen else "")
    names = ("running", "task", "try", "for", "progress", "stage", "message", "worker")
    return _lines(names, rows, width, ("message", "worker", "stage", "try"), styles)


def _bar(fraction: float | None, width: int) -> str:
    if fraction is None:
        return ""
    full = round(min(1.0, max(0.0, fraction)) * width)
    return f"{'█' * full}{'░' * (width - full)} {fraction:4.0%}"


def sparkline(rates: Sequence[float]) -> str:
    """Draw rates as bars of eight heights, each a part of the highest one.

    >>> sparkline([0.0, 1.0, 4.0, 2.0])
    '▁▃█▅'
    """
    most = max(rates, default=0.0)
    return "".join(HEIGHTS[round(rate / most * (len(HEIGHTS) - 1)) if most else 0] for rate in rates)
