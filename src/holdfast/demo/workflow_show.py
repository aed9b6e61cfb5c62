"""`holdfast demo --workflow`: three analyses and a report as a graph, of which one worker is killed."""

import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

from holdfast import App, NodeView, WorkflowHandle
from holdfast._system.clock import SystemClock, blocking_sleep
from holdfast.demo.app import Tasks, open_app, tasks_of
from holdfast.demo.sample import generate
from holdfast.demo.show import BATCHES, FINISHED, TIMEOUT, ShowFailed, Wishes
from holdfast.demo.supervisors import crews

GLANCE = 0.05
REPOSITORIES = {"api": 300, "web": 250, "core": 200}
"""The generated repositories, each with its number of commits."""


class WorkflowShow:
    """One run. ``say`` takes a line for an event; ``draw`` a picture of the graph, as often as it is looked at."""

    def __init__(self, wishes: Wishes, *, say: Callable[[str], None], draw: Callable[[str], None]) -> None:
        self._wishes, self._say, self._draw = wishes, say, draw
        self._now = SystemClock().monotonic
        self._attempts = dict[str, int]()
        self._lost: str | None = None
        self._killed_at = 0.0

    def run(self) -> Path:
        """Play it, and return the path of the report, beside which lies a picture of the graph. Raises ``ShowFailed``."""
        with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as name:
            folder, out = Path(name), (self._wishes.out / "workflow").absolute()
            for repository, commits in REPOSITORIES.items():
                generate(folder / f"{repository}.git", commits)
            self._say(f"three repositories, made to order: {', '.join(REPOSITORIES)}")
            url = self._wishes.url or f"sqlite:///{folder}/jobs.db"
            app, log = open_app(url, self._wishes.transport), folder / "workers.log"
            try:
                app.migrate()
                with crews(1, url, self._wishes.transport, processes=len(REPOSITORIES) + 1, concurrency=1, output=log):
                    handle = self._enqueue(app, tasks_of(app), folder, out)
                    self._watch(app, handle, log)
                return self._report(app, handle, out)
            finally:
                app.close()

    def _enqueue(self, app: App, tasks: Tasks, folder: Path, out: Path) -> WorkflowHandle[dict[str, object]]:
        """Store the graph: an analysis of each repository, and a report that takes the results of all."""
        with app.workflow("evolution") as w:
            found = {}
            for name, commits in REPOSITORIES.items():
                batch = max(1, -(-commits // BATCHES))
                pace = self._wishes.seconds * 0.7 / -(-commits // batch)
                repository = str(folder / f"{name}.git")
                job = tasks.analyze.bind(repo=repository, out=str(out / name), max_commits=commits, batch=batch, pace=pace)
                found[name] = w.add(job, name=f"analyze-{name}").output
            w.returns(w.add(tasks.compare.bind(out=str(out), **found), name="report"))
        self._say(f"enqueued workflow {w.handle.id}: {len(REPOSITORIES) + 1} nodes in one write")
        return w.handle

    def _watch(self, app: App, handle: WorkflowHandle[dict[str, object]], log: Path) -> None:
        """Draw the graph until it has ended; kill the worker of the first analysis that has saved some of its work."""
        drawn_at, moved_at = -1.0, self._now()
        while True:
            view = app.workflows.get(handle.id)
            if self._now() - drawn_at > 0.25 or view.state in FINISHED:
                drawn_at = self._now()
                self._draw(app.workflows.picture(handle.id))
            if self._tell_starts(app, view.nodes):
                moved_at = self._now()
            if view.state in FINISHED:
                return
            running = [node for node in view.nodes if node.state == "running"]
            for node in running:
                self._kill(app, node)
            if not running and self._now() - moved_at > TIMEOUT:
                end = log.read_text(errors="replace")[-2000:]
                raise ShowFailed(f"no worker took a node within {TIMEOUT:g} s; the end of their log:\n{end}")
            blocking_sleep(GLANCE)

    def _kill(self, app: App, node: NodeView) -> None:
        """Kill the worker of a node that has saved some of its work, if none has been killed yet."""
        if not self._wishes.kill or self._lost is not None:
            return
        job = app.jobs.get(node.job)
        owner = next((worker for worker in app.workers.list() if worker.worker == job.worker), None)
        if owner is None or job.fraction is None or not 0.3 <= job.fraction < 0.9:
            return
        os.kill(owner.process.pid, signal.SIGKILL)
        self._lost, self._killed_at = node.name, self._now()
        self._say(f"killed worker {owner.worker} (SIGKILL), which ran {node.name}")

    def _tell_starts(self, app: App, nodes: tuple[NodeView, ...]) -> bool:
        """Report nodes that have started since the last look; return whether there are any."""
        started = [node for node in nodes if node.attempt > self._attempts.get(node.name, 0)]
        for node in started:
            self._attempts[node.name] = node.attempt
            worker = app.jobs.get(node.job).worker
            after = f", {self._now() - self._killed_at:.2f} s after the kill" if node.name == self._lost else ""
            self._say(f"{node.name}: attempt {node.attempt} on worker {worker}{after}")
        return bool(started)

    def _report(self, app: App, handle: WorkflowHandle[dict[str, object]], out: Path) -> Path:
        view = app.workflows.get(handle.id)
        if view.state != "completed":
            raise ShowFailed(f"the workflow ended {view.state} ({view.reason}): {view.error}")
        (out / "workflow.svg").write_text(app.workflows.picture(handle.id, "svg"), encoding="utf-8")
        again = [node.name for node in view.nodes if node.attempt > 1]
        result = handle.result(timeout="10s")
        self._say(f"run again: {', '.join(again) or 'nothing'}; {result['lines']:,} lines in all")
        return Path(str(result["report"]))
