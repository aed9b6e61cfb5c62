"""What the story of a job needs beside its row: the beats of the workers that had it."""

from datetime import datetime
from typing import Final

from holdfast._core.story_runs import StoryFacts
from holdfast._core.view import JobView
from holdfast._engine.operators.operators import Workers
from holdfast._engine.supervisor.beat_history import INTERVAL
from holdfast.errors import Unsupported

MOST_WORKERS: Final = 6
"""The most workers whose beats are read: those of the newest attempts."""


async def story_facts(workers: Workers, job: JobView, now: datetime) -> StoryFacts:
    """Read the beats of the workers that had the job for long enough to leave one, as far as the store keeps them."""
    had = [(each.worker, each.started_at, each.ended_at) for each in job.attempts]
    had.append((job.worker or "", job.started_at, job.finished_at))
    long = [worker for worker, begun, ended in had if begun and ((ended or now) - begun).total_seconds() >= INTERVAL and worker]
    beats = {}
    for worker in [*dict.fromkeys(reversed(long))][:MOST_WORKERS]:
        try:
            found = await workers.ahistory(worker)
        except Unsupported:
            break
        beats[worker] = tuple(sorted(beat.at for beat in found))
    return StoryFacts(beats=beats)
