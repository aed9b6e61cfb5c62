"""What pages show of a payload, a result and a checkpoint: no value under a sensitive name, also where a message repeats it."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import structs

from holdfast._core.audit import AuditEntry
from holdfast._core.job import Json
from holdfast._core.sensitive import HIDDEN, Mask, is_sensitive
from holdfast._core.text import json_text

Names = frozenset[str]
Redact = Callable[[str, str, Json], Json]
"""A function of the task, the path of a value (such as ``payload.customer.name``) and the value: it returns what is shown instead."""


def no_more(task: str, path: str, value: Json) -> Json:
    """Show the value as it is."""
    del task, path
    return value


def shown(task: str, path: str, document: Json, names: Names, redact: Redact) -> Json:
    """Return the document without values under sensitive names, each other value as ``redact`` shows it.

    >>> shown("mail", "payload", {"to": "ada", "token": "x1"}, frozenset(), lambda task, path, value: path)
    {'to': 'payload.to', 'token': 'hidden'}
    """
    match document:
        case dict():
            return {
                name: HIDDEN if is_sensitive(name, names) else shown(task, f"{path}.{name}", value, names, redact)
                for name, value in document.items()
            }
        case list():
            return [shown(task, f"{path}.{position}", value, names, redact) for position, value in enumerate(document)]
        case _:
            return redact(task, path, document)


def redacted(document: Json, names: Names = frozenset()) -> Json:
    """Return the document with ``hidden`` in place of each value under a sensitive name; ``names``: those that its task declares.

    >>> redacted({"user": "ada", "login": {"password": "x1y2z3"}})
    {'user': 'ada', 'login': {'password': 'hidden'}}
    """
    match document:
        case dict():
            return {name: HIDDEN if is_sensitive(name, names) else redacted(value, names) for name, value in document.items()}
        case list():
            return [redacted(value, names) for value in document]
        case _:
            return document


def hidden_in(document: Json, names: Names = frozenset()) -> int:
    """Return how many values of the document are hidden."""
    match document:
        case dict():
            return sum(1 if is_sensitive(name, names) else hidden_in(value, names) for name, value in document.items())
        case list():
            return sum(hidden_in(value, names) for value in document)
        case _:
            return 0


def recorded(entry: AuditEntry, *, is_readable: bool) -> AuditEntry:
    """Return an action without secrets in its reason, and without the part of a message that it chose jobs by, unless readable."""
    if not is_readable and '"text"' in entry.selector:
        entry = structs.replace(entry, selector=_without_text(entry.selector))
    return structs.replace(entry, reason=None if entry.reason is None else mask_of(())(entry.reason))


def _without_text(selector: str) -> str:
    try:
        chosen = msgspec.json.decode(selector, type=dict[str, Any])
    except msgspec.DecodeError:  # it was recorded by a program in another form
        return HIDDEN
    return json_text(chosen | {"text": HIDDEN})


def mask_of(documents: Iterable[Json], names: Names = frozenset()) -> Mask:
    """Return the function that hides the sensitive values of these documents in a string."""
    return Mask([msgspec.json.encode(document) for document in documents], names)
