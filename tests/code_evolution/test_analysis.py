"""The whole story on a generated repository: right, resumable at any checkpoint, and byte for byte the same."""

import asyncio
import csv
import json
from pathlib import Path
from typing import Any

import pytest
from analyzer.analysis import Request, analyze_repository
from analyzer.sample import generate

from tests.code_evolution.support import FakeJob, analyze, counted_by_brute_force, git

pytestmark = pytest.mark.usefixtures("no_chart")
CHECKPOINTS = 7  # after the walk, and after each of 6 batches of 20


def contents(out: Path) -> tuple[bytes, bytes]:
    return (out / "evolution.json").read_bytes(), (out / "evolution.csv").read_bytes()


@pytest.fixture(scope="session")
def undisturbed(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("analyzer.analysis._run_child", lambda workshop, command: None)
        out = tmp_path_factory.mktemp("undisturbed")
        analyze(FakeJob(), Request(str(sample), str(out), batch=20))
    return contents(out)


def request_of(sample: Path, tmp_path: Path, **more: Any) -> Request:
    return Request(str(sample), str(tmp_path / "out"), batch=20, **more)


def killed(request: Request, checkpoint: int) -> FakeJob:
    """A job whose worker ended right after its n-th checkpoint."""
    job = FakeJob(cancel_at_checkpoint=checkpoint)
    with pytest.raises(asyncio.CancelledError):
        analyze(job, request)
    return job


def test_every_commit_counts_as_if_counted_from_scratch(sample: Path, undisturbed: tuple[bytes, bytes]) -> None:
    history = json.loads(undisturbed[0])["history"]
    assert len(history) == 120
    for row in history:
        expected = counted_by_brute_force(sample, row["commit"])
        assert {name: row[name] for name in expected} == expected, row["commit"]


def test_the_result_names_what_was_found_and_leaves_no_work_behind(sample: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = analyze(FakeJob(), request_of(sample, tmp_path))
    tip = git(sample, "rev-parse", "main").decode().strip()
    assert (result["tip"], result["commits"], result["sampled"], result["shallow"]) == (tip, 120, 120, False)
    assert result["languages"] == counted_by_brute_force(sample, tip)["languages"]
    assert result["files"] == {kind: str(out / f"evolution.{kind}") for kind in ("json", "csv", "svg", "png")}
    assert {path.name for path in out.iterdir()} == {f"evolution.{kind}" for kind in ("json", "csv", "svg", "png")}
    assert len(json.dumps(result)) < 4096


def test_json_and_csv_agree(undisturbed: tuple[bytes, bytes]) -> None:
    document = json.loads(undisturbed[0])
    assert list(document) == sorted(document)
    for row, line in zip(document["history"], csv.DictReader(undisturbed[1].decode().splitlines()), strict=True):
        assert line["commit"] == row["commit"]
        assert int(line["lines"]) == sum(row["languages"].values())
        assert {name: int(line[name]) for name in row["languages"]} == row["languages"]
        assert line["date"].endswith("Z")


@pytest.mark.parametrize("checkpoint", range(1, CHECKPOINTS + 1))
def test_killed_after_any_checkpoint_it_ends_with_the_same_bytes(
    sample: Path, tmp_path: Path, undisturbed: tuple[bytes, bytes], checkpoint: int
) -> None:
    request = request_of(sample, tmp_path)
    job = killed(request, checkpoint).reborn()
    analyze(job, request)
    assert contents(tmp_path / "out") == undisturbed
    assert len(job.checkpoints) == CHECKPOINTS - checkpoint + 1  # the rest, and "done": nothing is counted twice
    assert "resumed" in job.reports[0][2]


def test_killed_after_every_checkpoint_in_turn(sample: Path, tmp_path: Path, undisturbed: tuple[bytes, bytes]) -> None:
    request = request_of(sample, tmp_path)
    job = killed(request, 1)
    for _ in range(CHECKPOINTS - 1):
        job = job.reborn()
        job.cancel_at_checkpoint = 1
        with pytest.raises(asyncio.CancelledError):
            analyze(job, request)
    analyze(job.reborn(), request)
    assert contents(tmp_path / "out") == undisturbed


@pytest.mark.parametrize("tail", [b'{"commit": "torn', b"\n", b'{"languages":{}}\n' * 100, b"\0" * 5000])
@pytest.mark.parametrize("attempt", [1, 2])
def test_what_lies_beyond_the_checkpoint_is_never_read(
    sample: Path, tmp_path: Path, undisturbed: tuple[bytes, bytes], tail: bytes, attempt: int
) -> None:
    request = request_of(sample, tmp_path)
    job = killed(request, 3).reborn()
    job.attempt = attempt  # the same attempt goes on in the same file, a new one in its own
    (rows,) = (tmp_path / "out" / ".work" / job.id).glob("rows-1")
    with rows.open("ab") as file:
        file.write(tail)
    analyze(job, request)
    assert contents(tmp_path / "out") == undisturbed


def test_a_frozen_worker_which_wakes_up_disturbs_no_other(sample: Path, tmp_path: Path, undisturbed: tuple[bytes, bytes]) -> None:
    request = request_of(sample, tmp_path)
    job = killed(request, 2).reborn()
    with (tmp_path / "out" / ".work" / job.id / "rows-1").open("ab") as zombie:

        def wake(stage: str, fraction: float) -> bool:
            zombie.write(b'{"commit":"from the dead"}\n')
            zombie.flush()
            return False

        job.cancel_at_progress = wake
        analyze(job, request)
    assert contents(tmp_path / "out") == undisturbed


def test_the_tip_is_pinned_while_the_repository_moves(tmp_path: Path) -> None:
    source = tmp_path / "moving.git"
    generate(source, 40)
    request = Request(str(source), str(tmp_path / "out"), batch=10)
    tip = git(source, "rev-parse", "main").decode().strip()
    job = killed(request, 2).reborn()
    git(source, "fast-import", "--quiet", stdin=f"commit refs/heads/main\ncommitter A <a> 1 +0000\ndata 0\nfrom {tip}\n".encode())
    result = analyze(job, request)
    assert (result["tip"], result["commits"]) == (tip, 40)


@pytest.mark.parametrize("lost", ["clone-1", "commits-1", "rows-1"])
def test_on_another_machine_or_after_a_clean_up_it_starts_again(
    sample: Path, tmp_path: Path, undisturbed: tuple[bytes, bytes], lost: str
) -> None:
    request = request_of(sample, tmp_path)
    job = killed(request, 3).reborn()
    work = tmp_path / "out" / ".work" / job.id
    (work / lost).rename(work / "elsewhere")
    analyze(job, request)
    assert contents(tmp_path / "out") == undisturbed
    assert job.reports[0][0] == "clone"


@pytest.mark.parametrize(
    "checkpoint", [{"version": 99}, "text", {"version": 1, "tip": 5}, 17, {"version": 1, "done": {"files": 3}}]
)
def test_a_checkpoint_of_another_kind_is_ignored(
    sample: Path, tmp_path: Path, undisturbed: tuple[bytes, bytes], checkpoint: object
) -> None:
    analyze(FakeJob(checkpoint_value=checkpoint), request_of(sample, tmp_path))
    assert contents(tmp_path / "out") == undisturbed


def test_killed_after_the_last_write_it_only_answers(sample: Path, tmp_path: Path) -> None:
    request = request_of(sample, tmp_path)
    job = killed(request, CHECKPOINTS + 1).reborn()
    result = analyze(job, request)
    assert result["commits"] == 120
    assert job.reports == []


def test_progress_only_grows_and_checkpoints_stay_small(sample: Path, tmp_path: Path) -> None:
    job = FakeJob()
    analyze(job, request_of(sample, tmp_path))
    fractions = [fraction for _, fraction, _ in job.reports]
    assert fractions == sorted(fractions)
    assert (fractions[0], fractions[-1]) == (0.0, 1.0)
    assert list(dict.fromkeys(stage for stage, _, _ in job.reports)) == ["clone", "walk", "count", "report"]
    assert all(len(json.dumps(value)) < 4096 for value in job.checkpoints)
    assert [value["next"] for value in job.checkpoints[:-1]] == [0, 20, 40, 60, 80, 100, 120]
    saved = [value["fraction"] for value in job.checkpoints[:-1]]
    assert saved == [0.15, 0.2833, 0.4167, 0.55, 0.6833, 0.8167, 0.95]


def test_pace_waits_once_per_batch(sample: Path, tmp_path: Path) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    asyncio.run(analyze_repository(FakeJob(), request_of(sample, tmp_path, pace=0.25), sleep=sleep))
    assert waits == [0.25] * 6


def test_a_sample_is_even_and_keeps_both_ends(sample: Path, tmp_path: Path, undisturbed: tuple[bytes, bytes]) -> None:
    result = analyze(FakeJob(), request_of(sample, tmp_path, max_commits=13))
    rows = json.loads(contents(tmp_path / "out")[0])["history"]
    everything = json.loads(undisturbed[0])["history"]
    by_commit = {row["commit"]: row for row in everything}
    assert (result["commits"], result["sampled"], len(rows)) == (120, 13, 13)
    assert (rows[0], rows[-1]) == (everything[0], everything[-1])
    assert all(row == by_commit[row["commit"]] for row in rows)  # a sampled row equals that of the whole analysis


def test_work_may_lie_elsewhere(sample: Path, tmp_path: Path, undisturbed: tuple[bytes, bytes]) -> None:
    request = request_of(sample, tmp_path, work=str(tmp_path / "scratch"))
    job = killed(request, 2)
    assert (tmp_path / "scratch" / job.id / "clone-1").is_dir()
    analyze(job.reborn(), request)
    assert contents(tmp_path / "out") == undisturbed
    assert list((tmp_path / "scratch").iterdir()) == []
