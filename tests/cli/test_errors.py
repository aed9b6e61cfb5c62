"""``holdfast errors``: what is printed of failures with one cause, and their retry."""

import re
from pathlib import Path

import click
import pytest

from holdfast import App, Fail
from holdfast.cli import output
from tests.cli.support import answer, run, url

SECRET = "card 4711"
LIST = """\
error  jobs  last  first  task  why                     where
KEY    1     TIME  TIME   pay   PERMANENT Fail
KEY    2     TIME  TIME   sync  HANDLER_ERROR KeyError  cli/test_errors.py:LINE in sync
"""


@pytest.fixture(autouse=True)
def store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find the store by themselves."""
    monkeypatch.setenv("HOLDFAST_URL", url(folder))


def fail_three(folder: Path) -> None:
    app = App(url(folder))

    @app.task(name="sync", max_attempts=1)
    async def sync(number: int) -> None:
        raise KeyError(f"{SECRET} {number}")

    @app.task(name="pay")
    async def pay() -> None:
        raise Fail(SECRET)

    for number in (1, 2):
        sync.enqueue(number=number)
        assert app.run_due() == 1
    pay.enqueue()
    assert app.run_due() == 1


def golden(text: str) -> list[list[str]]:
    """Return the words of each line, without what differs from run to run."""
    for pattern, word in ((r"\b[0-9a-f]{16}\b", "KEY"), (r"\d{4}-\d\d-\d\d \S+Z", "TIME"), (r"py:\d+", "py:LINE")):
        text = re.sub(pattern, word, text)
    return [line.split() for line in text.splitlines()]


def test_a_store_without_failures_has_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "print_table", lambda *table, empty: click.echo(empty))  # as on a terminal
    run("migrate", "shop")
    done = run("errors", "list")
    assert (done.stdout, done.stderr) == ("no job has failed\n", "")
    assert answer("errors", "list") == {"groups": [], "kinds": 0, "looked_at": 0, "back_to": None}


def test_failures_with_one_cause_are_one_line_without_their_messages(folder: Path) -> None:
    fail_three(folder)
    done = run("errors", "list")
    assert golden(done.stdout) == golden(LIST)
    document = answer("errors", "list", "--limit", "1", "--look", "2")
    assert (document["kinds"], document["looked_at"], [group["task"] for group in document["groups"]]) == (2, 2, ["pay"])
    assert SECRET not in done.stdout + str(document)
    assert done.stderr.startswith("2 errors in 3 failed jobs, back to 2")
    bounded = run("errors", "list", "--limit", "1", "--look", "2").stderr
    assert bounded.startswith("2 errors, 1 of them listed in 2 failed jobs, back to ")
    assert bounded.endswith("(there may be more: --look)\n")


def test_one_error_is_shown_and_its_jobs_are_listed_and_retried_by_its_key(folder: Path) -> None:
    fail_three(folder)
    other, group = answer("errors", "list")["groups"]
    shown = run("errors", "show", group["key"][:6]).stdout
    assert f"{SECRET} 2" in shown
    assert "Traceback" in shown
    document = answer("errors", "show", group["key"])
    assert (document["count"], document["job"], document["traceback"][:9]) == (2, group["job"], "Traceback")
    assert [job["error_key"] for job in answer("jobs", "list", "--error", group["key"][:6])] == [group["key"]] * 2
    assert run("errors", "retry", group["key"], "--dry-run").stdout.startswith("would retry 2 jobs")
    assert run("errors", "retry", group["key"][:6], "--limit", "1", "--yes").stdout == "1 job; 1 available\n"
    assert answer("jobs", "retry", "--error", group["key"][:6], "--yes")["states"] == {"available": 1}
    assert [each["key"] for each in answer("errors", "list")["groups"]] == [other["key"]]
    unknown = run("errors", "retry", group["key"], "--yes")
    assert (unknown.exit_code, "holdfast errors list" in unknown.stderr) == (1, True)


@pytest.mark.parametrize("option", ["--reason", "--because"])
def test_the_reason_of_a_retry_is_recorded(folder: Path, option: str) -> None:
    fail_three(folder)
    key = answer("errors", "list")["groups"][0]["key"]
    assert run("errors", "retry", key, "--yes", option, "the bank is back").exit_code == 0
    assert [(each["action"], each["reason"]) for each in answer("audit")] == [("retry", "the bank is back")]
