"""`holdfast jobs list` fits the terminal, and what it shows of an id can be typed."""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from msgspec import structs

from holdfast import App, JobView
from holdfast._core.job import State
from holdfast.cli.commands import root
from holdfast.cli.fitted import fitted
from holdfast.cli.job_list import USUAL, rows_of
from tests.cli.support import answer, claim, enqueue, run, url

NOW = datetime(2026, 1, 2, 14, 0, tzinfo=UTC)
GOLDEN = {
    60: """\
id      task          state      progress      why
0c17be  import_cata…  running    analyze 81%…
e25d03  analyze       failed                   HANDLER_ERROR
9077aa  send_mail     available
""",
    80: """\
id      task            state      progress        created         why
0c17be  import_catalog  running    analyze 81% c…  48 min ago
e25d03  analyze         failed                     3 min 40 s ago  HANDLER_ERROR
9077aa  send_mail       available                  0.5 s ago
""",
    120: """\
id      task            queue    state      attempt  progress           created         worker             why
0c17be  import_catalog  imports  running    2        analyze 81% comm…  48 min ago      web1-4712-9f3a01…
e25d03  analyze         default  failed     3                           3 min 40 s ago                     HANDLER_ERROR
9077aa  send_mail       default  available  0                           0.5 s ago
""",
}


def view(folder: Path) -> JobView:
    """Return the view of a job that waits, for others to be made of."""
    app = App(url(folder))
    found = app.jobs.get(enqueue())
    app.close()
    return found


@pytest.fixture
def page(folder: Path) -> list[JobView]:
    """Make a page of a list."""
    any_job = view(folder)

    def job(id: str, **fields: object) -> JobView:
        ago = fields.pop("ago")
        assert isinstance(ago, float)
        fields["created_at"] = NOW - timedelta(seconds=ago)
        return structs.replace(any_job, id=UUID(f"01a20386-38bd-746c-85ed-47a982{id}"), **fields)

    progress = {"stage": "analyze", "fraction": 0.81, "message": "commit 208 of 400"}
    failed = {"state": State.FAILED, "reason": "HANDLER_ERROR", "attempt": 3}
    running = {"state": State.RUNNING, "worker": "web1-4712-9f3a01c2", "attempt": 2}
    return [
        job("0c17be", task="import_catalog", queue="imports", ago=2880.0, **running, **progress),
        job("e25d03", task="analyze", ago=220.0, **failed),
        job("9077aa", task="send_mail", ago=0.5),
    ]


@pytest.mark.parametrize("width", GOLDEN)
def test_a_list_fits_the_width_of_the_terminal(page: list[JobView], width: int) -> None:
    lines = fitted(USUAL, rows_of(page, USUAL, NOW), width)
    assert "\n".join(lines) + "\n" == GOLDEN[width]
    assert max(map(len, lines)) <= width


