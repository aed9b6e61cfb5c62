"""The analysis as a Holdfast task: it reports progress, saves checkpoints, and resumes at the last one."""

import asyncio
from collections.abc import Callable

from msgspec.structs import asdict

from holdfast import Job
from holdfast.demo.analysis import Analysis, Bookmark

Batching = Callable[[int], tuple[int, float]]
"""From the number of commits to how many are counted between two checkpoints, and for how many seconds to wait after each batch."""


async def analyze(
    job: Job, repo: str, out: str, max_commits: int = 1000, batch: int = 10, *, pace: float = 0.0
) -> dict[str, object]:
    """Count the lines per language of each commit of the repository at `repo`; write `out`/evolution.{json,csv,svg,png}.

    A killed analysis resumes at its last checkpoint, one every `batch` commits, each followed by a wait of `pace` seconds.
    """
    return await run(job, Analysis(repo, out, job=job.id, attempt=job.attempt), lambda commits: (batch, pace), most=max_commits)


async def run(job: Job, analysis: Analysis, batching: Batching, *, most: int = 1000) -> dict[str, object]:
    """Run an analysis in a job, for tasks that prepare it themselves. At most `most` commits are kept as rows."""
    try:
        mark = await asyncio.to_thread(analysis.resume, Bookmark.read(job.checkpoint_value))
        if mark is None:
            await job.progress(stage="clone", fraction=0.0, message=f"reading {analysis.name}")
            mark = await asyncio.to_thread(analysis.begin)
            await job.checkpoint(asdict(mark))
        await job.progress(stage="count", fraction=mark.fraction, message=_place(mark))
        batch, seconds = batching(mark.commits)
        while mark.next < mark.commits:
            mark = await asyncio.to_thread(analysis.count, mark, batch, most)
            await job.progress(stage="count", fraction=mark.fraction, message=_place(mark))
            await job.checkpoint(asdict(mark))
            await _pause(seconds)
        await job.progress(stage="report", fraction=0.95, message="writing the results")
        return await asyncio.to_thread(analysis.report, mark)
    finally:
        analysis.close()


def _place(mark: Bookmark) -> str:
    return f"commit {mark.next:,} of {mark.commits:,}"


async def _pause(seconds: float) -> None:
    # asyncio.sleep is reserved for the clock module; this wait paces a show and decides nothing
    await asyncio.wait((asyncio.get_running_loop().create_future(),), timeout=seconds)
