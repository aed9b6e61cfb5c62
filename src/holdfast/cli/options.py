"""Options that several commands share."""

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from holdfast._core.durations import seconds
from holdfast.cli.completions import complete_app
from holdfast.cli.remedies import note_target

Command = TypeVar("Command", bound=Callable[..., Any])


class Count(click.IntRange):
    """An integer within limits; click's own name of it is of no use in a message."""

    name = "integer"


class DurationType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases only
    """Text such as ``30s`` or ``0.5h`` as seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert to seconds; a bare number is seconds already."""
        try:
            return seconds(float(value) if str(value).replace(".", "", 1).isdigit() else value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class InstantType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases only
    """ISO 8601 text with a zone as a datetime."""

    name = "instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Convert to an instant; one without a zone is ambiguous and is refused."""
        try:
            instant = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not a time: write it as 2030-01-31T08:00Z", param, ctx)
        if instant.tzinfo is None:
            self.fail(f"{value!r} has no zone: write {value}Z for UTC, or {value}+01:00", param, ctx)
        return instant


class KeyWeightType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases only
    """Text such as ``acme=3`` as a key and its weight."""

    name = "key=n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Convert to a key and an integer; a key may have an equals sign."""
        key, _, number = str(value).rpartition("=")
        if not key or not number.isdecimal():
            self.fail(f"{value!r} is not a key and its weight: write it as acme=3", param, ctx)
        return key, int(number)


class TextType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases only
    """Text that a store can compare with what it has: UTF-8."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text itself."""
        utf8(value, "it" if param is None else param.opts[0])
        return str(value)


class Several(TextType):
    """Values with commas between them, each of them one of the names if there are names."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = names
        self.name = "a,b" if not names else f"[{'|'.join(names)}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:  # type: ignore[override]
        """Return the values between the commas."""
        given = tuple(filter(None, super().convert(value, param, ctx).split(",")))
        if not given:
            self.fail("it has no value.", param, ctx)
        for each in given if self._names else ():
            if each not in self._names:
                self.fail(f"{each!r} is not one of {', '.join(self._names)}.", param, ctx)
        return given

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that the last of the values can become."""
        before, _, last = incomplete.rpartition(",")
        start = f"{before}," if before else ""
        return [CompletionItem(start + name) for name in self._names if name.startswith(last)]


def utf8(text: str, what: str) -> bytes:
    """Return what was typed as bytes; ``UsageError`` if the terminal or the script that passed it does not write UTF-8."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise click.UsageError(f"{what} is not UTF-8 from its character {error.start + 1} on: write UTF-8") from None


DURATION = DurationType()
TEXT = TextType()
KEY_WEIGHT = KeyWeightType()
INSTANT = InstantType()

JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; errors as JSON on stderr.")


_APP = "holdfast.cli.app"
_NO_APP = "no App named: pass MODULE:APP or --app MODULE:APP, or set HOLDFAST_APP"


def app_options(command: Command) -> Command:
    """Add ``MODULE:APP`` and ``--app``, of which one names the App, for commands that load task code."""
    argument = click.argument("target", metavar="[MODULE:APP]", required=False, shell_complete=complete_app, callback=_app_named)
    return argument(app_option(command))


def app_or_store_options(command: Command) -> Command:
    """Add ``MODULE:APP`` and ``--app`` for commands that take ``--url`` instead."""
    argument = click.argument(
        "target", metavar="[MODULE:APP]", required=False, shell_complete=complete_app, callback=_app_if_named
    )
    return argument(app_option(command))


def app_option(command: Command) -> Command:
    """Add ``--app``; ``app_of`` takes what it names."""

    def keep(context: click.Context, _option: click.Parameter, app: str | None) -> None:
        context.meta[_APP] = app

    return click.option(
        "--app",
        metavar="MODULE:APP",
        is_eager=True,
        expose_value=False,
        callback=keep,
        shell_complete=complete_app,
        help="The App, if it is not the first argument.  [env: HOLDFAST_APP]",
    )(command)


def app_of(context: click.Context, named: str | None) -> str:
    """Return the App that the first argument names, else ``--app``, else ``HOLDFAST_APP``; ``UsageError`` if there is none, or two."""
    target = _app_if_named(context, None, named) or os.environ.get("HOLDFAST_APP")
    if not target and not context.resilient_parsing:
        raise click.UsageError(_NO_APP, context)
    return target or ""


def _app_if_named(context: click.Context, _argument: click.Parameter | None, named: str | None) -> str | None:
    option: str | None = context.meta.get(_APP)
    if named and option:
        raise click.UsageError("two Apps named: use MODULE:APP or --app, one of them", context)
    note_target(context, app=named or option)
    return named or option


def _app_named(context: click.Context, _argument: click.Parameter, named: str | None) -> str:
    return app_of(context, named)


def store_options(command: Command) -> Command:
    """Add ``--app`` and ``--url``, or their environment variables, for commands that need no task code."""
    return click.option(
        "--app",
        "target",
        metavar="MODULE:APP",
        callback=_noted,
        shell_complete=complete_app,
        help="The App whose store it is.  [env: HOLDFAST_APP]",
    )(url_option(command))


def url_option(command: Command) -> Command:
    """Add ``--url``, for commands that need no task code."""
    return click.option(
        "--url",
        metavar="URL",
        callback=_noted,
        help="The store, such as sqlite:///jobs.db; no code is loaded.  [env: HOLDFAST_URL]",
    )(command)


def _noted(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    note_target(context, **{"url" if option.name == "url" else "app": value})
    return value
