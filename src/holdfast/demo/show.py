"""`holdfast demo`: an analysis whose worker is killed half-way, printed as it happens."""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from msgspec import Struct

from holdfast import App, JobView
from holdfast._system.clock import SystemClock, blocking_sleep
from holdfast.demo.analysis import BadRepository, Bookmark, git, is_url, locate, repository_name
from holdfast.demo.app import TTL, is_served, open_app
from holdfast.demo.sample import generate
from holdfast.demo.supervisors import Crew, crews

FEWEST_COMMITS = 20
MOST_COMMITS = 1000
BATCHES = 40
GLANCE, TIMEOUT = 0.02, 60.0
FINISHED = ("completed", "failed", "cancelled")


class Wishes(Struct, frozen=True, kw_only=True):
    """What the user asked for. ``url=None``: a temporary SQLite store."""

    repo: str | None = None
    url: str | None = None
    transport: str | None = None
    out: Path = Path("holdfast-demo")
    seconds: float = 12.0
    kill: bool = True


class ShowFailed(Exception):
    """The show cannot go on; the message names the cause and the remedy."""


class Show:
    """One run. ``say`` takes a line for an event; ``draw`` the job's progress, as often as it is looked at."""

    def __init__(self, wishes: Wishes, *, say: Callable[[str], None], draw: Callable[[JobView], None]) -> None:
        self._wishes, self._say, self._draw = wishes, say, draw
        self._now = SystemClock().monotonic

    def run(self) -> Path:
        """Play it, and return the path of the chart: a PNG if matplotlib is installed, else an SVG. Raises ``ShowFailed``."""
        if (self._wishes.url or "").startswith("memory:"):
            raise ShowFailed("memory:// lives inside one process, and the demo's workers are others: leave --url out")
        if shutil.which("git") is None:
            raise ShowFailed("git is not installed: the demo analyzes a git repository")
        with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
            repository, name, commits = self._repository(Path(folder))
            out = (self._wishes.out / name).absolute()
            view = self._play(Path(folder), repository, out, min(commits, MOST_COMMITS))
        if view.state != "completed":
            raise ShowFailed(f"the analysis ended {view.state} ({view.reason}): {view.error.message if view.error else ''}")
        self._tell_timeline(view)
        chart = out / "evolution.png"
        return chart if chart.exists() else chart.with_suffix(".svg")

    def _play(self, folder: Path, repository: str, out: Path, commits: int) -> JobView:
        """Play from the first worker's start to the job's end."""
        url, transport = self._wishes.url or f"sqlite:///{folder}/jobs.db", self._wishes.transport
        app, output = open_app(url, transport), folder / "workers.log"
        try:
            app.migrate()
            count = self._tell_stage(url)
            with crews(count, url, transport, processes=2 // count, output=output) as ours:
                job = self._enqueue(app, repository, out, commits)
                return self._watch(app, job, ours, output)
        finally:
            app.close()

    def _tell_stage(self, url: str) -> int:
        """Return how many supervisors there are."""
        if not is_served(url):
            return 1
        self._say(f"two supervisors, each as if on a separate machine: only the ttl of {TTL} shows that one is dead")
        return 2

    def _repository(self, folder: Path) -> tuple[str, str, int]:
        """Choose the repository: the one asked for, the one of the current folder, or a generated one."""
        asked = self._wishes.repo
        try:
            where = locate("." if asked is None else asked)
        except BadRepository as error:
            if asked is not None:
                raise ShowFailed(str(error)) from None
            where = ""
        if where == asked and is_url(where):
            return where, repository_name(where), MOST_COMMITS
        commits = _count_commits(where) if where else 0
        if commits >= FEWEST_COMMITS:
            self._say(f"repository {where}: {commits} commits")
            return where, repository_name(where), commits
        why = f"{where} has {commits} commits, fewer than {FEWEST_COMMITS}" if where else "there is no repository here"
        self._say(f"{why}: made one with 400 commits")
        generate(folder / "sample.git", 400)
        return str(folder / "sample.git"), "sample", 400

    def _enqueue(self, app: App, repository: str, out: Path, commits: int) -> UUID:
        batch = max(1, -(-commits // BATCHES))
        pace = self._wishes.seconds * 0.7 / -(-commits // batch)
        self._say(f"paced to about {self._wishes.seconds:g} s: a checkpoint every {batch} commits, then a wait of {pace:.2f} s")
        handle = app.enqueue("analyze", repo=repository, out=str(out), max_commits=commits, batch=batch, pace=pace)
        self._say(f"enqueued job {handle.id}")
        return handle.id

    def _watch(self, app: App, job: UUID, ours: Sequence[Crew], log: Path) -> JobView:
        """Look at the job until it has ended; kill its first owner once it has saved half of its work."""
        killed_at: float | None = None
        looked = -1.0
        seen_attempt = 0
        waiting_since = self._now()
        while True:
            view = app.jobs.get(job)
            if self._now() - looked > 0.25 or view.state in FINISHED:
                looked = self._now()
                self._draw(view)
            if view.attempt > seen_attempt:
                self._tell_start(view, seen_attempt, killed_at)
                seen_attempt, waiting_since = view.attempt, self._now()
            if view.state in FINISHED:
                return view
            if view.attempt == 1 and killed_at is None and self._wishes.kill and (mark := _half_way(view)):
                killed_at = self._kill(app, ours, view, mark)
                waiting_since = self._now()
            if view.state not in ("running",) and self._now() - waiting_since > TIMEOUT:
                raise ShowFailed(
                    f"no worker took the job within {TIMEOUT:g} s; the end of their log:\n{log.read_text(errors='replace')[-2000:]}"
                )
            blocking_sleep(GLANCE)

    def _kill(self, app: App, ours: Sequence[Crew], view: JobView, mark: Bookmark) -> float | None:
        owner = next((worker for worker in app.workers.list() if worker.worker == view.worker), None)
        if owner is None:
            return None
        output = f"killed worker {owner.worker} (SIGKILL) at {mark.fraction * 100:.0f} %"
        if len(ours) == 1:
            os.kill(owner.process.pid, signal.SIGKILL)
            self._say(output)
            return self._now()
        crew = next(crew for crew in ours if crew.has(owner.process.pid))
        many = crew.kill()
        self._say(output)
        self._say(f"killed its supervisor {crew.pid} with it, {many} processes in all: none is left there to report it")
        return self._now()

    def _tell_start(self, view: JobView, before: int, killed_at: float | None) -> None:
        if before == 0 or killed_at is None:
            self._say(f"worker {view.worker} runs attempt {view.attempt}")
            return
        self._say(f"rescued by worker {view.worker} after {self._now() - killed_at:.2f} s: attempt {view.attempt}")
        if (mark := Bookmark.read(view.checkpoint)) is not None:
            self._say(f"resumed from checkpoint: commit {mark.next} of {mark.commits} ({mark.fraction * 100:.0f} %)")

    def _tell_timeline(self, view: JobView) -> None:
        started = min((a.started_at for a in view.attempts if a.started_at is not None), default=view.started_at)
        if started is None or view.finished_at is None:
            return
        whole = max((view.finished_at - started) / timedelta(seconds=1), 0.001)
        self._say(f"timeline ({whole:.1f} s)")
        rows = [(a.attempt, a.worker, str(a.outcome), a.signal, a.started_at, a.ended_at) for a in view.attempts]
        rows = rows or [(view.attempt, view.worker or "", "completed", None, view.started_at, view.finished_at)]
        for attempt, worker, outcome, why, begin, end in rows:
            if begin is None or end is None:
                continue
            left = (begin - started) / timedelta(seconds=1)
            right = (end - started) / timedelta(seconds=1)
            bar = _bar(left / whole, right / whole)
            self._say(f"  attempt {attempt} {bar} {left:4.1f}-{right:4.1f} s {why or outcome}  {worker}")


def _bar(left: float, right: float, width: int = 40) -> str:
    begin = min(int(left * width), width - 1)
    end = max(begin + 1, round(right * width))
    return "·" * begin + "█" * (end - begin) + "·" * (width - end)


def _half_way(view: JobView) -> Bookmark | None:
    """Return the checkpoint, if it was saved in the middle of the work."""
    mark = Bookmark.read(view.checkpoint)
    return mark if view.state == "running" and mark is not None and 0.45 <= mark.fraction <= 0.6 else None


def _count_commits(repository: str) -> int:
    try:
        return int(git("-C", repository, "rev-list", "--count", "--first-parent", "HEAD"))
    except BadRepository:
        return 0
