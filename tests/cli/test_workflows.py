"""``holdfast workflows``: what is listed, drawn, steered and repaired, as text and as JSON."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import App, Node, Workflow
from tests.cli.support import answer, run, url
from tests.cli.test_completion import offered


@pytest.fixture(autouse=True)
def ids(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Two workflows of two nodes, in a store that commands find by themselves: the first is new, of the second one node failed."""
    monkeypatch.setenv("HOLDFAST_URL", url(folder))
    app = App(url(folder))

    @app.task(max_attempts=1)
    def build(ref: str) -> str:
        return ref[0]

    @app.task
    def publish(built: str) -> None: ...

    @app.workflow
    def release(w: Workflow, ref: str) -> Node[None]:
        return w.add(publish.bind(built=w.add(build.bind(ref)).output))

    failed = release.enqueue("")
    app.run_due()
    new = release.options(queue="ci", tags=["nightly"]).enqueue("main")
    app.close()
    return str(new.id), str(failed.id)


def test_workflows_are_listed_newest_first_without_their_nodes(ids: tuple[str, str]) -> None:
    assert [(each["id"], each["state"]) for each in answer("workflows", "list")] == [(ids[0], "blocked"), (ids[1], "failed")]
    assert [each["id"] for each in answer("workflows", "list", "--state", "failed", "--name", "release")] == [ids[1]]
    assert [each["id"] for each in answer("workflows", "list", "--queue", "ci", "--tag", "nightly")] == [ids[0]]
    assert [each["id"] for each in answer("workflows", "list", "--limit", "1", "--cursor", ids[0])] == [ids[1]]
    lines = run("workflows", "list").stdout.splitlines()
    assert lines[0].split("\t")[:3] == ["id", "workflow", "state"]
    assert lines[2].split("\t")[-1] == "build did not complete"


def test_a_workflow_is_shown_as_text_svg_mermaid_and_json(ids: tuple[str, str]) -> None:
    lines = run("workflows", "show", ids[0]).stdout.splitlines()
    assert lines[0] == "release: waiting, 0 of 2 nodes done"
    assert lines[-1].split() == ["·", "publish", "blocked", "waits", "for", "build"]
    failed = answer("workflows", "show", ids[1])["nodes"][0]["job"]
    below = run("workflows", "show", ids[1]).stdout.splitlines()[-1]
    assert below == f"✗ build ({failed})  HANDLER_ERROR: IndexError: string index out of range"
    assert run("workflows", "show", ids[0], "--svg").stdout.startswith("<svg ")
    assert "flowchart LR" in run("workflows", "show", ids[1], "--mermaid").stdout
    assert [node["name"] for node in answer("workflows", "show", ids[0])["nodes"]] == ["build", "publish"]
    assert run("workflows", "show", ids[0], "--svg", "--json").exit_code == 2


def test_workflows_are_paused_resumed_cancelled_and_retried(ids: tuple[str, str]) -> None:
    assert run("workflows", "pause", ids[0]).stdout == f"workflow {ids[0]}: blocked\n"
    assert "paused" in run("workflows", "show", ids[0]).stdout
    assert answer("workflows", "resume", ids[0], "--failed", "continue") == {ids[0]: "blocked"}
    assert answer("workflows", "cancel", *ids) == {ids[0]: "cancelled", ids[1]: "failed"}
    assert answer("workflows", "retry", ids[0], "--from", "build") == {ids[0]: "blocked"}
    assert answer("workflows", "retry", ids[1], "--fresh") == {ids[1]: "blocked"}


def test_a_retry_that_runs_nothing_is_reported(ids: tuple[str, str]) -> None:
    app = App(os.environ["HOLDFAST_URL"])

    @app.task
    def load() -> None: ...

    with app.workflow("loading") as w:
        w.add(load.bind())
    app.run_due()
    app.workflows.cancel(ids[0])
    done = run("workflows", "retry", str(w.handle.id), ids[0])
    nothing = "nothing runs again, every node has completed; `--from NODE` runs one again"
    assert done.stdout.splitlines() == [f"workflow {w.handle.id}: completed, {nothing}", f"workflow {ids[0]}: blocked"]
    assert (done.exit_code, answer("workflows", "retry", str(w.handle.id))) == (0, {str(w.handle.id): "completed"})


def test_damaged_workflows_are_repaired_after_a_dry_run(ids: tuple[str, str], folder: Path) -> None:
    assert answer("workflows", "recover")["repairs"] == []
    with closing(sqlite3.connect(url(folder).removeprefix("sqlite:///"))) as link, link:
        link.execute("UPDATE holdfast_members SET needs = 7 WHERE node = 'publish'")
    for words in (["--dry-run"], [ids[0]]):
        lines = run("workflows", "recover", *words).stdout.splitlines()
        assert lines[1:] == [f"{ids[0]}\tpublish\tneeds 7, waits for 1\tneeds 1, waits for 1"]
    assert answer("workflows", "recover", "--dry-run") == {"repairs": [], "overdue": [], "next": None}


def test_unknown_workflows_and_nodes_are_errors_with_their_remedy(ids: tuple[str, str]) -> None:
    unknown = run("workflows", "show", "01a2190f-0000-7000-8000-000000000000")
    assert (unknown.exit_code, "no workflow has the id" in unknown.stderr) == (1, True)
    wrong = run("workflows", "retry", ids[0], "--from", "deploy", "--json")
    assert (wrong.exit_code, json.loads(wrong.stderr)["error"]["type"]) == (2, "ConfigurationError")


