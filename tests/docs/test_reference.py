"""The reference names everything that is there, and nothing that is not: what is new fails here until it is described."""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import click
import pytest
from msgspec import Struct, structs

import holdfast
from holdfast import (
    App,
    AttemptOutcome,
    AttemptView,
    Backoff,
    Batch,
    BatchTransaction,
    BeatView,
    Cause,
    Code,
    ErrorGroup,
    ErrorList,
    Event,
    Explanation,
    Failure,
    Handle,
    Job,
    JobView,
    LeaseView,
    NodeView,
    NoResult,
    Pruned,
    QueueView,
    Reason,
    Repair,
    Rescued,
    Revived,
    Rows,
    Runners,
    ScheduleView,
    State,
    SyncBatch,
    SyncBatchTransaction,
    SyncJob,
    Task,
    TaskGroup,
    Token,
    Workflow,
    WorkflowDefinition,
    WorkflowHandle,
    WorkflowView,
    errors,
)
from holdfast._core import payload, policy
from holdfast._core.answers import Check
from holdfast._core.audit import AuditEntry
from holdfast._core.metrics import METRICS, Kind
from holdfast._engine.client import client
from holdfast._engine.events import _LEVELS, EventName
from holdfast._engine.supervisor import recovery, supervisor
from holdfast._engine.tasks import job_context, options
from holdfast._engine.tasks.registry import define
from holdfast._engine.workflows.settings import define_workflow
from holdfast.cli.commands import root
from holdfast.http import problems
from holdfast.http.managed import Managed
from holdfast.http.management import management
from tests.docs.pages import ROOT

REFERENCE = ROOT / "docs/reference"
SOURCES = sorted((ROOT / "src/holdfast").rglob("*.py"))
EVENTS = (ROOT / "src/holdfast/_engine/events.py").read_text()

OF_THE_ENGINE = {
    "encode_items",
    "new_jobs",
    "write_many",
    "mark_lost",
    "mark_cancelled",
    "mark_draining",
    "was_told",
    "on_begun",
    "suspension",
    "unused_steps",
    "uses_steps",
}
"""Names of a job that its handler does not need."""
ATTRIBUTES: dict[type, set[str]] = {
    Rows: {"settings"},
    Batch: {"job"},
    SyncBatch: {"job"},
    BatchTransaction: {"connection"},
    SyncBatchTransaction: {"connection"},
}
"""What their objects have beyond their classes."""


def page(name: str) -> str:
    """Return a page with its parts: `app.md` and `app-*.md`."""
    stem = name.removesuffix(".md")
    return "\n".join(each.read_text(encoding="utf-8") for each in (REFERENCE / name, *sorted(REFERENCE.glob(f"{stem}-*.md"))))


