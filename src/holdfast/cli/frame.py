"""One frame of ``holdfast top``: what is read for it, and how it is drawn."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast._core.answers import LeaseView, QueueView
from holdfast._core.job import PLACE_OF, Place, State
from holdfast._core.text import printable
from holdfast._core.view import JobView
from holdfast.cli.output import span
from holdfast.cli.workers import condition

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from holdfast.app import App

MOST_RUNNING = 100
BAR = 20


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


class QueueRow(Struct, frozen=True, kw_only=True):
    """A queue. ``rate``: jobs that ended in it per second since the frame before, ``None`` in the first."""

    name: str
    paused_at: datetime | None
    counts: Mapping[State, int]
    rate: float | None = None


class Frame(Struct, frozen=True, kw_only=True):
    """What ``top`` shows at one moment."""

    at: datetime
    workers: Sequence[LeaseView]
    queues: Sequence[QueueRow]
    running: Sequence[RunningRow]


def read(app: "App", wall: float, before: Frame | None = None) -> Frame:
    """Read the frame of this moment, ``wall`` seconds after the epoch; rates are counted since the frame before."""
    at = datetime.fromtimestamp(wall, UTC)
    known = {} if before is None else {line.name: line for line in before.queues}
    elapsed = 0.0 if before is None else (at - before.at).total_seconds()
    running = app.jobs.list(state=State.RUNNING, limit=MOST_RUNNING)
    return Frame(
        at=at,
        workers=app.workers.list(),
        queues=[_line(queue, known.get(queue.name), elapsed) for queue in app.queues.list()],
        running=sorted((RunningRow.of(job, at) for job in running), key=lambda job: -(job.seconds or 0.0)),
    )


def _line(queue: QueueView, before: QueueRow | None, elapsed: float) -> QueueRow:
    rate = None
    if before is not None and elapsed > 0:
        rate = round(max(0, _ended(queue.counts) - _ended(before.counts)) / elapsed, 1)
    return QueueRow(name=queue.name, paused_at=queue.paused_at, counts=queue.counts, rate=rate)


def _ended(counts: Mapping[State, int]) -> int:
    return sum(count for state, count in counts.items() if PLACE_OF[state] is Place.FINISHED)


def draw(frame: Frame, hint: str = "") -> "RenderableType":
    """Draw workers, queues and running jobs for a terminal. Text that a job reports cannot control the terminal."""
    from rich.console import Group
    from rich.text import Text

    ends = sum(line.rate or 0.0 for line in frame.queues)
    title = (
        f"holdfast top  {frame.at:%H:%M:%S}Z  workers: {len(frame.workers)}  running: {len(frame.running)}  jobs/s: {ends:.1f}"
    )
    parts = [Text(title, style="bold"), Text(hint, style="dim")] if hint else [Text(title, style="bold")]
    return Group(*parts, _workers(frame), Text(), _queues(frame), Text(), _running(frame))


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
    table = _table("queue", "condition", "jobs/s", *State)
    for line in frame.queues:
        is_paused = line.paused_at is not None
        counts = (str(line.counts.get(state, 0) or "") for state in State)
        rate = "" if line.rate is None else f"{line.rate:.1f}"
        _add(table, printable(line.name), "paused" if is_paused else "open", rate, *counts, style="yellow" if is_paused else "")
    return table


def _running(frame: Frame) -> "Table":
    table = _table("running", "task", "try", "for", "progress", "stage", "message")
    for job in frame.running:
        shown = (printable(text) for text in (job.stage or "", job.message or ""))
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