@pytest.mark.parametrize("verb", ["show", "cancel", "pause", "resume", "retry", "recover"])
@pytest.mark.parametrize("id", ["nope", "", "\udcff", "a\nb", "../x"])
def test_text_that_is_not_an_id_is_refused_and_changes_nothing(ids: tuple[str, str], verb: str, id: str) -> None:
    given = (id,) if verb in ("show", "recover") else (ids[0], id)
    done = run("workflows", verb, *given)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {id!r} is not a workflow id")
    assert not any(node["is_paused"] for node in answer("workflows", "show", ids[0])["nodes"])


def test_an_unknown_workflow_among_others_is_reported_and_the_others_are_reached(ids: tuple[str, str]) -> None:
    unknown = "01a2190f-0000-7000-8000-000000000000"
    done = run("workflows", "pause", unknown, ids[0])
    assert (done.exit_code, done.stdout) == (1, f"workflow {unknown}: unknown\nworkflow {ids[0]}: blocked\n")
    done = run("workflows", "cancel", unknown, *ids, "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (1, {unknown: "unknown", ids[0]: "cancelled", ids[1]: "failed"})


def test_what_was_done_before_an_error_is_printed_as_json_too(ids: tuple[str, str]) -> None:
    app = App(os.environ["HOLDFAST_URL"])

    @app.task
    def load() -> None: ...

    with app.workflow("loading") as w:
        w.add(load.bind())
    done = run("workflows", "retry", ids[1], str(w.handle.id), "--from", "build", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (2, {ids[1]: "blocked"})
    assert f"workflow {w.handle.id} has no node 'build'" in json.loads(done.stderr)["error"]["message"]
    app.close()


def test_repairs_of_an_unknown_workflow_are_refused_as_other_commands_are(ids: tuple[str, str]) -> None:
    unknown = "01a2190f-0000-7000-8000-000000000000"
    shown = run("workflows", "show", unknown)
    for words in ((unknown,), (unknown, "--dry-run"), (unknown, "--json")):
        assert run("workflows", "recover", *words).exit_code == 1
    assert run("workflows", "recover", unknown).stderr == shown.stderr
    assert run("workflows", "recover", ids[0]).exit_code == 0


@pytest.mark.parametrize("option", ["--name", "--queue", "--key", "--tag"])
def test_a_choice_that_is_not_utf_8_is_refused_by_its_option(option: str) -> None:
    done = run("workflows", "list", option, "\udcff")
    assert (done.exit_code, done.stderr.splitlines()[0]) == (
        2,
        f"error: {option} is not UTF-8 from its character 1 on: write UTF-8",
    )


def test_every_command_refuses_the_id_of_a_node_as_show_does(ids: tuple[str, str]) -> None:
    node = answer("workflows", "show", ids[1])["nodes"][0]["job"]
    shown = run("workflows", "show", node)
    for verb in ("cancel", "pause", "resume", "retry"):
        done = run("workflows", verb, node)
        assert (done.exit_code, done.stderr, done.stdout) == (1, shown.stderr, "")
    assert run("workflows", "retry", node, "--fresh").stderr == shown.stderr
    assert answer("jobs", "show", node)["state"] == "failed"


def test_jobs_of_an_unfinished_workflow_are_not_deleted_and_that_is_reported(ids: tuple[str, str]) -> None:
    done, waits = (node["job"] for node in answer("workflows", "show", ids[0])["nodes"])
    why = f"not deleted: its workflow has not ended, `holdfast workflows cancel {ids[0]}` first"
    for job, state in ((ids[0], "blocked"), (done, "available"), (waits, "blocked")):
        kept = run("jobs", "delete", job)
        assert (kept.exit_code, kept.stdout.splitlines()[1:]) == (1, [f"{job}\t{state}, {why}"])
    assert run("jobs", "delete", waits, "--json").exit_code == 1
    assert run("workflows", "cancel", ids[0]).exit_code == 0
    assert run("jobs", "delete", ids[0]).stdout.splitlines()[1:] == [f"{ids[0]}\tdeleted"]


def test_a_finished_job_that_another_one_depends_on_is_not_deleted(ids: tuple[str, str]) -> None:
    app = App(os.environ["HOLDFAST_URL"])

    @app.task
    def load() -> None: ...

    parents = [load.enqueue(), load.enqueue()]
    child = load.options(after=parents, when="finished").enqueue()
    parents[0].cancel()
    kept = run("jobs", "delete", str(parents[0].id))
    assert kept.stdout.splitlines()[1:] == [f"{parents[0].id}\tcancelled, not deleted: a job that has not ended depends on it"]
    assert (kept.exit_code, run("jobs", "delete", str(child.id)).exit_code) == (1, 0)


def test_ids_and_nodes_are_offered_by_completion(ids: tuple[str, str]) -> None:
    assert offered("holdfast workflows show ") == [id[-6:] for id in ids]
    assert offered(f"holdfast workflows cancel {ids[0][:20]}") == [each for each in ids if each.startswith(ids[0][:20])]
    for id in (ids[0], ids[0][-6:]):
        assert offered(f"holdfast workflows retry {id} --from p") == ["publish"]


def test_commands_take_a_part_of_a_workflow_id(ids: tuple[str, str]) -> None:
    assert [answer("workflows", "show", id[-6:])["id"] for id in ids] == [*ids]
    assert answer("workflows", "pause", ids[0][-6:]) == {ids[0]: "blocked"}
    assert {each["workflow"] for each in answer("jobs", "list", "--workflow", ids[0][-6:])} == {ids[0]}
    fitting = run("workflows", "retry", ids[0][:4])
    assert (fitting.exit_code, len(fitting.stderr.splitlines())) == (1, 4)


def test_values_of_options_are_offered(ids: tuple[str, str]) -> None:
    assert offered("holdfast workflows resume --failed r") == ["retry"]
