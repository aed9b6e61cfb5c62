"""The analysis as a Holdfast task: `register(app)` is all an application needs."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from analyzer.analysis import Request, analyze_repository
from analyzer.errors import BadRepository
from holdfast import App, Job, Task


async def analyze(
    job: Job, repo: str, out: str, max_commits: int | None = None, batch: int = 50, *, pace: float = 0.0, work: str | None = None
) -> dict[str, object]:
    """Analyze how the code of the git repository at `repo` (path or URL) evolved; write `out`/evolution.{json,csv,svg,png}.

    A killed analysis goes on at its last checkpoint, one every `batch` commits. Relative paths are the worker's.

    >>> analyze.enqueue(repo="https://github.com/pallets/flask", out="evolution", max_commits=500)   # doctest: +SKIP
    """
    request = Request(repo, out, max_commits, batch, pace, work)
    return await analyze_repository(job, request, sleep=_pause)


def register(app: App) -> Task[..., Coroutine[Any, Any, dict[str, object]], ...]:
    """Add `analyze` to an app; a bad repository fails at once, because trying again would not make it better.

    >>> analyze = register(App("sqlite:///jobs.db"))   # doctest: +SKIP
    """
    return app.task(name="analyze", fail_for=(BadRepository,), progress_within="5m")(analyze)


async def _pause(seconds: float) -> None:
    # asyncio.sleep is reserved for the clock module; this wait paces a show and decides nothing
    await asyncio.wait((asyncio.get_running_loop().create_future(),), timeout=seconds)
