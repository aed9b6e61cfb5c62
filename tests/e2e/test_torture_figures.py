"""The reports of torture: figures that are summed over sittings, leftover processes, and an exit code."""

import io
import subprocess
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest
from msgspec import structs
from rich.console import Console

from proof.checker.history import History
from proof.checker.verdicts import Report, Violation
from tests.e2e.torture import __main__ as torture
from tests.e2e.torture import figures, leftovers
from tests.e2e.torture.figures import Figures, Sum
from tests.e2e.torture.rounds import Plan, Verdict
from tests.e2e.waiting import until


def one(**known: object) -> Figures:
    made = Figures(store="sqlite", seed=1, revision="1a", began="", seconds=60.0, bound=9.1, done={"kills": 100})
    return structs.replace(made, **known)


def shown(rounds: list[Figures]) -> dict[str, list[str]]:
    """Return each row of the table by its name."""
    Console(width=200, file=(shown_text := io.StringIO())).print(figures.table(rounds, "all"))
    lines = [line.strip("│").split("│") for line in shown_text.getvalue().splitlines() if line.startswith("│")]
    return {cells[0].strip(): [link.strip() for link in cells[1:]] for cells in lines}


def broken(*names: str) -> Report:
    return Report(violations=[Violation(name, 0, None, "so it is") for name in names], starts=7, recoveries=[0.12345, 2.0])


def test_figures_of_sittings_are_added_up_in_one_file(tmp_path: Path) -> None:
    file = tmp_path / "torture.jsonl"
    figures.append(file, first := one(jobs=1000, recoveries=[0.1]))
    figures.append(file, second := one(store="postgres", jobs=2000, recoveries=[0.3, 5.0], done={"kills": 20, "cuts": 3}))
    assert figures.read(file) == [first, second]
    rows = shown(figures.read(file))
    assert rows["kill -9 cycles"] == ["20", "100", "120"]
    assert rows["… each second"] == ["0.33", "1.67", "1.00"]
    assert rows["partitions"] == ["3", "0", "3"]
    assert rows["recoveries"] == ["2", "1", "3"]
    assert rows["p50 / p99 / max, in seconds"] == ["0.30 / 5.00 / 5.00", "0.10 / 0.10 / 0.10", "0.30 / 5.00 / 5.00"]


def test_a_fault_that_never_occurred_is_reported_with_an_upper_bound() -> None:
    assert shown([one(jobs=3000)])["lost"] == ["0 (< 0.001)"]
    assert shown([one(jobs=3000, lost=2)])["lost"] == ["2"]
    assert shown([one()])["lost"] == ["0"]
    accepted = shown([one(zombie_writes_refused=30, zombie_writes_accepted=1)])
    assert (accepted["zombie writes refused"], accepted["zombie writes accepted"]) == (["30"], ["1"])


def test_quantiles_are_values_that_were_seen() -> None:
    hundred = Sum([one(recoveries=[number / 100 for number in range(1, 101)])])
    assert [hundred.recovery(part) for part in (0.5, 0.99, 1.0)] == [0.5, 0.99, 1.0]
    assert Sum([one()]).recovery(0.99) == 0.0


def test_every_violation_is_counted_once_under_what_it_means() -> None:
    made = one()
    made.judge(broken("S6", "S1", "S2", "S3", "L1", "L2", "S9", "S8"), ["a supervisor ended with 1"])
    assert (made.lost, made.owned_twice, made.zombie_writes_accepted, made.stuck, made.other_violations) == (1, 2, 1, 2, 3)
    assert made.violations == 9
    assert (made.starts, made.recoveries) == (7, [0.123, 2.0])


def test_a_process_that_is_left_running_is_found_in_any_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "GOING", 0.0)
    monkeypatch.setenv(leftovers.MARK, "")  # restored after the test
    name = leftovers.mark()
    sleep = ["sleep", "600"]
    marked = subprocess.Popen(sleep, cwd="/", start_new_session=True)
    there = subprocess.Popen(sleep, cwd=tmp_path, env={"PATH": "/usr/bin:/bin"})
    try:
        wanted = {f"{process.pid}: sleep 600" for process in (marked, there)}
        until(lambda: set(leftovers.left(name, tmp_path)) == wanted, within=15.0)
    finally:
        for process in (marked, there):
            process.kill()
            process.wait()
    assert leftovers.left(name, tmp_path) == []


@pytest.mark.parametrize("names", [(), ("S3",)])
def test_the_exit_code_shows_whether_a_promise_was_broken_and_then_the_database_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], names: tuple[str, ...]
) -> None:
    played: list[Path] = []

    def play(plan: Plan, folder: Path, show: object) -> Verdict:
        played.append(folder)
        (folder / "jobs.db").touch()
        return Verdict(broken(*names), History(), Counter(kills=3), seconds=1.0, bound=9.1, jobs=5, refused=1)

    monkeypatch.setattr(torture, "play", play)
    monkeypatch.setattr(torture, "SHM", tmp_path)
    monkeypatch.setenv(leftovers.MARK, "")
    file = tmp_path / "torture.jsonl"
    code = torture.main(["--minutes", "0.000001", "--stores", "sqlite", "--file", str(file), "--sum"])
    assert code == len(names)
    (folder,) = played
    assert (folder / "jobs.db").exists() == bool(names)
    log_text = capsys.readouterr().out
    assert (str(folder) in log_text) == ("S3" in log_text) == bool(names)
    assert torture.main(["--file", str(file)]) == code
    assert [each.done for each in figures.read(file)] == [{"kills": 3}]


def test_a_round_that_cannot_be_played_is_a_violation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Verdict:
        raise AssertionError(f"not within 90 s, {uuid4()}")

    monkeypatch.setattr(torture, "play", fail)
    monkeypatch.setattr(torture, "SHM", tmp_path)
    monkeypatch.setenv(leftovers.MARK, "")
    file = tmp_path / "torture.jsonl"
    assert torture.main(["--minutes", "0.000001", "--stores", "sqlite", "--file", str(file)]) == 1
    assert figures.read(file)[0].other_violations == 1
