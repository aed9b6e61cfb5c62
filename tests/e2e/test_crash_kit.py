"""The crash kit for users: jobs killed and frozen at their points recover once, and a test reports that, or what went wrong."""

import asyncio
import importlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, ConfigurationError, InsideEventLoop, State
from holdfast.testing import Recovery, crash_at, freeze_at, points
from holdfast.testing.crashes import trials
from holdfast.testing.crashes.plan import VARIABLE
from tests.e2e import crash_shop
from tests.e2e.fleet import ROOT, START
from tests.e2e.scripted_workers import is_alive
from tests.e2e.waiting import until

FREEZE = """
import sys
from holdfast.testing import freeze_at
from tests.e2e.crash_shop import insist
freeze_at("insist", insist.bind(folder=sys.argv[1]), ttl="30s", within="60s")
"""
SITE = """
import pytest
from holdfast import App, Job
from holdfast.testing import crash_at, point

app = App("memory://")


@app.task
async def pay(job: Job, book: str, times: int) -> None:
    if times > 1 or not job.crashes:
        point("paid")
    point("after")


@pytest.mark.parametrize("number", range(3))
def test_once(number: int, tmp_path) -> None:
    assert crash_at("after", pay.bind(book=str(tmp_path), times=1)).count("paid") == 1


def test_twice(tmp_path) -> None:
    assert crash_at("after", pay.bind(book=str(tmp_path), times=2)).count("paid") == 1

"""


HASTY = """
from holdfast import App

app = App("sqlite:///hasty.db")


@app.task
def greet() -> None: ...


app.migrate()
"""