def section(name: str, heading: str) -> str:
    """Return what stands below a heading, until the next one of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", page(name), re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/reference/{name} has no heading {heading!r}"
    return found[1]


def cells(text: str) -> list[list[str]]:
    """Return the rows of its tables, without their heads."""
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines() if line.startswith("| `")]
    assert rows
    return rows


def names(text: str) -> list[str]:
    """Return the names in the first column of its tables."""
    return [name for row in cells(text) for name in re.findall(r"`([^`]+)`", row[0])]


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def own(thing: object) -> set[str]:
    return {name for name in vars(thing) if not name.startswith("_")}


def test_every_public_name_is_described() -> None:
    output = "".join(each.read_text() for each in REFERENCE.glob("*.md"))
    assert [
        name for name in holdfast.__all__ if not re.search(rf"`[^`]*\b{name}\b[^`]*`|^#+ {name}$", output, re.MULTILINE)
    ] == []


@pytest.mark.parametrize(
    ("name", "heading", "function"),
    [
        ("app.md", "Settings", App.__init__),
        ("tasks.md", "Task options", define),
        ("tasks.md", "Enqueue options", Task.options),
        ("workflows.md", "app.workflow", define_workflow),
    ],
)
def test_every_option_is_described_with_its_default(name: str, heading: str, function: Any) -> None:
    parameters = [each for each in inspect.signature(function).parameters.values() if each.name not in ("self", "function")]
    reported = {row[0].strip("`"): row[1].strip("`") for row in cells(section(name, heading))}
    shown = {each.name: ast.literal_eval(reported.get(each.name, "'not described'")) for each in parameters}
    assert shown == {each.name: each.default.value if isinstance(each.default, StrEnum) else each.default for each in parameters}
    assert reported.keys() == shown.keys()


def test_every_option_of_rows_is_described_with_its_default() -> None:
    parameters = list(inspect.signature(App.rows).parameters.values())[1:]
    reported = {row[0].strip("`"): row[1].strip("`") for row in cells(section("rows.md", "Options of app.rows"))}
    assert reported == {each.name: "–" if each.default is each.empty else _written(each.default) for each in parameters}


def test_every_option_of_a_schedule_is_described_with_its_default() -> None:
    parameters = list(inspect.signature(App.schedule).parameters.values())[1:]
    reported = {row[0].strip("`"): row[1].strip("`") for row in cells(section("app.md", "app.schedule"))}
    assert reported == {each.name: "–" if each.default is each.empty else _written(each.default) for each in parameters}


def _written(default: object) -> str:
    return f'"{default}"' if isinstance(default, str) else repr(default)


@pytest.mark.parametrize(
    ("name", "heading", "things"),
    [
        ("app.md", "Methods of an App", [App("memory://"), App]),
        ("app.md", "app.jobs", [type(App("memory://").jobs)]),
        ("app.md", "app.errors", [type(App("memory://").errors)]),
        ("app.md", "app.audit", [type(App("memory://").audit)]),
        ("app.md", "app.queues", [type(App("memory://").queues)]),
        ("app.md", "app.workers", [type(App("memory://").workers)]),
        ("app.md", "app.schedules", [type(App("memory://").schedules)]),
        ("app.md", "app.recovery", [type(App("memory://").recovery)]),
        ("tasks.md", "Methods of a task", [Task]),
        ("tasks.md", "The handle", [Handle]),
        ("tasks.md", "The job in a handler", [Job]),
        ("tasks.md", "The job in a handler", [SyncJob]),
        ("workflows.md", "Methods of a workflow", [WorkflowDefinition]),
        ("workflows.md", "app.workflows", [type(App("memory://").workflows)]),
        ("rows.md", "Methods of Rows", [Rows]),
        ("rows.md", "The batch", [Batch]),
        ("rows.md", "The batch", [SyncBatch]),
        ("rows.md", "The transaction of a batch", [BatchTransaction]),
        ("rows.md", "The transaction of a batch", [SyncBatchTransaction]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_method_is_described(name: str, heading: str, things: list[Any]) -> None:
    there: set[str] = set(ATTRIBUTES.get(things[0], ()) if isinstance(things[0], type) else ())
    for thing in things:
        there |= public(thing) if isinstance(thing, type) else own(thing)
    assert sorted(names(section(name, heading))) == sorted(there - OF_THE_ENGINE)


def test_a_workflows_handle_is_described_as_far_as_it_differs_from_a_jobs() -> None:
    described = names(section("workflows.md", "The handle of a workflow"))
    assert sorted(described) == sorted({*own(WorkflowHandle), "cancel", "acancel"} - {"of"})


def test_the_options_that_a_workflow_takes_are_named() -> None:
    taken, *others = section("workflows.md", "Options of a workflow").split("Nodes take", maxsplit=1)
    options = set(inspect.signature(WorkflowDefinition.options).parameters) - {"self"}
    assert set(re.findall(r"`(\w+)`", taken)) == options - {"expires_in"}
    assert "`expires_in` is refused" in others[0]


def test_every_option_of_a_node_is_described_with_its_default() -> None:
    parameters = [each for each in inspect.signature(Workflow.add).parameters.values() if each.kind is each.KEYWORD_ONLY]
    reported = {row[0].strip("`"): row[1].strip("`") for row in cells(section("workflows.md", "The graph")) if len(row) == 3}
    assert reported == {each.name: _written(each.default) for each in parameters}


def test_every_word_for_a_missing_result_is_described() -> None:
    assert names(section("workflows.md", "The graph"))[-len(NoResult) :] == list(NoResult)


def test_a_group_is_described() -> None:
    output = section("app.md", "TaskGroup")
    assert [name for name in public(TaskGroup) | own(TaskGroup()) if f"`{name}`" not in output] == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("app.md", kind) for kind in (Check, Pruned, QueueView, LeaseView, BeatView, ScheduleView, Rescued, Event)),
        *(("app.md", kind) for kind in (ErrorGroup, ErrorList, AuditEntry)),
        *(("jobs.md", kind) for kind in (JobView, AttemptView, Failure, Token)),
        *(("workflows.md", kind) for kind in (WorkflowView, NodeView, Repair, Revived)),
    ],
)
def test_every_field_is_described(name: str, kind: type[Struct]) -> None:
    described = names(section(name, kind.__name__).partition("`AttemptOutcome`")[0])
    assert sorted(described) == sorted(field.name for field in structs.fields(kind))


def test_explanations_are_described() -> None:
    output = section("jobs.md", "Explanations")
    assert names(output) == [*(each.name for kind in (Explanation, Cause) for each in structs.fields(kind)), *Code]


@pytest.mark.parametrize(("heading", "kind"), [("States", State), ("Reasons", Reason)])
def test_every_word_of_a_closed_list_is_described(heading: str, kind: type[StrEnum]) -> None:
    assert names(section("jobs.md", heading)) == list(kind)


def test_every_outcome_of_an_attempt_is_described() -> None:
    assert names(section("jobs.md", "AttemptView").partition("`AttemptOutcome`")[2]) == list(AttemptOutcome)


def test_every_error_is_described() -> None:
    there = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, BaseException)}
    assert sorted(names(page("errors.md"))) == sorted(there)


def leaves(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from leaves(each, (*path, name))
    else:
        yield " ".join(path), command


COMMANDS = dict(leaves(root, ("holdfast",)))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_is_described(command: str) -> None:
    output = section("cli.md", command)
    reported = set(re.findall(r"`(--[\w-]+)", output))
    if "#selectors)" in output:
        reported |= set(re.findall(r"`(--[\w-]+)", section("cli.md", "Selectors")))
    assert reported == {option for each in COMMANDS[command].params if isinstance(each, click.Option) for option in each.opts}
    arguments = [each.metavar for each in COMMANDS[command].params if isinstance(each, click.Argument) and each.metavar]
    assert [argument for argument in arguments if argument not in output] == []


def test_no_command_is_described_that_is_not_there() -> None:
    assert sorted(re.findall(r"^##+ (holdfast .+)$", page("cli.md"), re.MULTILINE)) == sorted(COMMANDS)


def declared() -> dict[str, list[str]]:
    """Return the fields that the comments of the list of events name."""
    return {text: fields.split() for text, fields in re.findall(r' = "([\w.]+)"  # ([^:\n]+)', EVENTS)}


def test_every_event_is_described_with_its_fields_and_its_level() -> None:
    rows = cells(page("events.md"))
    assert {row[0].strip("`"): re.findall(r"`(\w+)`", row[1]) for row in rows} == declared()
    levels = {row[0].strip("`"): row[3] for row in rows}
    assert levels == {
        each.value: {30: "warning", 40: "error", 20: "info"}.get(_LEVELS.get(each, 10), "debug") for each in EventName
    }


def emitted(path: Path) -> Iterator[tuple[str, set[str]]]:
    """Events that a file emits, with the fields it names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "emit":
            for each in ast.walk(node.args[0]):
                if isinstance(each, ast.Attribute) and each.attr in EventName.__members__:
                    yield EventName[each.attr].value, {word.arg for word in node.keywords if word.arg}


