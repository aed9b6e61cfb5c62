"""The App that the web server and the workers share: one task, which is the analysis of the demo with a careful clone."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from evolution_web.cloning import clone
from holdfast import App, Job, JobView
from holdfast.demo.analysis import Analysis, BadRepository, Bookmark
from holdfast.demo.task import run

HOME = Path(os.environ.get("EVOLUTION_HOME", "holdfast-evolution")).absolute()
BATCHES, MOST = 100, 700
app = App(os.environ.get("HOLDFAST_URL") or f"sqlite:///{HOME}/jobs.db")


@app.task(fail_for=(BadRepository,), progress_within="5m", timeout="30m", max_crashes=10)
async def evolve(job: Job, url: str, seconds: float = 0.0) -> dict[str, object]:
    """Analyze a repository in at most 100 batches, each with a checkpoint; ``seconds``: to wait in all, for visitors who want to watch."""
    analysis = Analysis(url, str(folder_of(job.id)), job=job.id, attempt=job.attempt, clone=clone)
    return await run(job, analysis, lambda commits: (batch := -(-commits // BATCHES), seconds / -(-commits // batch)), most=MOST)


def folder_of(job: UUID) -> Path:
    """Return where the results of a job are."""
    return HOME / "results" / str(job)


def series_of(job: JobView) -> dict[str, Any]:
    """Read the rows that the checkpoint covers, each with its position in the history; ``next`` of ``commits`` commits are counted."""
    mark, folder = Bookmark.read(job.checkpoint), folder_of(job.id)
    if mark is None:
        return {"rows": [], "places": [], "commits": 0, "next": 0}
    try:
        written = (folder / f".work-{job.id}" / mark.rows).read_bytes()[: mark.length]
        rows = [*map(json.loads, written.splitlines())]
    except FileNotFoundError:  # the results are written before it is removed
        rows = json.loads(path.read_bytes())["history"] if (path := folder / "evolution.json").exists() else []
    places = [min(number * -(-mark.commits // MOST) + 1, mark.commits) for number in range(len(rows))]
    return {"rows": rows, "places": places, "commits": mark.commits, "next": mark.next}


def note_kill(job: JobView) -> None:
    """Keep when an attempt was killed from its page, because the killed worker cannot report that."""
    with (folder_of(job.id) / "kills.jsonl").open("a") as file:
        print(json.dumps([job.attempt, datetime.now(UTC).timestamp()]), file=file)


def rescues_of(job: JobView, commits: int) -> list[dict[str, Any]]:
    """Return each lost attempt of a job, how much later after the kill the next one began, and at which commit."""
    kills, found, batch = folder_of(job.id) / "kills.jsonl", [], max(-(-commits // BATCHES), 1)
    killed_at = dict(map(json.loads, kills.read_text().splitlines())) if kills.exists() else {}
    runs: dict[int, Any] = {each.attempt: each for each in list[Any]([*job.attempts, job]) if each.started_at}
    for lost in job.attempts:
        if lost.outcome == "crashed":
            after, at = runs.get(lost.attempt + 1), killed_at.get(lost.attempt)
            later = max(after.started_at.timestamp() - at, 0.1) if after and at else None
            start = next((each.fraction for each in after.points if each.stage == "count"), None) if after else None
            commit = None if start is None else min(round((start - 0.05) / 0.9 * commits / batch) * batch, commits)
            found.append({"lost": lost, "later": later, "commit": commit, "is_over": after is not None})
    return found
