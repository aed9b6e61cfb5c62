"""The jobs' file is copied, backed up and restored while workers run on it and are killed."""

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import App
from proof.checker.checker import Rules
from tests.e2e.fault_runs import SEED, FaultRun
from tests.e2e.fleet import START, fleet
from tests.e2e.machines import HERE
from tests.e2e.waiting import until

ROUNDS = int(os.environ.get("E2E_COPIED_ROUNDS", "2"))
JOBS = 12
"""Jobs enqueued in each round; two of the four tasks copy the file."""
TASKS = ("labour", "labour_in_thread", "copy_the_file", "copy_the_file")
_PASS_BY = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT count(*) FROM holdfast_jobs").fetchall()
connection.close()
"""


def python(*words: object, **environment: str) -> None:
    """Run a process that opens the file and closes it a few milliseconds later."""
    done = subprocess.run([sys.executable, *map(str, words)], env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.prove
@pytest.mark.timeout(180)
@pytest.mark.parametrize("library", ["python", pytest.param("apsw", marks=pytest.mark.prove)])
def test_s5_nothing_is_lost_or_owned_twice_while_the_file_is_copied_and_workers_are_killed(
    tmp_path: Path, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_SQLITE", library)
    chance = random.Random(SEED)
    database, backups = tmp_path / "jobs.db", list[Path]()
    with fleet(tmp_path, ttl="3s", recovery="0.3s") as ships:
        faults = FaultRun(ships, chance, [HERE, HERE])
        for number in range(ROUNDS):
            faults.enqueue(JOBS, longest=1.0, tasks=TASKS)
            shutil.copy(database, tmp_path / "copied-by-the-producer")
            python("-c", _PASS_BY, database)
            faults.enqueue(1, longest=0.3)
            backups.append(tmp_path / f"backup-{number}.db")
            python("-m", "holdfast.cli", "backup", backups[-1], "--url", ships.url)
            faults.kill_at_random()
            python("-c", _PASS_BY, database)
        report = faults.stop(Rules())
    assert report.starts >= faults.jobs
    for number, backup in enumerate(backups, start=1):
        with closing(sqlite3.connect(backup)) as copy:
            assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert copy.execute("SELECT count(*) FROM holdfast_jobs").fetchall() == [(number * (JOBS + 1),)]


def test_a_restored_backup_continues_with_the_jobs_of_its_moment(tmp_path: Path) -> None:
    with fleet(tmp_path) as ships:
        crew = ships.crew()
        running = ships.enqueue("wait", gate="gate")
        ships.entry(running, "start")
        ships.app.backup(tmp_path / "backup.db")
        later = ships.enqueue("count", number=7)
        ships.until_state(later, "completed", within=START)
        crew.kill()
        ships.app.close()
        for name in ("jobs.db", "jobs.db-wal", "jobs.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / "backup.db").rename(tmp_path / "jobs.db")
        ships.open("gate")
        ships.crew()
        restored = App(ships.url)
        until(lambda: restored.jobs.get(running).state == "completed", within=2 * START)
        assert {state: many for state, many in restored.jobs.counts().items() if many} == {"completed": 1}
        assert restored.jobs.get(running).crashes == 1
        restored.close()