def test_no_event_has_a_field_that_is_not_described() -> None:
    found = [(event, field) for path in SOURCES for event, fields in emitted(path) for field in fields]
    assert len({event for event, _ in found}) > 25
    assert [(event, field) for event, field in found if field not in declared()[event]] == []


def variables() -> Iterable[str]:
    output = "".join(path.read_text() for path in SOURCES)
    return set(re.findall(r"\bHOLDFAST_(?:URL|APP|SQLITE)\b", output)) | set(re.findall(r'environ(?:\.get\(|\[)"(\w+)"', output))


def test_every_variable_of_the_environment_is_described() -> None:
    ours = {name for name in variables() if name.startswith("HOLDFAST_")}
    assert sorted(names(section("app.md", "Environment"))) == sorted(ours)


def test_every_cap_is_as_described() -> None:
    output = section("jobs.md", "Limits and caps")
    reported = {row.split("|")[1].strip(): row.split("|")[2].strip() for row in output.splitlines() if row.startswith("| ")}
    kilobytes = {"payload": payload.PAYLOAD_LIMIT, "result": payload.RESULT_LIMIT, "checkpoint": payload.CHECKPOINT_LIMIT}
    kilobytes |= {
        "text of an error, traceback": payload.ERROR_TEXT_LIMIT,
        "message and stage of `job.progress`": job_context.MESSAGE_LIMIT,
    }
    assert {name: reported[name] for name in kilobytes} == {name: f"{limit // 1024} KiB" for name, limit in kilobytes.items()}
    assert f"{policy.RETENTION_FLOOR / 60:.0f} minutes" in reported["memory of a finished job"]
    assert reported["`key`, `unique_key`, a tag"].startswith(f"{options.TEXT_LIMIT} characters")
    assert reported["jobs moved by one write of a rescue"] == str(recovery.JOBS_PER_MOVE)
    assert reported["jobs moved by one write of an operator"] == f"{client.BATCH:,}"
    worn = Runners()
    assert (
        reported["jobs of one `process=True` process"]
        == f"{worn.max_jobs:,}, or {(worn.max_growth or 0) >> 20} MiB of growth; see [`Runners`](app.md#runners)"
    )
    assert reported["an unreachable store, for a command or at a worker's start"] == f"{supervisor.START_TIMEOUT:.0f} s"


