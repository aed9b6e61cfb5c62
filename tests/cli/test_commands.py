"""Commands as typed: what they print for people, pipes and programs, and how they end."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast import App, StoreUnavailable
from holdfast._core.lifecycle import State
from holdfast.cli.commands import root

TASKS = """
from holdfast import App, Job

app = App("{url}", ttl="3s")
empty = App("memory://")

@app.task
async def analyze(job: Job, repo_url: str, limit: int = 100) -> dict:
    return {{}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's folder with `shop.py` in it."""
    (tmp_path / "shop.py").write_text(TASKS.format(url=f"sqlite:///{tmp_path}/jobs.db"))
    for name in ("HOLDFAST_APP", "HOLDFAST_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def run(*words: str) -> Result:
    return CliRunner().invoke(root, words)


def enqueue(payload: str = '{"repo_url": "u"}') -> str:
    done = run("enqueue", "shop:app", "analyze", payload)
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


def test_enqueue_prints_the_id_and_show_shows_the_job(folder: Path) -> None:
    job = enqueue()
    document = json.loads(run("jobs", "show", job, "--app", "shop", "--json").stdout)
    assert (document["id"], document["state"], document["payload"]) == (job, "available", {"repo_url": "u"})
    assert document["created_at"].endswith("Z")
    text = run("jobs", "show", job, "--app", "shop").stdout
    assert 'payload          {"repo_url":"u"}' in text


def test_list_is_tab_separated_in_a_pipe_and_a_list_in_json(folder: Path) -> None:
    first, second = enqueue(), enqueue('{"repo_url": "v", "limit": 5}')
    lines = run("jobs", "list", "--app", "shop:app").stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["id", second, first]
    page = json.loads(run("jobs", "list", "--app", "shop:app", "--cursor", second, "--json").stdout)
    assert [job["id"] for job in page] == [first]
    assert json.loads(run("jobs", "list", "--app", "shop:app", "--state", "failed", "--json").stdout) == []


def test_counts_hold_all_states(folder: Path) -> None:
    enqueue()
    document = json.loads(run("jobs", "counts", "--app", "shop", "--json").stdout)
    assert document == {state.value: int(state is State.AVAILABLE) for state in State}
    nested = json.loads(run("jobs", "counts", "--by", "task", "--app", "shop", "--json").stdout)
    assert nested == {"analyze": document}
    assert "analyze\t0\t1" in run("jobs", "counts", "--by", "task", "--app", "shop").stdout


def test_jobs_are_cancelled_and_run_again(folder: Path) -> None:
    job = enqueue()
    assert run("jobs", "cancel", job, "--app", "shop").stdout.splitlines() == ["id\tstate", f"{job}\tcancelled"]
    assert json.loads(run("jobs", "retry", job, "--app", "shop", "--json").stdout) == {job: "available"}


def test_an_id_that_does_not_exist_fails(folder: Path) -> None:
    unknown = "01a1f8b1-ee66-738d-b504-41402640ee47"
    done = run("jobs", "cancel", unknown, "--app", "shop")
    assert (done.exit_code, done.stdout.splitlines()[1]) == (1, f"{unknown}\tunknown")
    done = run("jobs", "show", unknown, "--app", "shop", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stderr)["error"]["type"] == "JobNotFound"


def test_the_store_is_found_by_option_or_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = enqueue()
    url = f"sqlite:///{folder}/jobs.db"
    assert job in run("jobs", "list", "--url", url).stdout
    monkeypatch.setenv("HOLDFAST_URL", url)
    assert job in run("jobs", "list").stdout
    monkeypatch.setenv("HOLDFAST_APP", "shop:empty")
    assert job not in run("jobs", "list").stdout
    assert job in run("jobs", "list", "--url", url).stdout
    done = run("jobs", "list", "--url", url, "--app", "shop")
    assert (done.exit_code, done.stderr.strip()) == (2, "error: --app and --url: use one of them")


def test_migrate_check_recover_and_workers_say_what_they_found(folder: Path) -> None:
    assert run("migrate", "shop").exit_code == 0
    assert "up to date already" in run("migrate", "shop").stdout
    findings = json.loads(run("check", "shop", "--json").stdout)
    assert {"level", "name", "message", "remedy"} == set(findings[0])
    assert json.loads(run("recover", "shop", "--json").stdout) == []
    assert json.loads(run("workers", "list", "--app", "shop", "--json").stdout) == []


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["jobs", "list"], 2, "HOLDFAST_APP"),
        (["jobs", "list", "--app", "nowhere"], 2, "there is no module 'nowhere'"),
        (["jobs", "list", "--app", "shop.nowhere"], 2, "there is no module"),
        (["jobs", "list", "--app", "shop:nothing"], 2, "there is shop:app, shop:empty"),
        (["jobs", "list", "--app", "shop:analyze"], 2, "is Task, not an App"),
        (["jobs", "list", "--app", "shop.py:app"], 2, "there is no module"),
        (["jobs", "list", "--app", "./shop.py"], 2, "write a dotted module name"),
        (["jobs", "list", "--app", "broken"], 2, "broken.py:3"),
        (["jobs", "list", "--app", "lonely"], 2, "importing lonely failed: ModuleNotFoundError: No module named 'not_there'"),
        (["jobs", "list", "--app", "script"], 2, "SystemExit"),
        (["jobs", "list", "--app", "wrong"], 2, "ttl:"),
        (["jobs", "list", "--url", "jobs.db"], 2, "sqlite:///relative.db"),
        (["jobs", "list", "--state", "done"], 2, "--state"),
        (["jobs", "show"], 2, "Missing argument"),
        (["nonsense"], 2, "No such command"),
        (["enqueue", "shop:app", "analyse", "{}"], 2, "there are: analyze"),
        (["enqueue", "shop:app", "analyze"], 2, "repo_url"),
        (["enqueue", "shop:app", "analyze", '{"repo_url": 5}'], 2, "Expected `str`, got `int` - at `$.repo_url`"),
        (["enqueue", "shop:app", "analyze", "[1]"], 2, "is no JSON object"),
        (["enqueue", "shop:app", "analyze", "{"], 2, "truncated"),
        (["worker", "shop", "--processes", "0"], 2, "--processes"),
        (["worker", "shop", "--queues", "a,,b"], 2, "--queues: ''"),
        (["worker", "shop", "--grace", "soon"], 2, "is no duration"),
    ],
)
def test_wrong_input_ends_with_a_line_that_says_what_to_do(folder: Path, words: list[str], code: int, text: str) -> None:
    (folder / "broken.py").write_text("x = 1\n\nx = y\n")
    (folder / "lonely.py").write_text("import not_there\n")
    (folder / "script.py").write_text("raise SystemExit('run me')\n")
    (folder / "wrong.py").write_text("from holdfast import App\napp = App('memory://', ttl='soon', beat='never')\n")
    done = run(*words)
    assert (done.exit_code, done.stdout) == (code, "")
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    document = json.loads(run(*words, "--json").stderr) if words[0] == "jobs" else {"error": {"message": text}}
    assert text in document["error"]["message"]


def test_a_store_out_of_reach_is_its_own_exit_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(self: App) -> None:
        raise StoreUnavailable("nobody answers")

    monkeypatch.setattr(App, "migrate", away)
    done = run("migrate", "shop")
    assert (done.exit_code, done.stderr.splitlines()[0]) == (75, "error: nobody answers")


def test_text_from_payloads_cannot_steer_a_terminal(folder: Path) -> None:
    job = enqueue('{"repo_url": "\\u001b[2J\\u009b"}')
    for words in (["jobs", "show", job], ["jobs", "list"]):
        assert "\x1b" not in run(*words, "--app", "shop").stdout


@pytest.mark.parametrize("words", [[], ["jobs"], ["jobs", "list"], ["worker"], ["enqueue"], ["recover"], ["workers", "list"]])
def test_every_command_explains_itself(words: list[str]) -> None:
    done = run(*words, "--help")
    assert done.exit_code == 0
    assert done.stdout.startswith("Usage:")
