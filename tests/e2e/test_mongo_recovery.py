"""What other job queues on MongoDB get wrong when a worker lives, dies, or cannot write its outcome."""

import asyncio
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from holdfast import App, every
from holdfast.testing.servers import MongoSet
from tests.e2e.fleet import START, Fleet, fleet
from tests.e2e.waiting import STALL, eventually, until

TTL, RECOVERY = 3.0, 0.5

pytestmark = [pytest.mark.prove, pytest.mark.timeout(120)]


def pass_time(seconds: float) -> None:
    """Wait for that many seconds."""
    by = time.monotonic() + seconds
    until(lambda: time.monotonic() > by, within=seconds + START)


def expect_one_start(ships: Fleet, gate: str, job: object) -> None:
    """Open the gate of a job that has started, and expect that it ends with its first attempt, charged with nothing."""
    ships.open(gate)
    view = ships.until_state(job, "completed", within=START + STALL)  # type: ignore[arg-type]
    assert (view.attempt, view.crashes, view.failures) == (1, 0, 0)
    assert [entry["token"] for entry in ships.journal.read(job, "start")] == [view.result]  # type: ignore[arg-type]


def test_l3_a_second_start_resets_no_job_that_runs(tmp_path: Path, mongo_url: str) -> None:
    with fleet(tmp_path, url=mongo_url) as ships:
        ships.crew()
        job = ships.enqueue("wait", gate="gate")
        ships.entry(job, "start")
        ships.crew()
        pass_time(2 * TTL)
        assert not (tmp_path / "rescues").exists()
        expect_one_start(ships, "gate", job)


def test_s9_each_crash_is_counted_until_the_job_ends(tmp_path: Path, mongo_url: str) -> None:
    with fleet(tmp_path, url=mongo_url) as ships:
        poison = ships.enqueue("kill_the_worker")
        ships.crew()
        view = ships.until_state(poison, "failed", within=3 * START)
        assert (view.reason, view.crashes, view.failures) == ("WORKER_CRASHED", 3, 0)
        assert len(ships.journal.read(poison, "start")) == 3


def test_s14_a_schedule_goes_on_after_its_jobs_have_failed(mongo_url: str) -> None:
    app = App(mongo_url, poll_interval="0.1s")

    @app.task(max_attempts=1)
    async def fail() -> None:
        raise ValueError("each time")

    app.schedule(every("1s"), fail.bind(), name="failing")

    async def act() -> None:
        await app.amigrate()
        async with app.worker():
            begun = time.monotonic()
            while len(await app.jobs.alist(state="failed")) < 3:
                assert time.monotonic() - begun < 3 * START
                await eventually(lambda: time.monotonic() - begun > 0.2, within=START)
        assert {each.attempt for each in await app.jobs.alist(state="failed")} == {1}
        await app.aclose()

    asyncio.run(act())


def test_l1_a_job_of_a_dead_supervisor_runs_again_beside_a_healthy_one(tmp_path: Path, mongo_url: str) -> None:
    with fleet(tmp_path, url=mongo_url) as ships:
        doomed = ships.crew()
        job = ships.enqueue("wait", gate="gate")
        ships.entry(job, "start")
        ships.crew()
        killed = time.monotonic()
        doomed.kill()
        again = ships.entry(job, "start", number=2)
        assert again["time"] - killed <= TTL + RECOVERY + 2
        ships.open("gate")
        view = ships.until_state(job, "completed", within=START)
        assert (view.attempt, view.crashes, view.result) == (2, 1, again["token"])


@pytest.mark.parametrize("how", [{"errorCode": 91}, {"closeConnection": True}, {"errorCode": 50}], ids=str)
def test_l8_an_outcome_that_cannot_be_written_does_not_fail_its_job(
    tmp_path: Path, mongo_url: str, mongo_set: MongoSet, how: dict[str, object]
) -> None:
    with fleet(tmp_path, url=mongo_url) as ships:
        ships.crew()
        job = ships.enqueue("wait", gate="gate")
        ships.entry(job, "start")
        member = mongo_set.primary()
        jobs = f"{urlsplit(mongo_url).path[1:]}.holdfast.jobs"
        refused = {"failCommands": ["update", "findAndModify", "insert"], "namespace": jobs, **how}
        before = member.set_fail_point("failCommand", data=refused)
        try:
            ships.open("gate")
            ships.entry(job, "end")
            pass_time(1.5)
            assert ships.view(job).state == "running"
        finally:
            assert member.set_fail_point("failCommand", "off") > before
        expect_one_start(ships, "gate", job)
