"""What pages show of a payload, a result and a checkpoint: no value under a sensitive name, also where a message repeats it."""

from collections.abc import Callable, Iterable

import msgspec

from holdfast._core.job import Json
from holdfast._core.sensitive import HIDDEN, Mask, is_sensitive

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


def mask_of(documents: Iterable[Json], names: Names = frozenset()) -> Mask:
    """Return the function that hides the sensitive values of these documents in a string."""
    return Mask([msgspec.json.encode(document) for document in documents], names)
