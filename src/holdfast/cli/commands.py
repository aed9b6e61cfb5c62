"""``holdfast``: all commands. Every error becomes one line with its remedy, or JSON, and an exit code."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from holdfast._core.release import UPGRADE
from holdfast._core.text import names_remedy, printable
from holdfast._processes.logs import configure_logs
from holdfast.cli.completion import VARIABLE
from holdfast.cli.ids import AmbiguousId
from holdfast.cli.output import shown, to_json
from holdfast.cli.remedies import Named, with_names
from holdfast.errors import (
    ConfigurationError,
    HoldfastError,
    JobNotFound,
    PayloadInvalid,
    SchemaMissing,
    SchemaTooNew,
    StoreDamaged,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    UnknownTask,
)

FAILED, USAGE, UNREACHABLE = 1, 2, 75

COMMANDS = (
    "demo",
    "worker",
    "broker",
    "enqueue",
    "jobs",
    "errors",
    "queues",
    "limits",
    "schedules",
    "workflows",
    "rows",
    "workers",
    "audit",
    "top",
    "dashboard",
    "check",
    "migrate",
    "recover",
    "prune",
    "backup",
    "store",
    "copy",
    "completion",
)
"""Each is the name of its module, too."""

_REMEDIES: dict[type[Exception], tuple[int, str]] = {
    ConfigurationError: (USAGE, "correct the settings named"),
    UnknownTask: (USAGE, "use one of the tasks named, or import the module that defines it"),
    PayloadInvalid: (USAGE, "correct the field named"),
    JobNotFound: (FAILED, "see `holdfast jobs list` or `holdfast workflows list`"),
    AmbiguousId: (FAILED, "use more of its digits, or the whole id"),
    SchemaMissing: (FAILED, "run `holdfast migrate module:app`"),
    SchemaTooNew: (FAILED, UPGRADE),
    StoreFull: (FAILED, "shorten the retention of tasks, or run `holdfast prune` and `holdfast store compact`"),
    StoreDamaged: (FAILED, "restore a backup that `holdfast backup` has made, with all processes that use the file stopped"),
    StoreRefused: (FAILED, "see `holdfast check`, which names what is refused"),
    StoreUnavailable: (UNREACHABLE, "check that the store is running and reachable, then try again"),
}


class Commands(Mapping[str, click.Command]):
    """The commands by their names. A module is imported when its command is used: the others cost no time and no memory."""

    def __getitem__(self, name: str) -> click.Command:
        """Return the command of this name; raises ``KeyError`` if there is none."""
        if name not in COMMANDS:
            raise KeyError(name)
        command: click.Command = getattr(import_module(f"holdfast.cli.{name}"), name)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class Root(click.Group):
    """The group of commands. It ends the process with the documented exit code."""

    def main(self, args: Sequence[str] | None = None, **extra: Any) -> NoReturn:  # type: ignore[override]
        """Run a command; click's own way of ending is replaced, so that all errors look alike."""
        named = Named()
        given = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        extra.setdefault("complete_var", VARIABLE)
        extra["obj"] = named
        if given[:1] not in (["worker"], ["demo"], ["broker"]):  # which configure their own
            configure_logs("error" if "--json" in given else "warning", "text")
        try:
            code = super().main(given, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(USAGE)
        except click.ClickException as error:
            sys.exit(_report("Usage", [error.format_message()], _usage_of(error), error.exit_code, "--json" in given))
        except HoldfastError as error:
            kind = next((kind for kind in type(error).__mro__ if kind in _REMEDIES), None)
            code, remedy = _REMEDIES[kind] if kind is not None else (FAILED, "")
            problems = error.problems if isinstance(error, ConfigurationError) else [str(error)]
            target = named.or_of(os.environ)
            problems, remedy = [with_names(each, target) for each in problems], with_names(remedy, target)
            candidates = error.candidates if isinstance(error, AmbiguousId) else ()
            sys.exit(_report(type(error).__name__, problems, remedy, code, "--json" in given, candidates))
        except (click.Abort, KeyboardInterrupt):
            click.echo("aborted", err=True)
            sys.exit(130)
        except BrokenPipeError:
            # The reader of the output has gone; nothing may be written at exit either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(FAILED)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.exit(_report("OSError", [str(error)], "check that the output can be written", FAILED, "--json" in given))
        sys.exit(code if isinstance(code, int) else 0)


def _report(
    kind: str, problems: Sequence[str], remedy: str, code: int, as_json: bool, candidates: Sequence[Mapping[str, object]] = ()
) -> int:
    if as_json:
        error: dict[str, object] = {"type": kind, "message": "\n".join(problems), "remedy": remedy}
        click.echo(to_json({"error": error | ({"candidates": candidates} if candidates else {})}), err=True)
    else:
        for problem in problems:
            click.echo(f"error: {printable(problem)}", err=True)
        for each in candidates:
            click.echo("  " + "  ".join(shown(value) for value in each.values()), err=True)
        # A problem of the settings or of a payload names its own remedy.
        reported = "".join(problems)
        if remedy and (code != USAGE or kind == "Usage") and not names_remedy(reported) and remedy not in reported:
            click.echo(remedy, err=True)
    return code


def _usage_of(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return f"see `{context.command_path if context else 'holdfast'} --help`"


@click.group(cls=Root, commands=Commands(), context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="holdfast", prog_name="holdfast")
def root() -> None:
    """Background jobs that survive the death of the process that runs them."""
