"""The features of a scheduler over MongoDB, as a program and its operator use them, on a replica set of one member."""

import importlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, InvalidCursor, JobFailed, PayloadTooLarge, Reason, RecoverySwitches, State, UniqueConflict, Where
from holdfast._core.identity import ProcessIdentity
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest, NewLease
from holdfast._core.timing import LeaseTiming
from holdfast.testing.servers import MongoSet
from tests.e2e.waiting import eventually, until

ROOT = Path(__file__).parents[2]
PROGRAM = "tests.e2e.scheduler_app:app"
START, SOON = 20.0, 10.0


class Run:
    """The program on one database, and what an operator sees of it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.environment = {**os.environ, "HOLDFAST_URL": url, "WALK_FOLDER": str(folder)}

    def holdfast(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run a command as an operator types it."""
        command = [sys.executable, "-m", "holdfast.cli", *words]
        return subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=3 * START, check=False
        )

    @contextmanager
    def worker(self) -> Iterator["subprocess.Popen[bytes]"]:
        """Run the program, and end it as an operator does."""
        words = [sys.executable, "-m", "holdfast.cli", "worker", PROGRAM]
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(words, cwd=ROOT, env=self.environment, stdout=log, stderr=log)
        try:
            until(lambda: bool(self.events("worker.ready")), within=START)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(START) == 0

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the fields of the events of this name that the program's listener has received."""
        lines = [line for file in self.folder.glob("events-*") for line in file.read_text().splitlines()]
        return [each for each in map(json.loads, lines) if each["event"] == name]

    def open(self, gate: str) -> None:
        """Let the jobs that wait at this gate end."""
        (self.folder / gate).touch()


