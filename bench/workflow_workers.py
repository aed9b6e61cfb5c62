"""What a node costs a worker with default settings, beside a plain job: the figure ``worker`` of ``bench.workflows``."""

from __future__ import annotations

import os
import subprocess
import sys

from bench.workflow_tasks import Tasks, define
from holdfast import App

KINDS = ("plain", "ordered", "typed")


def seconds_of(url: str, nodes: int, width: int, kind: str) -> float:
    """Return how long a worker takes for this number of jobs, from the first start to the last end.

    ``kind``: ``plain`` jobs; ``ordered`` nodes, in layers of which each node waits for three of the layer before; or ``typed`` ones, which
    take the results of those three.
    """
    app = App(url)
    app.migrate()
    tasks = define(app)
    if kind == "plain":
        tasks.plain.enqueue_many([{"number": number} for number in range(nodes)])
    else:
        _enqueue_layers(app, tasks, nodes, width, is_typed=kind == "typed")
    command = [sys.executable, "-m", "holdfast.cli", "worker", "bench.workflow_tasks:app", "--until-empty"]
    subprocess.run(
        [*command, "--log-level", "error"], env={**os.environ, "HOLDFAST_URL": url}, check=True, stderr=subprocess.PIPE
    )
    jobs = [job for task in (tasks.plain, tasks.joining) for job in app.jobs.list(task=task.name, limit=nodes + 1)]
    app.close()
    starts, ends = [job.started_at for job in jobs if job.started_at], [job.finished_at for job in jobs if job.finished_at]
    assert len(ends) == nodes, f"{len(ends)} of {nodes} jobs ended"
    return (max(ends) - min(starts)).total_seconds()


def _enqueue_layers(app: App, tasks: Tasks, nodes: int, width: int, *, is_typed: bool) -> None:
    with app.workflow("layers") as w:
        layer = [w.add(tasks.plain.bind(number)) for number in range(width)]
        for _ in range(nodes // width - 1):
            parents = [[layer[(place + step) % width] for step in range(3)] for place in range(width)]
            if is_typed:
                layer = [w.add(tasks.joining.bind(*(each.output for each in three))) for three in parents]
            else:
                layer = [w.add(tasks.plain.bind(place), after=three) for place, three in enumerate(parents)]
