"""Headers: names and texts that travel with a job, such as a tenant or a trace context."""

from collections.abc import Mapping

from holdfast.errors import ConfigurationError

HEADERS_LIMIT = 4096
"""Bytes of all names and texts of one job, as UTF-8: every move of the job copies them."""

Headers = tuple[tuple[str, str], ...]


def headers_from(given: object) -> Headers:
    """Return headers by name; ``ConfigurationError`` if they are not text by text, or too large.

    >>> headers_from({"tenant": "acme"})
    (('tenant', 'acme'),)
    """
    if not isinstance(given, Mapping):
        raise ConfigurationError([f"headers={given!r}: use a dict of strings by string"])
    problems = [f"headers: {name!r}: {_type(name, text)}; use a string" for name, text in given.items() if not _is_text(name, text)]
    if problems:
        raise ConfigurationError(problems)
    size = sum(len(name.encode()) + len(text.encode()) for name, text in given.items())
    if size > HEADERS_LIMIT:
        raise ConfigurationError([f"headers: {size:,} bytes; at most {HEADERS_LIMIT:,}: put what is large into the payload"])
    return tuple(sorted(given.items()))


def inherited(parent: Headers, own: Headers) -> Headers:
    """Return the headers of a child: its parent's, and in place of those of the same name its own."""
    return headers_from({**dict(parent), **dict(own)}) if parent else own


def _is_text(*values: object) -> bool:
    return all(isinstance(value, str) and value.isascii() or isinstance(value, str) and _is_encodable(value) for value in values)


def _is_encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _type(name: object, text: object) -> str:
    wrong = text if isinstance(name, str) else name
    return "it has half a character" if isinstance(wrong, str) else f"it is a {type(wrong).__name__}"
