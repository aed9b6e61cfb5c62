"""Many processes meet on a file that does not exist yet: one makes the schema, the others find it."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import App
from tests.e2e.fleet import ROOT, START, fleet
from tests.e2e.waiting import until

FORKS = """
import os, sys
from holdfast import App
import holdfast.stores.sqlite.store  # loaded once, before the forks
folder, many = sys.argv[1], int(sys.argv[2])
gate, opened = os.pipe()
children = []
for number in range(many):
    child = os.fork()
    if child == 0:
        os.close(opened)
        app = App(f"sqlite:///{folder}/jobs.db")
        os.read(gate, 1)  # until all are there
        app.enqueue("count", number=number)
        app.close()
        os._exit(0)
    children.append(child)
os.close(opened)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""


@pytest.mark.parametrize("many", [2, 20])
def test_s6_clients_that_start_at_once_on_a_fresh_file_all_enqueue(tmp_path: Path, many: int) -> None:
    done = subprocess.run([sys.executable, "-c", FORKS, str(tmp_path), str(many)], cwd=ROOT, timeout=4 * START, check=False)
    assert done.returncode == 0
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    assert sorted(view.payload["number"] for view in app.jobs.list()) == list(range(many))
    assert {finding.level for finding in app.check() if finding.name in ("file", "journal", "schema")} == {"ok"}
    app.close()


def test_supervisors_that_start_at_once_on_a_fresh_file_all_work(tmp_path: Path) -> None:
    with fleet(tmp_path) as ships:
        crews = [ships.crew("--concurrency", "1", is_ready=False) for _ in range(2)]
        until(lambda: all("worker.ready" in crew.log_text() for crew in crews), within=START)
        jobs = [ships.enqueue("wait", gate="gate") for _ in range(2)]
        workers = {ships.entry(job, "start")["pid"] for job in jobs}
        assert workers == {pid for crew in crews for pid in crew.workers()}
        ships.open("gate")
        for job in jobs:
            assert ships.until_state(job, "completed", within=START).attempt == 1
        assert not any("store.unavailable" in crew.log_text() for crew in crews)
