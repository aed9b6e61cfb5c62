"""`holdfast enqueue`: whose task, which payload, many at once, and waiting for the result."""

import importlib
import json
from pathlib import Path

import click
import pytest

from holdfast import Handle
from holdfast.cli.enqueue import Words, words_of
from tests.cli.support import answer, run, url

PAYLOAD = '{"repo_url": "u"}'
TASKS = """
@app.task(max_attempts=1)
def count(to: int) -> list[int]:
    return [1 // (to - n) for n in range(to + (to == 5))]

@app.workflow
def release(w, ref: str):
    w.add(analyze.bind(repo_url=ref))
"""


@pytest.fixture(autouse=True)
def tasks(folder: Path) -> None:
    """Give the App two more tasks."""
    with (folder / "shop.py").open("a") as file:
        file.write(TASKS)


def payloads() -> list[object]:
    """Return the payloads of all jobs, the newest first."""
    return [
        answer("jobs", "show", job["id"], "--app", "shop")["payload"]
        for job in answer("jobs", "list", "--app", "shop")
        if job["task"] != "release"
    ]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["mail"], Words(None, "mail", None)),
        (["mail", "{}"], Words(None, "mail", "{}")),
        (["mail", "@mail.json"], Words(None, "mail", "@mail.json")),
        (["mail", "-"], Words(None, "mail", "-")),
        (["shop", "mail"], Words("shop", "mail", None)),
        (["shop", "mail", "{}"], Words("shop", "mail", "{}")),
    ],
)
def test_words_are_never_ambiguous(words: list[str], meant: Words) -> None:
    assert words_of(words) == meant


def test_more_words_are_refused() -> None:
    with pytest.raises(click.UsageError, match="4 words given"):
        words_of(["shop", "mail", "{}", "{}"])


@pytest.mark.parametrize(
    "words", [["analyze", PAYLOAD, "--app", "shop"], ["--app", "shop", "analyze", PAYLOAD], ["shop", "analyze", PAYLOAD]]
)
def test_the_app_is_named_by_its_option_or_by_the_first_word(words: list[str]) -> None:
    assert run("enqueue", *words).exit_code == 0
    assert payloads() == [{"repo_url": "u"}]


def test_the_environment_names_the_app_of_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_APP", "shop")
    assert run("enqueue", "analyze", PAYLOAD).exit_code == 0
    for words in (["check"], ["migrate"], ["recover", "--dry-run"]):
        assert run(*words).exit_code == 0
        assert run(*words, "shop:app").exit_code == 0
        assert run(*words, "--app", "shop").exit_code == 0


@pytest.mark.parametrize("words", [["enqueue", "analyze"], ["worker"], ["recover"]])
def test_without_an_app_the_command_names_all_ways(words: list[str]) -> None:
    done = run(*words)
    assert done.exit_code == 2
    assert "no App named: pass MODULE:APP or --app MODULE:APP, or set HOLDFAST_APP" in done.stderr


@pytest.mark.parametrize("command", ["check", "migrate"])
def test_a_url_is_enough_for_commands_that_need_no_task(folder: Path, command: str) -> None:
    done = run(command)
    assert (done.exit_code, "pass --app module:app or --url sqlite:///jobs.db, or set" in done.stderr) == (2, True)
    assert run("migrate", "--url", url(folder)).exit_code == 0
    done = run(command, "--url", url(folder))
    assert (done.exit_code, "has no tasks" in done.stdout) == (0, False)
    done = run(command, "shop", "--url", url(folder))
    assert (done.exit_code, "--app and --url: use one of them" in done.stderr) == (2, True)


TAKE_AN_APP = [["enqueue", "shop", "analyze"], *([name, "shop"] for name in ("check", "worker", "broker", "top", "dashboard"))]


@pytest.mark.parametrize("words", TAKE_AN_APP)
def test_two_apps_are_refused(words: list[str]) -> None:
    done = run(*words, "--app", "shop")
    assert (done.exit_code, "two Apps named" in done.stderr) == (2, True)


def test_a_broker_takes_the_option_as_well() -> None:
    done = run("broker", "--app", "nowhere")
    assert (done.exit_code, "nowhere" in done.stderr) == (2, True)


