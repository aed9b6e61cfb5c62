"""``holdfast enqueue``."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem
from msgspec import Struct

from holdfast._core.durations import in_words
from holdfast.cli.completions import complete_app, complete_queue, complete_task
from holdfast.cli.options import DURATION, INSTANT, DurationType, app_of, app_option, utf8

if TYPE_CHECKING:
    from holdfast._engine.client.handle import Handle
    from holdfast._engine.tasks.task import TaskWithOptions
    from holdfast._engine.workflows.definition import WorkflowWithOptions
    from holdfast.app import App

    Order = TaskWithOptions[Any, ..., Any] | WorkflowWithOptions[..., Any]

AT_ONCE: Final = 2000
"""The jobs of a file that one write enqueues."""
FOR_EVER: Final = -1.0
_BEGINNINGS: Final = ("{", "@", "-")


class HeaderType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases only
    """``NAME=VALUE`` as a name and a value."""

    name = "header"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Convert to the name and the value, which may hold more equals signs."""
        utf8(value, "--header")
        name, sign, text = value.partition("=")
        if not name or not sign:
            self.fail(f"{value!r} is no header: write NAME=VALUE", param, ctx)
        return name, text


class WaitType(DurationType):
    """A duration, or the word that stands for none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert to seconds; below zero: without a limit."""
        if value == FOR_EVER:
            return FOR_EVER
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            self.fail(f"{error.message}; write --wait=60s, or --wait as the last word", param, ctx)


_OF_TASKS = ("unique_for", "unique_until")
"""The options that workflows do not have."""


class Words(Struct, frozen=True):
    """What the command enqueues: the App if it is named, the task, and the payload as it was typed."""

    target: str | None
    task: str
    payload: str | None


def words_of(words: Sequence[str]) -> Words:
    """Return what each word is: a payload begins with ``{`` or ``@``, or is ``-``, so two words are never ambiguous.

    >>> words_of(["mail", "{}"]).task, words_of(["shop:app", "mail"]).task
    ('mail', 'mail')
    """
    match words:
        case [task]:
            return Words(None, task, None)
        case [task, payload] if payload.startswith(_BEGINNINGS):
            return Words(None, task, payload)
        case [target, task]:
            return Words(target, task, None)
        case [target, task, payload]:
            return Words(target, task, payload)
    raise click.UsageError(f"{len(words)} words given: write [MODULE:APP] TASK [PAYLOAD]")


