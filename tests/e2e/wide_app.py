"""A workflow whose first node releases many others at once; see ``jobs_app`` for how it is set up."""

from holdfast import Job, Workflow
from tests.e2e.jobs_app import FOLDER, app, journal

__all__ = ["app"]


@app.task(max_attempts=1)
async def begin(job: Job) -> None:
    """Fail as long as there is a file of this name."""
    journal.write(job, "start")
    if (FOLDER / "broken").exists():
        raise RuntimeError("broken")


@app.task(queue="later")
async def follow() -> None:
    """Do nothing, on another queue than the first node."""


@app.workflow(max_nodes=10_001)
def wide(w: Workflow, width: int) -> None:
    """Build a node, and many that wait for it."""
    first = w.add(begin.bind())
    for _ in range(width):
        w.add(follow.bind(), after=[first])