def test_a_payload_is_read_from_a_file_or_from_stdin(folder: Path) -> None:
    (folder / "one.json").write_text('{"repo_url": "file"}')
    assert run("enqueue", "shop", "analyze", "@one.json").exit_code == 0
    assert run("enqueue", "analyze", "-", "--app", "shop", input='{"repo_url": "stdin"}').exit_code == 0
    assert payloads() == [{"repo_url": "stdin"}, {"repo_url": "file"}]
    done = run("enqueue", "shop", "analyze", "@missing.json")
    assert (done.exit_code, done.stderr) == (2, "error: 'missing.json' cannot be read: No such file or directory\n")


def test_a_file_enqueues_a_job_for_each_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.cli.enqueue.AT_ONCE", 2)
    (folder / "many.jsonl").write_text("".join(f'{{"repo_url": "{n}"}}\n' for n in range(5)) + "\n")
    done = run("enqueue", "shop", "analyze", "--many", "many.jsonl", "--queue", "mass", "--tag", "t")
    assert done.exit_code == 0
    jobs = answer("jobs", "list", "--app", "shop")
    assert done.stdout.split() == [job["id"] for job in reversed(jobs)]
    assert {(job["queue"], *job["tags"]) for job in jobs} == {("mass", "t")}
    assert run("enqueue", "shop", "release", "--many", "-", input='{"ref": "main"}\n{"ref": "old"}').stdout.count("\n") == 2


@pytest.mark.parametrize(
    ("line", "problem"), [("{", "is not JSON"), ("[]", "is not a JSON object"), ('{"repo_url": 5}', "Expected `str`, got `int`")]
)
def test_a_wrong_line_is_named_and_nothing_is_enqueued(folder: Path, line: str, problem: str) -> None:
    (folder / "many.jsonl").write_text(f"{PAYLOAD}\n{line}\n")
    done = run("enqueue", "shop", "analyze", "--many", "many.jsonl")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: many.jsonl, line 2")
    assert problem in done.stderr
    run("migrate", "shop")
    assert payloads() == []


@pytest.mark.parametrize("words", [[PAYLOAD], ["--unique-key", "k"], ["--wait"]])
def test_many_jobs_share_no_payload_no_unique_key_and_no_wait(words: list[str]) -> None:
    done = run("enqueue", "shop", "analyze", *words, "--many", "many.jsonl")
    assert (done.exit_code, "--many: it goes with" in done.stderr) == (2, True)


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run what is due once the command begins to wait."""
    plain = Handle.plain

    def run_and_return(self: "Handle[object]") -> Handle:
        importlib.import_module("shop").app.run_due()
        return plain(self)

    monkeypatch.setattr(Handle, "plain", run_and_return)


@pytest.mark.usefixtures("works")
@pytest.mark.parametrize("wait", ["--wait", "--wait=60s"])
def test_waiting_prints_the_result(wait: str) -> None:
    done = run("enqueue", "shop", "count", '{"to": 2}', wait)
    assert (done.exit_code, json.loads(done.stdout)) == (0, [0, 1])
    assert len(done.stderr.strip()) == 36


@pytest.mark.usefixtures("works")
def test_waiting_for_a_job_that_fails_is_an_error() -> None:
    done = run("enqueue", "shop", "count", '{"to": 5}', "--wait")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "ZeroDivisionError" in done.stderr


def test_waiting_ends_after_its_time() -> None:
    done = run("enqueue", "shop", "count", '{"to": 5}', "--wait=0s")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "has not finished after 0 s: see `holdfast jobs follow" in done.stderr


def test_a_word_after_wait_is_not_taken_for_a_time() -> None:
    done = run("enqueue", "shop", "--wait", "count", '{"to": 5}')
    assert (done.exit_code, "write --wait=60s, or --wait as the last word" in done.stderr) == (2, True)


def test_a_key_that_is_held_for_a_period_prints_the_job_that_has_completed(folder: Path) -> None:
    words = ("enqueue", "shop", "analyze", PAYLOAD, "--unique-key", "night", "--unique-for", "20h")
    first = run(*words).stdout
    importlib.import_module("shop").app.run_due()
    assert run(*words).stdout == first
    assert answer("jobs", "show", first.strip(), "--app", "shop")["unique_for"] == 72000.0
