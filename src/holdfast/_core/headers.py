"""Headers: text by name that travels with a job, such as a tenant or a trace context."""

from collections.abc import Mapping

from holdfast.errors import ConfigurationError

HEADERS_LIMIT = 4096
"""Bytes of all names and values of one job, as UTF-8: every move of the job copies them."""

Headers = tuple[tuple[str, str], ...]


def headers_from(given: object) -> Headers:
    """Return headers by name; ``ConfigurationError`` if they are not text by text, or too large.

    >>> headers_from({"tenant": "acme"})
    (('tenant', 'acme'),)
    """
    if not isinstance(given, Mapping):
        raise ConfigurationError([f"headers={given!r}: use a dict of strings by string"])
    problems = [
        f"headers: {name!r}: {problem}; use a string"
        for name, text in given.items()
        if (problem := _problem_of(name) or _problem_of(text)) is not None
    ]
    if problems:
        raise ConfigurationError(problems)
    size = sum(len(name.encode()) + len(text.encode()) for name, text in given.items())
    if size > HEADERS_LIMIT:
        raise ConfigurationError([f"headers: {size:,} bytes; at most {HEADERS_LIMIT:,}: put what is large into the payload"])
    return tuple(sorted(given.items()))


def inherited(parent: Headers, own: Headers) -> Headers:
    """Return the headers of a child: its parent's, and in place of those of the same name its own."""
    return headers_from({**dict(parent), **dict(own)}) if parent else own


def _problem_of(value: object) -> str | None:
    if not isinstance(value, str):
        return f"it is a {type(value).__name__}"
    if value.isascii():  # without a look at each character, which takes longer than all other checks
        return None
    return "it has a lone surrogate, which UTF-8 cannot encode" if any("\ud800" <= each <= "\udfff" for each in value) else None
