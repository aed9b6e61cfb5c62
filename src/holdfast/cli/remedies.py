"""Remedies as a shell takes them: each command of one names the App or the store that the command before it was given."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import click

_COMMAND: Final = re.compile(r"(?<=`)holdfast [a-z][^`]*(?=`)|(?<=: )holdfast [a-z][^;`]*")
_APP: Final = re.compile(r" (module:app|MODULE:APP)\b")
_SINGLE: Final = frozenset({"audit", "backup", "broker", "dashboard", "prune", "top"})
_GROUPS: Final = frozenset({"errors", "jobs", "limits", "queues", "schedules", "store", "workers", "workflows"})
"""Both take an App or a URL; the name of a group is not a whole command."""
_TAKE_APP: Final = frozenset({"check", "migrate", "recover", "worker"})
_OPEN_BY_URL: Final = frozenset({"check", "migrate"})
"""Of those that take an App, the commands that a URL is enough for."""
_PUBLIC: Final = frozenset(
    (
        *("authSource", "directConnection", "readPreference", "replicaSet", "retryWrites", "ssl", "tls", "w"),
        *("application_name", "connect_timeout", "host", "pooler", "port", "schema", "sslmode", "target_session_attrs"),
        *("broker", "endpoint", "interval", "profile", "region", "writes_per_day", "writes_per_minute"),
    )
)
"""Options of URLs that may be printed, of MongoDB, PostgreSQL and buckets."""


@dataclass
class Named:
    """What a command was given. ``is_typed``: not by the environment, which the next command has, too."""

    app: str | None = None
    url: str | None = None
    is_typed: bool = True

    def or_of(self, environment: Mapping[str, str]) -> "Named":
        """Return it, or what the environment names if nothing was typed."""
        if self.app or self.url:
            return self
        app, url = environment.get("HOLDFAST_APP") or None, environment.get("HOLDFAST_URL") or None
        return Named(app, None if app else url, is_typed=False)

    def option(self, *, as_argument: bool = False) -> str:
        """Return what names it to another command; empty if the environment does. ``as_argument``: as the first argument."""
        if not self.is_typed:
            return ""
        if self.app is not None:
            return f" {quote(self.app)}" if as_argument else f" --app {quote(self.app)}"
        return "" if self.url is None else f" --url {quote(self.url) if is_public(self.url) else 'URL'}"


def is_public(url: str) -> bool:
    """Return whether a URL has no password, and no option that may be a secret.

    >>> is_public("sqlite:///jobs.db"), is_public("postgresql://u:p@h/d"), is_public("postgresql:///d?password=p")
    (True, False, False)
    """
    try:
        parts = urlsplit(url)
        return parts.password is None and {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)} <= _PUBLIC
    except ValueError:
        return False


def with_names(text: str, named: Named) -> str:
    """Return a remedy whose commands name the App or the store, so that each of them can be pasted.

    >>> with_names("see `holdfast jobs list`", Named(url="sqlite:///jobs.db"))
    'see `holdfast jobs list --url sqlite:///jobs.db`'
    >>> with_names("start one: holdfast worker MODULE:APP", Named(app="shop:app"))
    'start one: holdfast worker shop:app'
    """
    return _COMMAND.sub(lambda found: _with_names(found[0], named), text)


def _with_names(command: str, named: Named) -> str:
    _, verb, *more = command.split(" ")
    if _APP.search(command):
        if named.app is not None:
            return _APP.sub(f" {quote(named.app)}", command)
        return _APP.sub(lambda _: named.option(), command) if named.url is not None and verb in _OPEN_BY_URL else command
    if "--url" in more or "--app" in more or "--new-token" in more:
        return command
    if verb in _TAKE_APP:
        return command + (named.option(as_argument=True) if named.app is not None or verb in _OPEN_BY_URL else "")
    if verb in _SINGLE or (more and (verb in _GROUPS or (verb == "rows" and named.app is not None))):
        return command + named.option()
    return command


def note_target(context: click.Context, *, app: str | None = None, url: str | None = None) -> None:
    """Note what was typed to name the App or the store."""
    noted = context.find_root().obj
    if isinstance(noted, Named):
        noted.app, noted.url = app or noted.app, url or noted.url


def here(text: str) -> str:
    """Return a remedy with the names that the running command was given."""
    context = click.get_current_context(silent=True)
    noted = None if context is None else context.find_root().obj
    return with_names(text, noted.or_of(os.environ)) if isinstance(noted, Named) else text
