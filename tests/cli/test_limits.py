"""``holdfast limits`` and ``holdfast queues set``: what is listed and set, as text and as JSON, on every store without a server."""

from pathlib import Path

import pytest

from holdfast import App
from holdfast._engine import store_defaults
from tests.cli.support import answer, run, url
from tests.cli.test_completion import offered

MODULE = """
from holdfast import App

app = App("{url}")


@app.task
def send() -> None: ...
"""


@pytest.fixture(autouse=True, params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that commands find by themselves, with one job; the one in memory outlives its commands."""
    app = App("memory://" if request.param == "memory" else url(folder))
    (folder / "limited.py").write_text(MODULE.format(url=app.settings.url))
    app.close()
    if request.param == "memory":
        monkeypatch.setattr(App, "close", lambda _: None)
    monkeypatch.setenv("HOLDFAST_APP", "limited")
    assert run("enqueue", "limited", "send", "{}", "--queue", "mail").exit_code == 0


def test_limits_are_set_and_listed() -> None:
    options = ("--concurrency", "10", "--per-key", "2", "--rate", "100/m", "--rate-per-key", "5/s", "--burst", "20")
    done = run("limits", "set", "queue", "mail", *options)
    assert (done.exit_code, done.stdout) == (0, "limit of queue mail set; active now: 0\n")
    status = answer("limits", "set", "cluster", "--concurrency", "500")
    assert (status["scope"], status["name"], status["limit"]["concurrency"]) == ("cluster", "", 500)
    cluster, mail = answer("limits", "list")
    assert (cluster["source"], cluster["holders"], mail["name"]) == ("operator", [], "mail")
    assert mail["limit"] == {"concurrency": 10, "per_key": 2, "rate": "100/m", "rate_per_key": "5/s", "burst": 20}
    head, first, second = [line.split("\t") for line in run("limits", "list").stdout.splitlines()]
    assert head[:4] == ["scope", "name", "active", "concurrency"]
    assert first[:5] == ["cluster", "", "0", "500", ""]
    assert second == ["queue", "mail", "0", "10", "2", "100/m", "5/s", "20", "now", "", "operator"]


def test_limits_are_cleared() -> None:
    run("limits", "set", "task", "send", "--rate", "1/s")
    run("limits", "set", "cluster", "--rate", "1/s")
    assert answer("limits", "clear", "task", "send") == {"scope": "task", "name": "send"}
    assert run("limits", "clear", "cluster").stdout == "limit of the cluster cleared\n"
    assert answer("limits", "list") == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("set", "queues", "mail", "--concurrency", "1"), "'queues' is not one of 'cluster', 'task', 'queue'"),
        (("set", "cluster", "mail", "--concurrency", "1"), "the cluster has no name"),
        (("set", "queue", "--concurrency", "1"), "which queue? Write its name after the word queue"),
        (("set", "task", "a b", "--concurrency", "1"), "name='a b': use 1 to 200"),
        (("set", "queue", "mail"), "nothing to limit: use --concurrency, --per-key, --rate or --rate-per-key"),
        (("set", "queue", "mail", "--per-key", "1", "--burst", "2"), "--burst belongs to a rate: add --rate"),
        (("set", "queue", "mail", "--rate", "often"), "rate='often' is not a rate: use a number and a time"),
        (("set", "queue", "mail", "--concurrency", "-1"), "concurrency=-1 is not possible"),
        (("clear", "task"), "which task? Write its name after the word task"),
        (("clear", "queue", "mail"), "there is none; see `holdfast limits list`"),
    ],
)
def test_what_cannot_be_a_limit_is_an_error_with_its_remedy(words: tuple[str, ...], problem: str) -> None:
    done = run("limits", *words)
    assert done.exit_code == 2
    assert problem in done.stderr


def test_queues_are_set_listed_and_unset() -> None:
    done = run("queues", "set", "mail", "--priority", "-10", "--weight", "3", "--key-weight", "acme=3", "--key-weight", "a=b=2")
    assert (done.exit_code, done.stdout) == (0, "queue mail: priority -10, weight 3; keys a=b 2, acme 3\n")
    changed = answer("queues", "set", "mail", "--weight", "2")
    assert changed["queue"] == "mail"
    assert (changed["settings"]["priority"], changed["settings"]["weight"]) == (-10, 2)
    head, line = [line.split("\t") for line in run("queues", "list").stdout.splitlines()]
    assert (head[:2], head[-3:]) == (["queue", "condition"], ["priority", "weight", "key weights"])
    assert (line[:2], line[-3:]) == (["mail", "open"], ["-10", "2", "a=b=2, acme=3"])
    assert answer("queues", "list")[0]["settings"]["key_weights"] == {"acme": 3, "a=b": 2}
    assert run("queues", "unset", "mail").stdout == "queue mail: settings removed\n"
    assert answer("queues", "unset", "mail") == [{"queue": "mail"}]
    assert answer("queues", "list")[0]["settings"]["priority"] == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--weight", "-1"), "weight=-1: use an integer from 1"),
        (("--key-weight", "acme"), "'acme' is not a key and its weight: write it as acme=3"),
        (("--key-weight", "acme=0"), "'acme' has 0: use an integer from 1"),
        (("--priority", "high"), "'high' is not a valid integer"),
        ((), "nothing to set: use --priority, --weight or --key-weight"),
    ],
)
def test_what_cannot_be_a_setting_is_an_error_with_its_remedy(words: tuple[str, ...], problem: str) -> None:
    done = run("queues", "set", "mail", *words)
    assert done.exit_code == 2
    assert problem in done.stderr


def test_a_name_that_is_perhaps_misspelt_is_noted() -> None:
    done = run("limits", "set", "task", "sned", "--concurrency", "1")
    assert (done.exit_code, done.stderr) == (0, "no live worker knows the task 'sned': check its name\n")
    done = run("queues", "set", "mial", "--weight", "2")
    assert (done.exit_code, done.stderr) == (0, "the queue 'mial' had no jobs and no settings until now: check its name\n")
    assert run("queues", "set", "mail", "--weight", "2").stderr == ""
    done = run("queues", "pause", "maul", "mail")
    assert (done.stdout, done.exit_code) == ("queue maul paused\nqueue mail paused\n", 0)
    assert done.stderr == "the queue 'maul' had no jobs until now, and no task names it: check its name\n"


@pytest.mark.parametrize("words", [("queues", "purge", "a b", "--yes"), ("jobs", "list", "--queue", "a b")])
def test_a_name_that_no_queue_can_have_is_an_error(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert (done.exit_code, done.stderr) == (2, "error: queue='a b': use 1 to 200 letters, digits and _ . : -\n")


def test_a_long_name_is_not_repeated_whole() -> None:
    done = run("queues", "set", "q" * 500, "--weight", "2")
    assert (done.exit_code, len(done.stderr) < 250, "use 1 to 200" in done.stderr) == (2, True, True)


def test_a_store_without_limits_is_an_error_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_defaults, "offers", lambda *_: False)
    done = run("limits", "list", "--json")
    assert done.exit_code == 1
    assert '"type":"Unsupported"' in done.stderr
    assert "use one that does" in done.stderr


def test_scopes_and_names_are_offered(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    assert offered("holdfast limits set ") == ["cluster", "task", "queue"]
    if "memory" in (folder / "limited.py").read_text():
        assert offered("holdfast limits set queue ") == []  # only a file can be read without loading the user's code
        return
    run("limits", "set", "task", "send", "--concurrency", "1")
    assert offered("holdfast limits set queue ") == ["mail"]
    assert offered("holdfast limits set task ") == ["send"]
    assert offered("holdfast limits clear task ") == ["send"]
    assert offered("holdfast limits clear queue ") == []
