"""Values that no log shows: those under sensitive names in a payload or a checkpoint, also where a message repeats them."""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

import msgspec

from holdfast._core.job import Json

HIDDEN = "hidden"
SHORTEST = 3
"""Characters of the shortest value that is masked: shorter ones would mask most of a message, and protect nothing."""
SHORTEST_PART = 8
"""Characters of the shortest line of a value, such as a private key, that is masked where it stands alone."""
BOUNDED_BELOW = 5
"""Values with fewer characters are masked as whole words only."""

WORDS = frozenset(
    [
        "password",
        "passwd",
        "pwd",
        "passphrase",
        "secret",
        "token",
        "authorization",
        "cookie",
        "key",
        "card",
        "iban",
        "ssn",
        "apikey",
    ]
)
ENDINGS = ("password", "passwd", "secret", "token", "authorization", "cookie", "apikey")

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Za-z][a-z]*")
# Tried from each hyphen, and not from its beginning only, a name of 16 kB took half a minute.
_BEGIN = "(?<![A-Za-z0-9_-])"
_NAME = "[A-Za-z0-9_-]*(?:password|passwd|passphrase|secret|token|api_?key|authorization|cookie)"
_ASSIGNED = re.compile(
    rf"""(?i)(?P<name>{_BEGIN}{_NAME}=["']?|["']{_NAME}["']: ?["']?|\bauthorization: )(?P<kind>(?:bearer|basic) )?[^\s"',;&)}}\]]+"""
)
_CREDENTIALS = re.compile(r"(://[^/\s:@]*:)[^/\s@]+(?=@)")


def is_sensitive(name: str, names: frozenset[str] = frozenset()) -> bool:
    """Return whether values under this name are masked; ``names``: those that a task declares.

    >>> [is_sensitive(name) for name in ("password", "apiKey", "session_tokens", "iban", "monkey", "order")]
    [True, True, True, True, False, False]
    """
    if name in names:
        return True
    parts = [part.lower() for part in _PARTS.findall(name)]
    return any(part in WORDS or part.removesuffix("s") in WORDS or part.endswith(ENDINGS) for part in parts)


def sensitive_values(document: Json, names: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the strings and numbers under sensitive names, as text.

    >>> list(sensitive_values({"user": "ada", "login": {"password": "x1y2z3", "token": {"value": 77123}}}))
    ['x1y2z3', '77123']
    """
    waiting: list[tuple[Json, bool]] = [(document, False)]
    while waiting:
        value, is_hidden = waiting.pop()
        match value:
            case dict():
                waiting += [(each, is_hidden or is_sensitive(name, names)) for name, each in reversed(value.items())]
            case list():
                waiting += [(each, is_hidden) for each in reversed(value)]
            case bool():
                pass
            case str() | int() | float() if is_hidden and len(str(value)) >= SHORTEST:
                yield str(value)


class Mask:
    """A function that hides the sensitive values of one job in a string. It reads the job's documents when it is first called."""

    __slots__ = ("_documents", "_names", "_pattern", "_values")

    def __init__(self, documents: Iterable[bytes | None], names: frozenset[str] = frozenset()) -> None:
        self._documents, self._names = documents, names
        self._values: tuple[str, ...] | None = None
        self._pattern: re.Pattern[str] | None = None

    def __call__(self, text: str) -> str:
        """Return the text with ``hidden`` in place of each value, and of what follows ``password=`` and the like."""
        if self._values is None:
            self._values = tuple(sorted({form for value in self._found() for form in _forms(value)}, key=len, reverse=True))
            self._pattern = re.compile("|".join(map(_pattern_of, self._values))) if self._values else None
        masked = text if self._pattern is None else self._pattern.sub(HIDDEN, self._without_half(text))
        masked = _CREDENTIALS.sub(rf"\1{HIDDEN}", masked)
        return _ASSIGNED.sub(lambda found: f"{found['name']}{found['kind'] or ''}{HIDDEN}", masked)

    def _found(self) -> Iterator[str]:
        for document in self._documents:
            try:
                yield from sensitive_values(msgspec.json.decode(document or b"null"), self._names)
            except msgspec.DecodeError:  # no JSON: the handler never saw a value of it
                continue

    def _without_half(self, text: str) -> str:
        """Return a message that was cut to its limit without the first half of a value at its end."""
        if not text.endswith("…"):
            return text
        for value in self._values or ():
            for length in range(min(len(value), len(text)) - 1, SHORTEST - 1, -1):
                if text.endswith(f"{value[:length]}…"):
                    return f"{text[: -length - 1]}{HIDDEN}…"
        return text


def _forms(value: str) -> Iterator[str]:
    """Yield the value as messages write it: plain, quoted by Python or JSON, in a URL, and line by line."""
    yield from (value, repr(value)[1:-1], ascii(value)[1:-1], msgspec.json.encode(value).decode()[1:-1])
    yield from (quote(value, safe=""), quote(value))
    yield from (line.strip() for line in value.splitlines() if len(line.strip()) >= SHORTEST_PART)


def _pattern_of(value: str) -> str:
    return rf"(?<!\w){re.escape(value)}(?!\w)" if len(value) < BOUNDED_BELOW else re.escape(value)