class Walk(Run):
    """A run whose tasks the test calls, too."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder, url)
        with pytest.MonkeyPatch.context() as patch:
            for name in ("HOLDFAST_URL", "WALK_FOLDER"):
                patch.setenv(name, self.environment[name])
            self.program: Any = importlib.import_module(PROGRAM.partition(":")[0])
        self.app: App = self.program.app


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory, mongo_set: MongoSet) -> Iterator[Walk]:
    url = mongo_set.create_database()
    walk = Walk(tmp_path_factory.mktemp("walk"), url)
    walk.app.migrate()
    with walk.worker():
        yield walk
    walk.app.close()
    sys.modules.pop(walk.program.__name__)
    mongo_set.drop_database(url)


def test_a_schedule_fires_one_job_at_a_time_and_goes_on_after_failures(walk: Walk) -> None:
    until(lambda: Counter(job.state for job in walk.app.jobs.list(task="report"))[State.FAILED] >= 2, within=SOON)
    until(lambda: bool(walk.events("schedule.skipped")), within=SOON)
    jobs = sorted(walk.app.jobs.list(task="report"), key=lambda job: job.created_at)
    ended = [job.finished_at for job in jobs[:-1]]
    assert all(end is not None and end <= after.created_at for end, after in zip(ended, jobs[1:], strict=True))
    assert walk.app.schedules.list()[0].name == "reports"


def test_a_unique_key_holds_while_its_job_is_unfinished(walk: Walk) -> None:
    keyed = walk.program.wait.options(unique_key="order-7")
    first = keyed.enqueue(gate="unique")
    again = keyed.enqueue(gate="unique")
    assert (again.id, again.created) == (first.id, False)
    with pytest.raises(UniqueConflict, match=str(first.id)):
        keyed.enqueue(gate="another")
    walk.open("unique")
    assert first.result(timeout=SOON) == "unique"
    assert keyed.enqueue(gate="unique").created


def test_retries_wait_for_their_backoff_with_cap_and_jitter_and_each_is_an_event(walk: Walk) -> None:
    handle = walk.program.flaky.enqueue()
    assert handle.result(timeout=SOON) == 3
    until(lambda: any(each["job"] == str(handle.id) for each in walk.events("job.completed")), within=SOON)
    first, second = [each["delay"] for each in walk.events("job.retried") if each["job"] == str(handle.id)]
    assert 0.15 <= first <= 0.25
    assert 0.225 <= second <= 0.375  # the cap of 0.3 s, ± 25 %
    assert [attempt.outcome for attempt in handle.get().attempts[:2]] == ["failed", "failed"]


def test_code_past_its_timeout_is_stopped(walk: Walk) -> None:
    handle = walk.program.endless.enqueue()
    with pytest.raises(JobFailed) as failed:
        handle.result(timeout=SOON)
    assert failed.value.reason == Reason.TIMED_OUT


def test_a_payload_that_is_too_large_is_refused_with_its_size_and_the_limit(walk: Walk) -> None:
    with pytest.raises(PayloadTooLarge, match=r"has 300,\d\d\d bytes, at most 262,144: store it elsewhere"):
        walk.program.wait.enqueue(gate="x" * 300_000)


def test_an_operator_steers_many_jobs_by_selector_and_the_events_count_them(walk: Walk) -> None:
    mine = Where(task="wait", queue="later")
    before = datetime.now(UTC)
    jobs = [handle.id for handle in walk.program.wait.options(queue="later", delay="1h").enqueue_many([{"gate": "many"}] * 5)]
    assert walk.app.jobs.counts(by="queue")["later"]["scheduled"] == 5
    newest = walk.app.jobs.list(queue="later", limit=2, created_after=before.replace(microsecond=0))
    rest = walk.app.jobs.list(queue="later", cursor=newest[-1].id)
    assert [job.id for job in (*newest, *rest)] == jobs[::-1]
    with pytest.raises(InvalidCursor):
        walk.app.jobs.list(cursor="page-2")
    assert walk.app.jobs.cancel(where=mine, limit=3).states == {"cancelled": 3}
    assert walk.app.jobs.reschedule(where=mine, delay="2h").states == {"scheduled": 2}
    retried = walk.app.jobs.retry(where=Where(queue="later", state="cancelled"), limit=1)
    assert retried.states == {"available": 1}
    walk.open("many")
    assert walk.app.jobs.delete(where=Where(queue="later", state="cancelled")).states == {"deleted": 2}
    names = ("jobs.cancelled", "jobs.rescheduled", "jobs.retried", "jobs.deleted")
    assert [[each["jobs"] for each in walk.events(name)] for name in names] == [[3], [2], [1], [2]]


def test_a_running_job_ends_when_it_is_cancelled(walk: Walk) -> None:
    handle = walk.program.wait.enqueue(gate="never")
    until(lambda: handle.get().state is State.RUNNING, within=SOON)
    assert handle.cancel() is State.RUNNING
    until(lambda: any(each["job"] == str(handle.id) for each in walk.events("job.cancelled")), within=SOON)
    assert handle.get().state is State.CANCELLED


def test_a_finished_job_is_forgotten_after_its_retention(walk: Walk) -> None:
    handle = walk.program.brief.enqueue()
    until(lambda: any(each["job"] == str(handle.id) for each in walk.events("job.completed")), within=SOON)
    until(lambda: walk.app.prune().total > 0 or not walk.app.jobs.list(task="brief"), within=SOON)


@pytest.mark.prove
def test_check_finds_the_worker_and_no_error(walk: Walk) -> None:
    done = walk.holdfast("check", PROGRAM, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {each["name"]: each["level"] for each in json.loads(done.stdout)}
    assert found["workers"] == found["schema"] == found["transport"] == "ok"


@pytest.mark.prove
def test_a_stop_names_the_jobs_that_its_grace_does_not_suffice_for(tmp_path: Path, mongo_url: str) -> None:
    app, run = App(mongo_url), Run(tmp_path, mongo_url)
    app.migrate()
    with run.worker():
        job = app.enqueue("wait", gate="never")
        until(lambda: app.jobs.get(job.id).state is State.RUNNING, within=SOON)
    (drained,) = run.events("worker.drained")
    assert str(job.id) in drained["left"]
    assert drained["jobs"] == len(drained["left"])
    view = app.jobs.get(job.id)
    assert (view.state, view.crashes) == (State.AVAILABLE, 0)
    app.close()


async def _lose_a_worker(app: App, task: str) -> None:
    """Claim a job for a worker that never beats."""
    store = app._connections.store
    lease = NewLease(
        app._connections.chance.uuid4(), "gone-1", ProcessIdentity("elsewhere", 1), LeaseTiming.of("0.6s"), tasks=(task,)
    )
    await store.open_lease(lease)
    request = ClaimRequest(lease=lease.id, claim=app._connections.chance.uuid4(), tasks={task: Policy()}, limit=1)
    answer = await store.exchange([], request)
    assert len(answer.claims) == 1


async def test_stale_jobs_stay_while_recovery_is_off_and_move_when_an_operator_asks(mongo_url: str) -> None:
    off = RecoverySwitches(running=False)
    app = App(mongo_url, ttl="2s", recovery_interval="0.2s", recovery=off)
    app.task(name="beside")(lambda: None)
    skipped, completed = list[dict[str, Any]](), list[dict[str, Any]]()
    app.on("recovery.skipped")(lambda event: skipped.append(event.fields))
    app.on("recovery.completed")(lambda event: completed.append(event.fields))
    await app.amigrate()
    handle = await app.aenqueue("mail")
    await _lose_a_worker(app, "mail")
    async with app.worker():
        await eventually(lambda: bool(skipped), within=SOON)
        assert await app.recovery.astale(by="task") == {"mail": {"expired": 0, "ended": 1, "overdue": 0}}
        assert (await app.jobs.aget(handle.id)).state is State.RUNNING
        found = [each.message for each in await app.acheck() if each.name == "recovery"]
        assert found == ["App(recovery=…) switches the recovery of running jobs off; jobs left by workers that ended: 1"]
        rescued = await app.recovery.arun_once(now=True, only=["running"])
        assert [(each.id, each.reason) for each in rescued] == [(handle.id, "expired")]
    assert [(each["jobs"], each["by_reason"], each["by_task"]) for each in completed] == [(1, {"expired": 1}, {"mail": 1})]
    assert await app.recovery.astale() == []
    await app.aclose()