def test_the_default_backoff_is_as_described() -> None:
    assert define(lambda: None, name="any").policy.backoff == Backoff.exponential("1s", cap="1h")
    assert '`Backoff.exponential("1s", cap="1h")`' in section("tasks.md", "Task options")


def test_every_metric_is_described_with_its_labels_and_none_that_is_not_there() -> None:
    described: dict[str, str] = {}
    for row in re.findall(r"^\| (`[a-z_]+`(?:, `[a-z_]+`)*) \|.*", page("metrics.md"), re.MULTILINE):
        described |= dict.fromkeys(re.findall(r"[a-z_]+", row), row)
    names = {f"{name}_total" if metric.kind is Kind.COUNTER else name: metric for name, metric in METRICS.items()}
    assert described.keys() == names.keys()
    text = page("metrics.md")
    for name, metric in names.items():
        (line,) = [each for each in text.splitlines() if each.startswith("|") and f"`{name}`" in each.split("|")[1]]
        labels = f"`{' '.join(metric.labels)}`" if metric.labels else "–"
        assert f"| {labels} |" in line, name


def test_every_call_of_the_api_and_every_problem_is_described() -> None:
    text = page("api.md")
    rows = [row.split("|")[1] for row in text.splitlines() if re.match(r"\| `(GET|POST|DELETE)", row)]
    paths = {each.path for each in management(Managed.of_app(App("memory://")))}
    described = {path for row in rows for path in re.findall(r"`(?:[A-Z]+ )?(/[^`]*)`", row)}
    assert described == {*paths, "/health/live", "/health/ready", "/events", "/jobs/{id}/events"}
    output = "".join(path.read_text() for path in SOURCES if "http" in path.parts)
    codes = {code for _, code, _ in problems._TABLE.values()} | set(
        re.findall(r'\b(?:ApiError|problem)\(\s*\w+,\s*"(\w+)"', output)
    )
    assert len(codes) > 20
    assert sorted(code for code in codes if f"`{code}`" not in text) == []
