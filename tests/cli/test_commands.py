"""Commands as typed: what they print for people, pipes and programs, and how they end."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from holdfast import App, Backoff, Job, StoreUnavailable
from holdfast._core.lifecycle import State
from holdfast._processes.loading import opened
from holdfast.cli.commands import root
from tests.cli.support import answer, claim, enqueue, run, serve, url


def test_enqueue_prints_the_id_and_show_shows_the_job(folder: Path) -> None:
    job = enqueue()
    document = json.loads(run("jobs", "show", job, "--app", "shop", "--json").stdout)
    assert (document["id"], document["state"], document["payload"]) == (job, "available", {"repo_url": "u"})
    assert document["created_at"].endswith("Z")
    text = run("jobs", "show", job, "--app", "shop").stdout
    assert 'payload          {"repo_url":"u"}' in text


def test_show_prints_what_happened_before_the_facts(folder: Path) -> None:
    job = enqueue()
    claim(folder, "analyze", worker="elsewhere-7-0000", is_dead=True)
    assert run("recover", "shop:app").exit_code == 0
    summary, empty, *lines = run("jobs", "show", job, "--app", "shop").stdout.splitlines()
    happened = lines[: lines.index("")]
    timeline = lines[len(happened) + 1 : lines.index("", len(happened) + 1)]
    facts = lines[len(happened) + len(timeline) + 2 :]
    assert summary.startswith("Its second attempt has waited for ")
    assert summary.endswith(" in queue default for a worker. Attempt 1 was killed by SIGKILL.")
    assert empty == ""
    assert [re.sub(r" by command \S+:", ":", line.split("s  ")[1]) for line in happened[:4]] == [
        "Enqueued to queue default",
        "Attempt 1 on elsewhere-7-0000",
        "Killed: SIGKILL",
        "Rescued: the job returned to its queue, crash 1 of 3",
    ]
    names = [line[: len("elsewhere-7-0000  ")].rstrip() for line in timeline]
    assert names == ["", "state", "attempt 1", "elsewhere-7-0000"]
    assert timeline[2].endswith("┃ killed: SIGKILL")
    assert re.search(r"┃ ⚓ rescued by \S+, crash 1 of 3$", timeline[3])
    assert facts[:2] == [f"id               {job}", "task             analyze"]
    story = answer("jobs", "show", job, "--app", "shop")["story"]
    assert [entry["kind"] for entry in story["entries"]] == ["enqueued", "started", "killed", "rescued", "waiting"]
    assert [(lane["attempt"], lane["ending"]) for lane in story["lanes"]] == [(1, "killed")]


def test_show_cuts_long_values_and_earlier_tracebacks_unless_it_is_asked_for_them(folder: Path) -> None:
    app = App(url(folder))

    @app.task(name="analyze", max_attempts=2, backoff=Backoff.fixed("0s"))
    async def analyze(job: Job, repo_url: str) -> None:
        raise KeyError(f"sku {job.attempt}")

    job = str(analyze.enqueue(repo_url="u" * 300).id)
    assert app.run_due() == 2
    short, full, payload = (run("jobs", "show", job, "--app", "shop", *more).stdout for more in ((), ("--full",), ("--payload",)))
    assert "… (315 characters: --payload shows them)" in short
    assert "--full shows the tracebacks, stacks and late results of attempt 1 as well." in short
    assert [text.count("attempt 1, traceback:\nTraceback ") for text in (short, full)] == [0, 1]
    assert [text.count("attempt 2, traceback:\nTraceback ") for text in (short, full)] == [1, 1]
    assert "u" * 300 not in short
    assert f'payload          {{"repo_url":"{"u" * 300}"}}' in full
    assert f'payload:\n{{\n  "repo_url": "{"u" * 300}"\n}}' in payload


def test_the_story_of_a_cancelled_job_cannot_steer_a_terminal(folder: Path) -> None:
    job = enqueue()
    claim(folder, "analyze", worker="evil\x1b[2J", is_dead=True)
    assert run("recover", "shop:app").exit_code == 0
    assert run("jobs", "cancel", job, "--app", "shop").exit_code == 0
    text = run("jobs", "show", job, "--app", "shop").stdout
    assert text.startswith("Cancelled after its first attempt, ")
    assert "Attempt 1 on evil\\x1b[2J\n" in text
    assert "\x1b" not in text


def test_enqueue_takes_the_options_of_a_job(folder: Path) -> None:
    words = ("enqueue", "shop:app", "analyze", '{"repo_url": "u"}', "--queue", "urgent", "--priority", "-3", "--key", "acme")
    more = (
        "--unique-key",
        "u",
        "--tag",
        "a",
        "--tag",
        "b",
        "--header",
        "trace=1=2",
        "--header",
        "empty=",
        "--delay",
        "1h",
        "--expires-in",
        "1d",
    )
    first, again = run(*words, *more), run(*words, *more)
    assert first.exit_code == 0, first.output
    assert again.stdout == first.stdout
    job = answer("jobs", "show", first.stdout.strip(), "--app", "shop")
    assert (job["queue"], job["priority"], job["key"], job["unique_key"]) == ("urgent", -3, "acme", "u")
    assert (job["state"], job["tags"], job["headers"]) == ("scheduled", ["a", "b"], {"trace": "1=2", "empty": ""})
    assert run(*words, "--at", "2030-01-01T00:00Z").exit_code == 0


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
    run("migrate", "shop")
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
    assert json.loads(run("recover", "shop", "--only", "claimed", "--only", "expired", "--json").stdout) == []
    assert json.loads(run("workers", "list", "--app", "shop", "--json").stdout) == []


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["jobs", "list"], 2, "HOLDFAST_APP"),
        (["jobs", "list", "--app", "nowhere"], 2, "there is no module 'nowhere'"),
        (["jobs", "list", "--app", "shop.nowhere"], 2, "there is no module"),
        (["jobs", "list", "--app", "shop:nothing"], 2, "there is shop:app, shop:empty"),
        (["jobs", "list", "--app", "shop:analyze"], 2, "is Task, not an App"),
        (["jobs", "list", "--app", "shop.py:app"], 2, "'shop.py:app' is a file: write shop:app"),
        (["jobs", "list", "--app", "./shop.py"], 2, "write shop:app"),
        (["jobs", "list", "--app", "../shop.py"], 2, "write a dotted module name"),
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
        (["enqueue", "shop:app", "analyze", "{}", "--header", "=v"], 2, "write NAME=VALUE"),
        (["enqueue", "shop:app", "analyze", "{}", "--header", "name"], 2, "write NAME=VALUE"),
        (["enqueue", "shop:app", "analyze", "{}", "--header", f"name={'x' * 4096}"], 2, "headers"),
        (["enqueue", "shop:app", "analyze", "{}", "--queue", ""], 2, "queue"),
        (["enqueue", "shop:app", "analyze", "{}", "--delay", "1s", "--at", "2030-01-01T00:00Z"], 2, "one of them"),
        (["enqueue", "shop:app", "analyze", '{"repo_url": 5}'], 2, "Expected `str`, got `int` - at `$.repo_url`"),
        (["enqueue", "shop:app", "analyze", "[1]"], 2, "is not a JSON object"),
        (["enqueue", "shop:app", "analyze", "{"], 2, "truncated"),
        (
            ["enqueue", "shop:app", "analyze", '{"repo_url": "\udcff"}'],
            2,
            "PAYLOAD is not UTF-8 from its character 15 on: write UTF-8",
        ),
        (["enqueue", "shop:app", "analyze", '{"repo_url": "\\ud800"}'], 2, "ends in half of a surrogate pair"),
        (
            ["enqueue", "shop:app", "analyze", "{}", "--header", "tenant=\udcff"],
            2,
            "--header is not UTF-8 from its character 8 on",
        ),
        (["jobs", "signal", "x", "go", '"\udcff"', "--app", "shop"], 2, "VALUE is not UTF-8"),
        (["jobs", "list", "--limit", "many"], 2, "'many' is not a valid integer."),
        (["worker", "shop", "--processes", "0"], 2, "--processes"),
        (["worker", "shop", "--queues", "a,,b"], 2, "--queues: ''"),
        (["worker", "shop", "--grace", "soon"], 2, "is not a duration"),
        (["jobs", "explain", "x", "--app", "shop"], 1, "is not a job id"),
        (["jobs", "cancel", "x", "--app", "shop"], 1, "is not a job id"),
        (["jobs", "cancel"], 2, "no jobs chosen"),
        (["jobs", "cancel", "x", "--all"], 2, "use one of them"),
        (["jobs", "cancel", "--all", "--app", "shop"], 2, "Pass --yes"),
        (["jobs", "retry", "--all", "--yes"], 2, "--state"),
        (["jobs", "reschedule", "x"], 2, "--delay or --at"),
        (["jobs", "reschedule", "x", "--delay", "1s", "--at", "2030-01-01T00:00Z"], 2, "one of them"),
        (["jobs", "reschedule", "x", "--at", "2030-01-01T00:00"], 2, "has no zone"),
        (["jobs", "reschedule", "x", "--at", "soon"], 2, "is not a time"),
        (["jobs", "delete", "--reason", "BAD_LUCK"], 2, "--reason"),
        (["queues", "pause"], 2, "Missing argument"),
        (["completion", "csh"], 2, "'csh'"),
    ],
)
def test_wrong_input_ends_with_a_line_that_names_the_remedy(folder: Path, words: list[str], code: int, text: str) -> None:
    (folder / "broken.py").write_text("x = 1\n\nx = y\n")
    (folder / "lonely.py").write_text("import not_there\n")
    (folder / "script.py").write_text("raise SystemExit('run me')\n")
    (folder / "wrong.py").write_text("from holdfast import App\napp = App('memory://', ttl='soon', beat='never')\n")
    enqueue()
    done = run(*words)
    assert (done.exit_code, done.stdout) == (code, "")
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    document = json.loads(run(*words, "--json").stderr) if words[0] == "jobs" else {"error": {"message": text}}
    assert text in document["error"]["message"]


def test_a_store_out_of_reach_is_its_own_exit_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(self: App) -> None:
        raise StoreUnavailable("no server answers")

    monkeypatch.setattr(App, "migrate", away)
    done = run("migrate", "shop")
    assert (done.exit_code, done.stderr.splitlines()[0]) == (75, "error: no server answers")


def test_text_from_payloads_cannot_steer_a_terminal(folder: Path) -> None:
    job = enqueue('{"repo_url": "\\u001b[2J\\u009b"}')
    for words in (["jobs", "show", job], ["jobs", "list"]):
        assert "\x1b" not in run(*words, "--app", "shop").stdout


def every_command(group: click.Group = root, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, command in group.commands.items():
        yield from every_command(command, (*path, name)) if isinstance(command, click.Group) else [(*path, name)]


@pytest.mark.parametrize("words", list(every_command()))
def test_every_command_and_every_option_explains_itself(words: tuple[str, ...]) -> None:
    done = run(*words, "--help")
    assert done.exit_code == 0
    assert done.stdout.startswith("Usage:")
    command: click.Command = root
    for word in words:
        command = command.commands[word]  # type: ignore[attr-defined]
    assert command.help
    assert [option.name for option in command.params if isinstance(option, click.Option) and not option.help] == []


READING = [["jobs", "list"], ["jobs", "counts"], ["queues", "list"], ["workers", "list"], ["top"], ["prune"]]


@pytest.mark.parametrize("words", READING)
def test_every_reading_command_answers_with_one_document(folder: Path, words: list[str]) -> None:
    enqueue()
    done = run(*words, "--app", "shop", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout) is not None
    assert len(done.stdout.splitlines()) == 1


def test_the_exit_code_of_check_is_one_when_something_is_wrong(folder: Path) -> None:
    done = run("check", "shop")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == "level\tname\tfinding\tremedy"
    (folder / "later.py").write_text(
        f"from holdfast import App\napp = App('sqlite:///{folder}/jobs.db')\n"
        "one = app.task(name='one', progress_within='1s')(lambda: None)\n"
        "two = app.task(name='two', progress_within='2s')(lambda: None)\n"
    )
    done = run("check", "later")
    assert done.exit_code == 1
    assert [line.split("\t")[0] for line in done.stdout.splitlines()[1:3]] == ["error", "error"]
    assert all(name in done.stdout for name in ("task one", "task two"))


def test_wrong_settings_are_all_reported_at_once(folder: Path) -> None:
    (folder / "wrong.py").write_text("from holdfast import App\napp = App('sqlite:///x.db', ttl='soon', grace='never')\n")
    done = run("check", "wrong")
    assert done.exit_code == 2
    assert [line[:10] for line in done.stderr.splitlines()] == ["error: ttl", "error: gra"]


def test_a_rescue_is_reported_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    job = enqueue()
    assert [str(each) for each in claim(folder, "analyze", is_dead=True)] == [job]
    assert json.loads(run("recover", "shop", "--dry-run", "--json").stdout) == {
        "analyze": {"expired": 0, "ended": 1, "overdue": 0}
    }
    assert run("recover", "shop", "--dry-run").stdout.split() == ["task", "expired", "ended", "overdue", "analyze", "0", "1", "0"]
    done = run("recover", "shop")
    assert done.exit_code == 0
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["id", job]
    assert [record.getMessage() for record in caplog.records if job in record.getMessage()] == []


def test_lists_go_on_where_the_page_before_ended(folder: Path) -> None:
    jobs = [enqueue() for _ in range(3)]
    done = run("jobs", "list", "--limit", "2", "--app", "shop")
    assert [line.split("\t")[0] for line in done.stdout.splitlines()[1:]] == [jobs[2], jobs[1]]
    assert done.stderr.strip().endswith(f"--cursor {jobs[1]}")


def test_explain_names_what_stands_in_the_way_and_its_remedy(folder: Path) -> None:
    job = enqueue()
    run("queues", "pause", "default", "--app", "shop")
    found = json.loads(run("jobs", "explain", job, "--app", "shop", "--json").stdout)
    assert [cause["code"] for cause in found["causes"]] == ["paused", "no_live_worker"]
    lines = run("jobs", "explain", job, "--app", "shop").stdout.splitlines()
    assert lines[0].split() == ["state", "available"]
    assert lines[1].startswith("paused")
    assert "holdfast queues resume default" in lines[2]


def test_check_reports_what_a_worker_would_refuse_and_what_waits(folder: Path) -> None:
    found = json.loads(run("check", "shop:empty", "--json").stdout)
    assert [(each["level"], each["name"]) for each in found][:2] == [("warning", "tasks"), ("warning", "store")]
    enqueue()
    run("queues", "pause", "mail", "--app", "shop")
    done = run("check", "shop")
    assert done.exit_code == 0
    warnings = [line.split("\t")[1] for line in done.stdout.splitlines() if line.startswith("warning")]
    assert {"workers", "queues"} <= set(warnings)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()[1:]] == ["warning"] * len(warnings) + ["ok"] * (
        len(done.stdout.splitlines()) - 1 - len(warnings)
    )


def test_a_list_names_a_reason_once_that_is_also_the_type_of_the_error(folder: Path) -> None:
    task = '@app.task(timeout="50ms", max_attempts=1)\nasync def wait() -> None:\n    await asyncio.Event().wait()\n'
    (folder / "slow.py").write_text(f"import asyncio\nfrom holdfast import App\napp = App('{url(folder)}')\n{task}")
    run("enqueue", "slow", "wait")
    with opened("slow") as app:
        assert app.run_due() == 1
    (line,) = run("jobs", "list", "--app", "slow").stdout.splitlines()[1:]
    assert line.split("\t")[-1] == "TIMED_OUT"


def test_check_names_a_queue_that_a_worker_serves_although_there_is_no_sign_of_it(folder: Path) -> None:
    enqueue()
    serve(folder, "defualt", "default")
    (found,) = [each for each in answer("check", "shop") if each["name"] == "queues"]
    assert found["level"] == "warning"
    assert "queue defualt has never had a job" in found["message"]
    assert found["message"].endswith("did you mean default?")
    assert found["remedy"] == "if it is misspelt, correct --queues of elsewhere-7-0000"
