"""The story of a job that real processes lose: killed, frozen, and answered too late."""

import asyncio
import html
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from msgspec import convert

from holdfast import JobView
from holdfast._core.story import Story, story_of
from holdfast._core.story_words import Kind
from holdfast.dashboard import Dashboard
from proof.checker import history_sqlite
from tests.dashboard.browser import ask
from tests.e2e.fleet import HOLDFAST, START, Fleet, fleet, thaw
from tests.e2e.server_site import ON_BOTH
from tests.e2e.waiting import until

ACTIVE_SESSIONS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid() AND backend_type = 'client backend'
    AND wait_event IS DISTINCT FROM 'ClientRead'
"""
"""Sessions at work. One that waits for the rest of a request of a frozen worker is not."""


@contextmanager
def unsettled(ships: Fleet, job: UUID) -> Iterator[None]:
    """Keep the job from being settled: by the lock of the file, or by a lock of its row on a server, which a worker asks for again."""
    if ships.url.startswith("sqlite:"):
        with history_sqlite.opened(ships.folder / "jobs.db") as blocker:
            blocker.execute("BEGIN IMMEDIATE")
            yield
        return
    with psycopg.connect(ships.url) as blocker, psycopg.connect(ships.url, autocommit=True) as looker:
        blocker.execute("SELECT FROM holdfast.active WHERE id = %s FOR KEY SHARE", [job])
        yield
        # What a frozen worker has sent is answered before its row is free.
        until(lambda: not looker.execute(ACTIVE_SESSIONS).fetchall(), within=START)


def lost_twice(ships: Fleet) -> JobView:
    """Run a job whose first worker is killed, and whose second one is frozen and answers once its job has been taken from it."""
    crew = ships.crew()
    job = ships.enqueue("narrate")
    os.kill(ships.entry(job, "reported")["pid"], signal.SIGKILL)
    ships.entry(job, "reported", number=2)
    with unsettled(ships, job):
        ships.open("gate-2")
        ships.entry(job, "end")
        frozen = crew.freeze()
    ships.crew()
    ships.entry(job, "reported", number=3)
    thaw(frozen)
    until(lambda: any(each.late_result for each in ships.view(job).attempts), within=START)
    ships.open("gate-3")
    return ships.until_state(job, "completed", within=START)


def shown(ships: Fleet, job: JobView, *options: str) -> str:
    """Return what ``jobs show`` prints."""
    command = [sys.executable, *HOLDFAST, "jobs", "show", str(job.id), "--url", ships.url, *options]
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"}).stdout


@ON_BOTH
@pytest.mark.prove
def test_a_job_that_was_killed_frozen_and_answered_late_has_one_story_on_page_terminal_and_json(
    tmp_path: Path, store_url: str
) -> None:
    with fleet(tmp_path, url=store_url, ttl="3s", recovery="0.5s") as ships:
        job = lost_twice(ships)
        first, second, _ = (each.worker for each in job.attempts)
        host = first.rsplit("-", 2)[0]
        one, two = (f"supervisor {host}-{crew.pid}" for crew in ships.crews)
        story = convert(json.loads(shown(ships, job, "--json"))["story"], Story)
        texts = [entry.text for entry in story.entries]
        assert texts[:-1] == [
            "Enqueued to queue default",
            f"Attempt 1 on {first}",
            "Stage clone",
            "Stage analyze",
            "Last progress: analyze, 52 %",
            "Killed: SIGKILL, at 52 %",
            f"Rescued by {one}: the job returned to its queue, crash 1 of 3",
            f"Attempt 2 on {second}",
            "Stage analyze",
            "Last progress: analyze, 71 %",
            "Lost: its worker stopped renewing its lease, and the lease ran out, at 71 %",
            f"Rescued by {two}: the job returned to its queue, crash 2 of 3",
            f"Attempt 3 on {job.worker}, isolated, because one more crash ends the job",
            "Stage analyze",
            "Stage chart",
            f"Late result of attempt 2 refused, and kept: the job had been taken from {second}",
        ]
        assert re.fullmatch(r"Completed after .+ s of work in three attempts", texts[-1])
        assert story.summary.endswith(
            "Attempt 1 was killed by SIGKILL at 52 % and attempt 2 was lost when the lease of its worker ran out at 71 %. "
            "What attempt 2 answered too late was refused and is kept."
        )
        assert [(lane.ending, lane.rescue, [point.fraction for point in lane.points]) for lane in story.lanes] == [
            (Kind.KILLED, f"rescued by {host}, crash 1 of 3", [0.05, 0.52]),
            (Kind.SILENT, f"rescued by {host}, crash 2 of 3", [0.6, 0.71]),
            (Kind.COMPLETED, "", [0.8, 1.0]),
        ]
        silence = (story.lanes[1].ends or 0.0) - (story.lanes[1].silent_from or 0.0)
        assert silence > 3 - 2 * 0.6  # the lease ends 3 s after its last beat; the last report may have come after that beat
        begins, late_at, ends = story.lanes[2].begins, story.lanes[1].late_at, story.lanes[2].ends
        assert None not in (begins, late_at, ends)
        assert (begins or 0.0) < (late_at or 0.0) < (ends or 0.0)  # it came while the third attempt ran
        assert story == story_of(job, job.attempts, job.finished_at or job.created_at)

        printed, page = shown(ships, job), asyncio.run(ask(Dashboard(ships.app), f"/jobs/{job.id}")).body
        for text in (story.summary, *texts, *(lane.note for lane in story.lanes)):
            assert text in printed
            assert text in html.unescape(page)
        overview = html.unescape(asyncio.run(ask(Dashboard(ships.app), "/")).body)
        assert f"on {second} was lost when the lease of its worker ran out at 71 %" in overview
        log = ships.crews[0].log_text()
        line = (
            rf"narrate {job.id.hex[-6:]} taken from {first} \(SIGKILL\) at 52 %, back in its queue after [\d.]+ m?s, crash 1 of 3"
        )
        assert re.search(line, log)
        assert re.search(
            rf"taken from {second} \(lease ran out\) at 71 %, runs again in .+ s, crash 2 of 3", ships.crews[1].log_text()
        )
