"""`python -m bench.peers_torture` counts what it claims to count; no test judges what it finds of others."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.peers_torture.catalogue import Setting
from bench.peers_torture.journal import Run, runs_in, workers_up
from bench.peers_torture.report import rows
from bench.peers_torture.verdict import Finding, Seen, find

ROOT = Path(__file__).parents[2]
FAULT, THAW, WINDOW = 110.0, 150.0, 360.0


def run(worker: str, start: float, last: float, end: str | None, *, job: int = 1) -> Run:
    return Run(job, f"{worker}-{job}-{start}", worker, 1, start, last, end)


def killed(*runs: Run, completed: dict[int, float] | None = None) -> Seen:
    return Seen(runs=runs, victim="a", fault=FAULT, window=WINDOW, completed=completed or {})


def frozen(*runs: Run, completed: dict[int, float]) -> Seen:
    return Seen(runs=runs, victim="a", fault=FAULT, thawed=THAW, window=WINDOW, completed=completed)


def test_a_job_that_begins_again_within_the_window_is_recovered() -> None:
    seen = killed(run("a", 100, 109, None), run("b", 140, 160, "done"), completed={1: 160.1})
    found = find("peer", "kill", 2, seen)
    assert (found.in_flight, found.recovered, found.completed, found.twice) == (1, [30.0], 1, 0)


@pytest.mark.parametrize("start", [FAULT + WINDOW + 1, FAULT - 5])
def test_a_run_before_the_fault_or_after_the_window_recovers_nothing(start: float) -> None:
    found = find("peer", "kill", 2, killed(run("a", 100, 109, None), run("b", start, start + 20, "done")))
    assert (found.in_flight, found.recovered) == (1, [])


def test_jobs_of_the_other_worker_and_jobs_that_had_ended_were_not_hit() -> None:
    found = find("peer", "kill", 2, killed(run("a", 90, 108, "done", job=1), run("b", 100, 120, "done", job=2)))
    assert found.in_flight == 0


def test_two_runs_at_work_for_a_second_ran_twice_at_once() -> None:
    found = find("peer", "kill", 2, killed(run("b", 100, 120, "done"), run("a", 118.5, 140, "done")))
    assert (found.twice, found.longest) == (1, 1.5)


def test_a_frozen_run_is_not_at_work() -> None:
    found = find("peer", "freeze", 1, frozen(run("a", 100, 150.2, "stopped"), run("b", 148, 168, "done"), completed={1: 168.1}))
    assert (found.twice, found.longest, found.ended_late, found.accepted) == (0, 0.2, 0, 0)
    assert found.frozen_for == 40.0


def test_a_thawed_run_that_goes_on_beside_the_new_owner_ran_twice_at_once() -> None:
    found = find("peer", "freeze", 1, frozen(run("a", 100, 160, "done"), run("b", 148, 168, "done"), completed={1: 168.1}))
    assert (found.twice, found.longest, found.ended_late, found.accepted) == (1, 10.0, 1, 0)


def test_a_row_completed_while_its_new_owner_is_at_work_was_completed_by_the_zombie() -> None:
    found = find("peer", "freeze", 1, frozen(run("a", 100, 160, "done"), run("b", 148, 168, "done"), completed={1: 160.3}))
    assert found.accepted == 1


def test_a_late_end_without_another_owner_is_not_a_zombie() -> None:
    found = find("peer", "freeze", 1, frozen(run("a", 100, 160, "done"), completed={1: 160.3}))
    assert (found.in_flight, found.recovered, found.ended_late, found.accepted) == (1, [], 0, 0)


def test_the_journal_is_read_while_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "journal"
    assert runs_in(file) == []
    file.write_text("1.0 up 0 - a 7\n2.0 start 3 x a 7\n3.0 step 3 x a 7\n4.0 do")
    assert workers_up(file) == {"a"}
    assert runs_in(file) == [Run(3, "x", "a", 7, 2.0, 3.0, None)]


def test_the_table_distinguishes_accepted_refused_and_missing() -> None:
    here = Setting(peer="here", name="defaults", text="", source="", packages=("holdfast",))
    away = Setting(peer="away", name="defaults", text="", source="", packages=("no-such-package",))
    kill = Finding(setting=here.title, fault="kill", jobs=10, completed=4, in_flight=6)
    freeze = Finding(
        setting=here.title,
        fault="freeze",
        jobs=10,
        completed=10,
        in_flight=6,
        recovered=[30.2, 31.4],
        twice=2,
        longest=9.1,
        ended_late=2,
        accepted=1,
    )
    [found, missing] = rows([here, away], {here.title: {"kill": kill, "freeze": freeze}})
    assert found[1:] == ("0 of 6", "0 of 10", "2 of 6 (31 s)", "2 of 10 (9.1 s)", "1 of 2, 1 refused", "4 of 10, 10 of 10")
    assert missing[1] == "not installed"


@pytest.mark.prove
@pytest.mark.timeout(150)
def test_jobs_of_a_killed_worker_run_again_once(tmp_path: Path) -> None:
    words = ["--only", "holdfast, defaults", "--faults", "kill", "--steps", "4", "--settling", "1", "--results", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "bench.peers_torture", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    data = json.loads((tmp_path / "peers-torture.json").read_text())
    [found] = data["peers"][0]["findings"]
    assert found["in_flight"] == len(found["recovered"]) > 0
    assert (found["completed"], found["twice"]) == (found["jobs"], 0)
    assert "| holdfast, defaults |" in (tmp_path / "peers-torture.md").read_text()
    assert "written: " in done.stdout