def _complete_words(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    given = context.params.get("words") or ()
    tasks = complete_task(context, parameter, typed) if len(given) < 2 else []
    return tasks if given else [*complete_app(context, parameter, typed), *tasks]


@click.command()
@click.argument("words", metavar="[MODULE:APP] TASK [PAYLOAD]", nargs=-1, required=True, shell_complete=_complete_words)
@app_option
@click.option("--queue", shell_complete=complete_queue, help="Its queue.  [default: the task's]")
@click.option("--priority", type=int, help="Smaller runs first.  [default: the task's]")
@click.option("--key", help="Whose job it is, usually a tenant.")
@click.option("--unique-key", help="One unfinished job of the task may have it; another enqueue prints that job's id.")
@click.option("--unique-for", type=DURATION, help="The job holds its unique key for this time, although it has completed.")
@click.option(
    "--unique-until", type=click.Choice(["finished", "started"]), help="When it frees its unique key.  [default: the task's]"
)
@click.option("--tag", "tags", multiple=True, help="A tag; give it once for each.")
@click.option(
    "--header", "headers", type=HeaderType(), multiple=True, metavar="NAME=VALUE", help="A header; give it once for each."
)
@click.option("--delay", type=DURATION, help="Due after this time.")
@click.option("--at", "run_at", type=INSTANT, metavar="TIME", help="Due then: ISO 8601 with its zone, such as 2030-01-31T08:00Z.")
@click.option("--expires-in", type=DURATION, help="Not started by then, it fails instead.")
@click.option("--many", metavar="FILE.jsonl", help="Enqueue a job for each line of the file, which is a payload; - is stdin.")
@click.option(
    "--wait",
    type=WaitType(),
    metavar="[=DURATION]",
    is_flag=False,
    flag_value=FOR_EVER,
    help="Wait for the end, so long at most, and print the result as JSON. The exit code is 1 if there is none.",
)
@click.pass_context
def enqueue(
    context: click.Context,
    /,
    words: tuple[str, ...],
    *,
    headers: tuple[tuple[str, str], ...],
    delay: float | None,
    run_at: datetime | None,
    many: str | None,
    wait: float | None,
    **options: Any,
) -> None:
    """Enqueue a job and print its id.

    PAYLOAD is a JSON object, checked against the task's signature: '{"repo_url": "…"}'; @FILE and - read it from a file or from stdin.
    The App is named by MODULE:APP, --app or HOLDFAST_APP.
    """
    from holdfast._processes.loading import opened

    given = words_of(words)
    target = app_of(context, given.target)
    if delay is not None and run_at is not None:
        raise click.UsageError("two times given: use --delay or --at, one of them")
    if many is not None and (given.payload is not None or wait is not None or options["unique_key"] is not None):
        raise click.UsageError("--many: it goes with no PAYLOAD, no --unique-key and no --wait")
    payload = None if many is not None else _bytes_of(given.payload)
    with opened(target, makes=True) as app:
        order = _order(app, target, given.task, **options, headers=dict(headers) or None, delay=delay, run_at=run_at)
        if many is not None:
            _enqueue_many(order, many)
        else:
            _enqueue_one(order, _fields(payload or b"{}", "PAYLOAD"), wait)


def _order(app: "App", target: str, task: str, **options: Any) -> "Order":
    from holdfast._engine.tasks.task import Task
    from holdfast.app import task_of
    from holdfast.errors import UnknownTask

    if (known := task_of(app, task)) is None:
        raise UnknownTask(f"{target} has no task {task!r}; there are: {', '.join(app.registry.names()) or 'none'}")
    given = {name: value for name, value in options.items() if value is not None or name not in _OF_TASKS}
    if known_workflow := [name for name in _OF_TASKS if name in given and not isinstance(known, Task)]:
        raise click.UsageError(f"{task} is a workflow: leave --{known_workflow[0].replace('_', '-')} out")
    return known.options(**given)


def _enqueue_one(order: "Order", fields: dict[str, Any], wait: float | None) -> None:
    from holdfast.cli.output import print_json
    from holdfast.errors import HoldfastError

    handle = order.enqueue(**fields)
    if wait is None:
        click.echo(handle.id)
        return
    click.echo(handle.id, err=True)
    try:
        print_json(handle.plain().result(None if wait == FOR_EVER else wait))
    except TimeoutError:
        text = f"job {handle.id} has not finished after {in_words(wait)}: see `holdfast jobs follow {handle.id}`"
        raise HoldfastError(text) from None


def _enqueue_many(order: "Order", file: str) -> None:
    """Check all lines, then enqueue them, and print an id for each that is stored. Only a few chunks of them are in memory."""
    from holdfast._engine.tasks.task import TaskWithOptions
    from holdfast.errors import PayloadInvalid

    with _opened(file) as source:
        total = 0
        for where, fields in _payloads(source, file):
            total += 1
            try:
                order.bind(**fields)
            except PayloadInvalid as error:
                raise type(error)(f"{where}: {error}") from None
        source.seek(0)
        payloads, progress = (fields for _, fields in _payloads(source, file)), _Progress(total)
        with progress:
            if isinstance(order, TaskWithOptions):
                order.write_many(payloads, AT_ONCE, progress.add)
            else:
                for fields in payloads:
                    progress.add([order.enqueue(**fields)])


class _Progress:
    """Ids of stored jobs on stdout; on stderr how many, for a terminal as they are stored, for all others if the rest fails."""

    def __init__(self, total: int) -> None:
        self._total, self._count, self._is_shown = total, 0, sys.stderr.isatty()

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._is_shown:
            click.echo(err=True)
        if kind is not None:
            click.echo(f"{self._line()}: those whose ids are printed; a chunk that was under way may be stored, too", err=True)

    def add(self, handles: Sequence["Handle[Any]"]) -> None:
        """Print the ids of jobs that are stored."""
        self._count += len(handles)
        click.echo("\n".join(str(handle.id) for handle in handles))
        if self._is_shown:
            click.echo(f"\r{self._line()}", err=True, nl=False)

    def _line(self) -> str:
        return f"{self._count:,} of {self._total:,} jobs enqueued"


@contextmanager
def _opened(file: str) -> Iterator[IO[bytes]]:
    """Open a file that can be read twice. A pipe is copied to a file without a name."""
    with ExitStack() as stack:
        with _readable(file):
            source: IO[bytes] = sys.stdin.buffer if file == "-" else stack.enter_context(Path(file).open("rb"))
            if file == "-" or not source.seekable():
                pipe, source = source, stack.enter_context(TemporaryFile())
                copyfileobj(pipe, source)
                source.seek(0)
        yield source


def _payloads(source: IO[bytes], file: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(source, 1):
        if line.strip():
            where = f"{file}, line {number}"
            yield where, _fields(line, where)


def _bytes_of(payload: str | None) -> bytes:
    if payload is None:
        return b"{}"
    if payload == "-" or payload.startswith("@"):
        return _read(payload.removeprefix("@"))
    return utf8(payload, "PAYLOAD")


def _read(file: str) -> bytes:
    with _readable(file):
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()


@contextmanager
def _readable(file: str) -> Iterator[None]:
    from holdfast.errors import PayloadInvalid

    try:
        yield
    except OSError as error:
        raise PayloadInvalid(f"{file!r} cannot be read: {error.strerror}") from None
    except ValueError as error:  # a name that no file can have
        raise PayloadInvalid(f"{file!r} cannot be read: {error}") from None


def _fields(text: bytes, where: str) -> dict[str, Any]:
    from holdfast._core.payload import decode_json
    from holdfast.errors import PayloadInvalid

    try:
        fields = decode_json(text)
    except (ValueError, RecursionError) as error:
        raise PayloadInvalid(f"{where} is not JSON ({error}): write '{{\"field\": value}}'") from None
    if not isinstance(fields, dict):
        raise PayloadInvalid(f"{where} is not a JSON object: write '{{\"field\": value}}'")
    return fields
