"""Which jobs a command means, one by one or by selector, and doing it to many of them."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import click
from msgspec import Struct, structs

from holdfast._core.job import Reason, State
from holdfast.cli.completions import complete_job, complete_queue, complete_task
from holdfast.cli.ids import error_of, workflows_of
from holdfast.cli.options import DURATION, INSTANT, TEXT, Count, Several

if TYPE_CHECKING:
    from holdfast._engine.operators.operators import Where
    from holdfast.app import App

Command = TypeVar("Command", bound=Callable[..., Any])
BATCH = 500
SHOWN = 5
_OTHERS = frozenset(("ids", "state", "limit", "all"))


class Selection(Struct, frozen=True, kw_only=True):
    """The jobs that the command line chooses: ids, or conditions that all hold. ``limit=None``: all of them."""

    ids: tuple[str, ...] = ()
    state: tuple[str, ...] | None = None
    task: tuple[str, ...] | None = None
    queue: tuple[str, ...] | None = None
    tag: tuple[str, ...] | None = None
    reason: tuple[str, ...] | None = None
    worker: tuple[str, ...] | None = None
    workflow: str | None = None
    schedule: str | None = None
    rescued: bool | None = None
    text: str | None = None
    up_to: datetime | None = None
    key: str | None = None
    older_than: float | None = None
    attempts_at_least: int | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    available_after: datetime | None = None
    available_before: datetime | None = None
    finished_after: datetime | None = None
    finished_before: datetime | None = None
    error_key: str | None = None
    limit: int | None = None
    all: bool = False

    @property
    def is_by_selector(self) -> bool:
        """Whether conditions choose the jobs."""
        return self.all or bool(self.state) or any(value is not None for value in self.conditions.values())

    @property
    def conditions(self) -> dict[str, Any]:
        """All conditions but the state."""
        return {name: value for name, value in structs.asdict(self).items() if name not in _OTHERS and value != ()}

    def check(self) -> None:
        """Raise ``UsageError`` unless it is clear which jobs are meant."""
        if self.ids and (self.is_by_selector or self.limit):
            raise click.UsageError("ids and a selector: use one of them")
        if not self.ids and not self.is_by_selector:
            raise click.UsageError("no jobs chosen: give ids, or choose by --state, --reason, --task and others, or --all")

    def with_whole_ids(self, app: "App") -> "Selection":
        """Return the selection with the whole id of its workflow and the whole key of its error, of which a part may have been typed."""
        workflow = None if self.workflow is None else str(workflows_of(app, [self.workflow])[0])
        return structs.replace(self, workflow=workflow, error_key=error_of(app, self.error_key))

    @property
    def where(self) -> "Where":
        """The conditions, to be judged again when the jobs are written."""
        from holdfast._engine.operators.operators import Where

        return Where(state=self.state or None, **self.conditions)

    def find(self, app: "App", states: Sequence[State]) -> dict[UUID, State]:
        """Find the jobs, with the state each is in. ``states``: where to look when no state was given, everywhere if empty."""
        from holdfast._engine.operators.batches import states_of

        looked_at: Sequence[str | None] = self.state or states or [None]
        found: dict[UUID, State] = {}
        for state in looked_at:
            left = None if self.limit is None else self.limit - len(found)
            if left != 0:
                found |= states_of(app.jobs, structs.replace(self.where, state=state), left)
        return found


def matching(command: Command) -> Command:
    """Add the options that state which jobs: all of them must hold."""
    options = (
        _several("--state", Several([state.value for state in State]), "Only those in this state, or in one of these: a,b."),
        _several("--reason", Several([reason.value for reason in Reason]), "Only those that ended so."),
        click.option("--error", "error_key", metavar="KEY", type=TEXT, help="Only those with this key of `holdfast errors`."),
        _several("--task", Several(), "Only those of this task, or of one of these: a,b.", complete_task),
        _several("--queue", Several(), "Only those in this queue, or in one of these: a,b.", complete_queue),
        click.option("--key", type=TEXT, help="Only those with this key."),
        _several("--tag", TEXT, "Only those with this tag; several times: with one of these."),
        _several("--worker", Several(), "Only those that this worker has, or had last."),
        click.option("--workflow", metavar="ID", help="Only those of this workflow."),
        click.option("--schedule", type=TEXT, help="Only those that ticks of this schedule made."),
        click.option(
            "--rescued",
            is_flag=True,
            flag_value=True,
            default=None,
            help="Only those taken back from a worker that had lost them.",
        ),
        click.option(
            "--text", type=TEXT, help="Only those with this in the task's name or the error, in small or capital letters."
        ),
        click.option("--up-to", type=INSTANT, help="Only those enqueued by then and, if they have ended, ended by then."),
        click.option("--older-than", type=DURATION, help="Only those that ended, or else were enqueued, so long ago."),
        click.option("--attempts-at-least", type=Count(1), help="Only those with at least that many attempts."),
        click.option("--created-after", type=INSTANT, help="Only those enqueued then or later, as 2030-01-31T08:00Z."),
        click.option("--created-before", type=INSTANT, help="Only those enqueued before."),
        click.option("--available-after", type=INSTANT, help="Only those due then or later."),
        click.option("--available-before", type=INSTANT, help="Only those due before."),
        click.option("--finished-after", type=INSTANT, help="Only those that ended then or later."),
        click.option("--finished-before", type=INSTANT, help="Only those that ended before."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _several(
    name: str, kind: "click.ParamType[Any]", help: str, complete: Callable[..., Any] | None = None
) -> Callable[[Command], Command]:
    """Return an option that takes several values."""

    def flat(_context: click.Context, _option: click.Parameter, given: Sequence[Any]) -> tuple[str, ...] | None:
        parts = (each if isinstance(each, tuple) else (each,) for each in given)
        return tuple(dict.fromkeys(value for part in parts for value in part)) or None

    return click.option(name, type=kind, multiple=True, callback=flat, shell_complete=complete, help=help)


def choosing(command: Command) -> Command:
    """Add an argument for ids and the options of a selector, with ``--dry-run`` and ``--yes``."""
    options = (
        click.argument("ids", metavar="[ID]...", nargs=-1, shell_complete=complete_job),
        matching,
        click.option("--limit", type=Count(1), help="How many at most.  [default: no limit]"),
        click.option("--all", is_flag=True, help="All jobs that the command can act on."),
        click.option("--dry-run", is_flag=True, help="Print how many it would be, show the first ones, change nothing."),
        click.option("--yes", is_flag=True, help="Do not ask; needed with a selector where there is no terminal."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def confirm(question: str, *, yes: bool) -> None:
    """Return only if the user agrees: beforehand with ``--yes``, or now on a terminal."""
    if yes:
        return
    if not can_ask():
        raise click.UsageError(f"{question} Pass --yes: there is no terminal to ask on")
    click.confirm(question, abort=True, err=True)


def can_ask() -> bool:
    """Return whether a terminal is there to ask on."""
    return sys.stdin.isatty()


def in_batches(ids: Sequence[UUID], act: Callable[[Sequence[UUID]], dict[UUID, State]], *, doing: str) -> dict[UUID, State]:
    """Apply ``act`` to all of them, a bounded number at a time so that no write takes long, and merge its answers."""
    answers: dict[UUID, State] = {}
    done = 0
    try:
        with progress(len(ids), doing) as advance:
            for start in range(0, len(ids), BATCH):
                batch = ids[start : start + BATCH]
                answers |= act(batch)
                done += len(batch)
                advance(len(batch))
    except BaseException:
        if done:
            click.echo(f"stopped after {done} of {len(ids)} jobs; what was done stays done", err=True)
        raise
    return answers


@contextmanager
def progress(total: int, doing: str) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal when there is more than one step; else nothing."""
    if total <= BATCH or not sys.stderr.isatty():
        yield lambda count: None
        return
    with click.progressbar(length=total, label=doing, file=sys.stderr) as bar:
        yield bar.update