def belonging_to(prefix: str) -> list[int]:
    """List the processes of trials whose folder begins with this prefix."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if f"{VARIABLE}={prefix}".encode() in environment and is_alive(int(pid)):
            found.append(int(pid))
    return found


@contextmanager
def orders(folder: Path) -> Iterator[sqlite3.Connection]:
    """Return a connection to a shop's own table, in the file that will contain the jobs."""
    with closing(sqlite3.connect(folder / "shop.db", isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, paid INTEGER)")
        connection.execute("INSERT INTO orders VALUES (7, 0)")
        yield connection


def test_a_job_that_is_killed_at_a_point_recovers_once_and_charges_once(tmp_path: Path) -> None:
    recovery = crash_at("after charge", crash_shop.charge.bind(order=7, book=f"{tmp_path}/book"))
    job = recovery.job
    assert (job.state, job.attempt, job.crashes) == ("completed", 2, 1)
    assert [(each.outcome, each.signal) for each in job.attempts] == [("crashed", "SIGKILL"), ("completed", None)]
    assert recovery.reached == ("before charge", "money moved", "after charge", "before charge", "after charge")
    assert recovery.count("money moved") == 1
    assert (tmp_path / "book").read_text() == f"{job.id}\n"
    assert 0.0 <= recovery.seconds < START


def test_the_kit_sees_the_double_charge_of_a_handler_that_is_not_idempotent(tmp_path: Path) -> None:
    recovery = crash_at("after charge", crash_shop.charge_twice.bind(order=7, book=f"{tmp_path}/book"))
    assert recovery.count("money moved") == 2
    assert len((tmp_path / "book").read_text().splitlines()) == 2


def test_nothing_is_left_of_a_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    crash_at("left", crash_shop.leave_a_child.bind(pid_file=f"{tmp_path}/child"))
    assert not is_alive(int((tmp_path / "child").read_text()))
    assert belonging_to(str(tmp_path)) == []
    assert [each.name for each in tmp_path.iterdir()] == ["child"]


def test_checkpoints_and_progress_reports_are_points_so_that_a_handler_needs_no_change() -> None:
    recovery = crash_at("checkpoint", crash_shop.copy.bind(chunks=3))
    assert recovery.job.result == 1
    assert recovery.reached == ("copy", "from 0", "checkpoint", "copy", "from 1", "checkpoint", "checkpoint")
    assert crash_at("from 0", crash_shop.copy.bind(chunks=3)).job.result == 0


@pytest.mark.prove
def test_a_child_can_be_the_one_that_is_killed() -> None:
    recovery = crash_at("sealed", crash_shop.newsletter.bind())
    assert (recovery.job.task, recovery.job.result, recovery.job.crashes) == ("letter", "ada", 1)


@pytest.mark.prove
def test_calls_of_the_handler_to_its_app_stay_in_the_trial() -> None:
    recovery = crash_at("sealed", crash_shop.forward.bind())
    assert (recovery.job.task, recovery.job.result, recovery.job.crashes) == ("letter", "bob", 1)


def test_an_app_that_is_open_before_it_can_be_moved_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hasty_shop.py").write_text(HASTY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    hasty = importlib.import_module("hasty_shop")
    with closing(hasty.app), pytest.raises(ConfigurationError, match="the App's store was opened when its module was imported"):
        crash_at("any", hasty.greet.bind())
    del sys.modules["hasty_shop"]


def test_a_handler_in_a_separate_process_is_killed_there() -> None:
    recovery = crash_at("computed", crash_shop.compute.bind())
    assert (recovery.job.result, recovery.job.crashes) == (2, 1)


@pytest.mark.parametrize(
    ("point", "job", "ends"),
    [
        ("printed", crash_shop.print_letter.bind(address="x"), "held"),
        pytest.param("greeted", crash_shop.greet.bind(name="ada"), "failed", marks=pytest.mark.prove),
        pytest.param("asked", crash_shop.refuse.bind(), State.FAILED, marks=pytest.mark.prove),
    ],
)
def test_a_job_may_be_expected_to_end_failed_or_held(point: str, job: object, ends: str) -> None:
    assert crash_at(point, job, ends=ends).job.state == ends  # type: ignore[arg-type]


def test_a_fake_is_installed_in_the_workers(tmp_path: Path) -> None:
    job = crash_shop.charge.bind(order=7, book=f"{tmp_path}/book")
    recovery = crash_at("after charge", job, setup=crash_shop.charge_a_fake)
    assert recovery.count("fake money moved") == 2
    assert not (tmp_path / "book").exists()


def test_rows_of_the_user_are_in_the_named_store(tmp_path: Path) -> None:
    with orders(tmp_path) as connection:
        crash_at("paid", crash_shop.remember.bind(order=7), url=f"sqlite:///{tmp_path}/shop.db")
        # The rows and the job's end are two commits.
        assert connection.execute("SELECT paid FROM orders").fetchone() == (2,)


@pytest.mark.parametrize("hurt_at", [pytest.param(crash_at, marks=pytest.mark.prove), freeze_at])
def test_a_trial_uses_the_database_that_the_test_names(hurt_at: Any, tmp_path: Path, postgres_dsn: str) -> None:
    with closing(App(postgres_dsn)) as app:
        app.migrate()
        recovery = hurt_at("after charge", crash_shop.charge.bind(order=7, book=f"{tmp_path}/book"), url=postgres_dsn)
        assert app.jobs.get(recovery.job.id) == recovery.job
    assert (recovery.job.attempt, recovery.count("money moved")) == (2, 1)


def test_an_app_in_memory_moves_to_a_file() -> None:
    assert crash_at("greeted", crash_shop.greet_from_memory.bind()).job.attempt == 2


def test_s3_a_frozen_worker_and_its_supervisor_wake_as_zombies_and_change_nothing(tmp_path: Path) -> None:
    recovery = freeze_at("insist", crash_shop.insist.bind(folder=str(tmp_path)))
    job = recovery.job
    assert (job.state, job.attempt, job.result, job.checkpoint) == ("completed", 2, "attempt 2", {"by": 2})
    assert recovery.seconds >= 1.0
    assert recovery.reached == ("insist", "insist", "checkpoint")
    assert [each.name for each in tmp_path.iterdir()] == ["refused-1"]


def test_a_change_by_a_zombie_is_found() -> None:
    with pytest.raises(AssertionError, match="the zombie changed the job"):
        freeze_at("asleep", crash_shop.meddle.bind())


@pytest.mark.prove
def test_only_the_idempotency_key_stops_effects_of_a_zombie_outside_the_store(tmp_path: Path) -> None:
    recovery = freeze_at("before charge", crash_shop.charge.bind(order=7, book=f"{tmp_path}/book"))
    assert (recovery.count("after charge"), recovery.count("money moved")) == (2, 1)
    assert [each.late_result is not None for each in recovery.job.attempts] == [True, False]


def test_s3_a_zombie_that_was_frozen_inside_of_a_transaction_commits_nothing(tmp_path: Path) -> None:
    with orders(tmp_path) as connection:
        recovery = freeze_at("inside", crash_shop.remember.bind(order=7), url=f"sqlite:///{tmp_path}/shop.db")
        assert connection.execute("SELECT paid FROM orders").fetchone() == (1,)
    assert recovery.count("inside") == 2


@pytest.mark.prove
def test_a_freeze_waits_until_no_process_is_inside_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    look = trials._is_locked
    monkeypatch.setattr(trials, "_is_locked", lambda url: found.append(look(url)) or found[-1])
    with orders(tmp_path) as connection, ThreadPoolExecutor(1) as aside:
        job = crash_shop.block.bind(lock=f"{tmp_path}/lock", locked=f"{tmp_path}/locked")
        freezing = aside.submit(freeze_at, "blocked", job, url=f"sqlite:///{tmp_path}/shop.db", ttl="5s")
        until((tmp_path / "lock").exists, within=START)
        connection.execute("BEGIN IMMEDIATE")
        (tmp_path / "locked").touch()
        until(lambda: found, within=START)
        connection.execute("ROLLBACK")
        assert freezing.result().job.attempt == 2
    assert (found[0], found[-1]) == (True, False)


def test_the_processes_of_a_freeze_end_with_the_process_that_asked_for_it(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    asking = subprocess.Popen([sys.executable, "-c", FREEZE, str(tmp_path)], cwd=ROOT, env=environment)
    try:
        until(lambda: list(tmp_path.glob("holdfast-crash-*/plan-1")), within=START)  # the others are frozen
        assert belonging_to(str(tmp_path))
    finally:
        asking.send_signal(signal.SIGKILL)
        asking.wait()
    until(lambda: not belonging_to(str(tmp_path)), within=START)


def test_a_point_that_is_never_reached_is_named_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as failed:
        crash_at("after chagre", crash_shop.charge.bind(order=7, book=f"{tmp_path}/book"))
    log_text = str(failed.value)
    assert log_text.startswith("the job ended without reaching 'after chagre'\n")
    assert "reached 'after charge'" in log_text
    assert log_text.splitlines()[-1].endswith("the job completed with attempt 1")


def test_the_wait_for_a_job_that_never_reaches_its_point_is_limited() -> None:
    with pytest.raises(AssertionError, match=r"'any' was not reached within 0.5 s\n(.*\n)*.*the job is "):
        crash_at("any", crash_shop.wait_for_ever.bind(), within="0.5s")


def test_a_second_attempt_that_raises_is_not_a_recovery_and_its_retry_is_not_waited_for(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the next attempt failed") as failed:
        crash_at("after charge", crash_shop.charge_or_raise.bind(order=7, book=f"{tmp_path}/book"))
    assert "attempt 2 failed: FileExistsError" in str(failed.value)


def test_an_unexpected_outcome_is_reported_with_its_reason() -> None:
    with pytest.raises(AssertionError, match=r"it is held, not completed; 0 attempts followed, not 1"):
        crash_at("printed", crash_shop.print_letter.bind(address="x"))


@pytest.mark.prove
def test_a_task_that_only_the_test_knows_is_named() -> None:
    task = crash_shop.late.task(name=f"late-{len(crash_shop.late.registry.names())}")(lambda_free)
    with pytest.raises(ConfigurationError, match=rf"task {task.name} is not there in a worker, which knows greet_from_memory"):
        crash_at("any", task.bind())


def lambda_free() -> None:
    """Stand for a handler that no worker finds."""


class Lazy:
    """An object like the settings of frameworks: the first access sets it up."""

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(name)


def test_an_app_that_no_module_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash_shop, "settings", Lazy(), raising=False)
    app = App("memory://")
    task = app.task(lambda_free)
    with pytest.raises(ConfigurationError, match="task lambda_free: no module has its App"):
        crash_at("any", task.bind())


def test_a_setup_that_fails_is_reported() -> None:
    with pytest.raises(ConfigurationError, match=r"setup=.*:break_down failed in a worker: RuntimeError: no fake today"):
        crash_at("greeted", crash_shop.greet.bind(name="ada"), setup=crash_shop.break_down)


@pytest.mark.parametrize(
    ("job", "options", "problem"),
    [
        (crash_shop.greet, {}, r"pass a task with its arguments, as in charge.bind\(order=7\)"),
        (crash_shop.greet.bind(name="ada"), {"url": "memory://"}, "memory:// lives inside one process"),
        (crash_shop.greet.bind(name="ada"), {"url": "shop.db"}, "is not a store URL"),
        (
            crash_shop.greet.bind(name="ada"),
            {"ends": "running"},
            "ends='running': use 'completed', 'failed', 'cancelled' or 'held'",
        ),
        (crash_shop.greet.bind(name="ada"), {"setup": lambda: None}, "use a function at the top of a module"),
        (crash_shop.greet.options(within=object()).bind(name="ada"), {}, "leave within out"),
    ],
)
def test_a_trial_that_is_not_possible_is_refused_at_once(job: object, options: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        crash_at("any", job, **options)  # type: ignore[arg-type]


def test_inside_of_an_event_loop_it_names_the_thread_to_use() -> None:
    async def ask() -> None:
        crash_at("greeted", crash_shop.greet.bind(name="ada"))

    with pytest.raises(InsideEventLoop, match=r"await asyncio\.to_thread"):
        asyncio.run(ask())


@pytest.mark.prove
def test_beside_an_event_loop_it_runs_in_a_thread() -> None:
    async def ask() -> Recovery:
        return await asyncio.to_thread(crash_at, "greeted", crash_shop.greet_from_memory.bind())

    assert asyncio.run(ask()).job.attempt == 2


@pytest.mark.prove
@pytest.mark.timeout(180)
def test_tests_beside_each_other_and_an_app_in_the_test_file(tmp_path: Path) -> None:
    (tmp_path / "test_site.py").write_text(SITE)
    options = "-p xdist -n 2 --import-mode=importlib -p no:cacheprovider"
    command = [sys.executable, "-P", "-m", "pytest", *options.split(), "test_site.py"]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "1 failed, 3 passed" in done.stdout, done.stdout
    assert "assert 2 == 1" in done.stdout
    assert belonging_to(str(tmp_path)) == []


def test_a_point_does_nothing_where_no_trial_runs() -> None:
    assert points._watchers == []
    points.point("anywhere")


def test_production_code_loads_nothing_but_the_point() -> None:
    program = "import sys, holdfast.testing; print(*sorted(each for each in sys.modules if each.startswith('holdfast.testing')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["holdfast.testing", "holdfast.testing.points"]


def test_the_kit_needs_no_pytest() -> None:
    program = "import sys; from holdfast.testing import crash_at, freeze_at; print('pytest' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