def on_a_terminal(*words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines that a command prints on a terminal of 80 columns."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    with pytest.raises(SystemExit) as ended:
        root.main([*words])
    assert ended.value.code == 0
    return capsys.readouterr().out.splitlines()


def test_a_terminal_shows_ends_of_ids_and_wide_shows_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job, words = enqueue(), ("jobs", "list", "--app", "shop")
    head, line = on_a_terminal(*words, monkeypatch=monkeypatch, capsys=capsys)
    assert head.split() == ["id", "task", "queue", "state", "attempt", "created"]
    assert line.split()[:4] == [job[-6:], "analyze", "default", "available"]
    head, line = on_a_terminal(*words, "--columns", "state,key,id", monkeypatch=monkeypatch, capsys=capsys)
    assert (head.split(), line.split()) == (["state", "key", "id"], ["available", job[-6:]])
    head, line = on_a_terminal(*words, "--wide", monkeypatch=monkeypatch, capsys=capsys)
    assert head.split() == [*USUAL]
    assert line.startswith(job)


def test_workflows_are_listed_as_jobs_are(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with (folder / "shop.py").open("a") as file:
        file.write("@app.workflow\ndef release(w, ref: str):\n    w.add(analyze.bind(repo_url=ref))\n")
    flow = run("enqueue", "shop", "release", '{"ref": "main"}').stdout.strip()
    words = ("workflows", "list", "--app", "shop")
    head, line = on_a_terminal(*words, monkeypatch=monkeypatch, capsys=capsys)
    assert head.split() == ["id", "workflow", "state", "queue", "created"]
    assert line.split()[:4] == [flow[-6:], "release", "blocked", "default"]
    head, line = on_a_terminal(*words, "--columns", "state,id", "--wide", monkeypatch=monkeypatch, capsys=capsys)
    assert (head.split(), line.split()) == (["state", "id"], ["blocked", flow])


def test_a_pipe_and_json_get_whole_ids_and_the_columns_asked_for(folder: Path) -> None:
    job = enqueue()
    assert run("jobs", "list", "--app", "shop", "--columns", "queue,id").stdout == f"queue\tid\ndefault\t{job}\n"
    assert [each["id"] for each in answer("jobs", "list", "--app", "shop")] == [job]
    assert "'nonsense' is not one of id, task" in run("jobs", "list", "--app", "shop", "--columns", "nonsense").stderr


def test_columns_that_are_named_are_never_left_out(page: list[JobView]) -> None:
    head = fitted(USUAL, rows_of(page, USUAL, NOW), 60, keep=USUAL)[0]
    assert head.split() == [*USUAL]


def test_wide_characters_take_two_columns() -> None:
    assert fitted(("id", "task"), [("1", "会" * 20)], 20, keep=("id", "task"))[1] == "1   " + "会" * 7 + "…"


@pytest.mark.parametrize("part", [slice(-4, None), slice(-12, None), slice(0, 34), slice(-15, None)])
def test_every_command_takes_a_part_of_an_id(folder: Path, part: slice) -> None:
    job, end = (id := enqueue()), id[part].upper()
    assert answer("jobs", "show", end, "--app", "shop")["id"] == job
    assert answer("jobs", "explain", end, "--app", "shop")["state"] == "available"
    assert answer("jobs", "signal", end, "go", "--app", "shop")["id"] == job
    assert answer("jobs", "reschedule", end, "--delay", "1h", "--app", "shop") == {job: "scheduled"}
    assert answer("jobs", "list", "--cursor", end, "--app", "shop") == []
    assert answer("jobs", "cancel", end, "--app", "shop") == {job: "cancelled"}
    assert answer("jobs", "retry", end, "--app", "shop") == {job: "available"}
    assert answer("jobs", "delete", end, "--app", "shop") == {job: "deleted"}


def test_a_part_that_fits_several_ids_lists_them_and_nothing_is_done(folder: Path) -> None:
    ids = [enqueue() for _ in range(2)]
    begin = ids[0][:8]
    done = run("jobs", "cancel", begin, "--app", "shop")
    assert (done.exit_code, done.stdout) == (1, "")
    first, *candidates, remedy = done.stderr.splitlines()
    assert first == f"error: {begin!r} is the beginning or the end of 2 ids of jobs"
    assert candidates == [f"  {id}  analyze  available" for id in reversed(ids)]
    assert remedy == "use more of its digits, or the whole id"
    error = json.loads(run("jobs", "show", begin, "--app", "shop", "--json").stderr)["error"]
    assert (error["type"], [each["id"] for each in error["candidates"]]) == ("AmbiguousId", ids[::-1])
    assert {each["state"] for each in answer("jobs", "list", "--app", "shop")} == {"available"}


@pytest.mark.parametrize(("text", "problem"), [("abc", "is not a job id"), ("0" * 12, "no job id begins or ends with")])
def test_a_part_of_no_id_is_an_error(folder: Path, text: str, problem: str) -> None:
    enqueue()
    done = run("jobs", "show", text, "--app", "shop")
    assert done.exit_code == 1
    assert problem in done.stderr


def test_a_whole_id_is_not_looked_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = enqueue()
    monkeypatch.setattr("holdfast.cli.ids._newest_jobs", lambda app: 1 / 0)
    assert answer("jobs", "show", job, "--app", "shop")["id"] == job


def test_a_running_job_is_found_by_a_part_although_many_are_newer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = enqueue()
    claim(folder, "analyze")
    other = enqueue()
    third = enqueue()
    monkeypatch.setattr("holdfast.cli.ids.NEWEST", 1)
    assert answer("jobs", "show", job[-8:], "--app", "shop")["id"] == job
    assert answer("jobs", "show", third[-8:], "--app", "shop")["id"] == third
    assert run("jobs", "show", other[-8:], "--app", "shop").exit_code == 1
