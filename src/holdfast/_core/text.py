"""Strings made safe for terminals, JSON documents and SQL databases."""

from typing import TypeVar

import msgspec

Encoded = TypeVar("Encoded")

_CONTROL = (*range(0x20), *range(0x7F, 0xA0))
_BIDIRECTIONAL = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_SHOWN = {code: f"\\x{code:02x}" for code in _CONTROL} | {code: f"\\u{code:04x}" for code in _BIDIRECTIONAL}

_SMALL = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}

IN_ONE_LINE = _SHOWN | {0x0A: "\\n", 0x09: "\\t", 0x0D: "\\r"}
"""A table for ``str.translate``: characters that move the cursor or change the direction of writing are escaped."""

IN_LINES = {code: text for code, text in _SHOWN.items() if code not in (0x09, 0x0A)}
"""The same table for text with several lines, such as a traceback."""

IN_JSON = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *_BIDIRECTIONAL)}
"""A table for an encoded JSON document: it escapes characters that JSON allows unescaped; their meaning stays the same."""


def printable(text: str) -> str:
    """Return text in one line that cannot control a terminal; the text may come from a payload.

    >>> printable("a\\x1b[2J")
    'a\\\\x1b[2J'
    """
    return text.translate(IN_ONE_LINE)


def names_remedy(message: str) -> bool:
    """Return whether a message names what to do: a command, or what to check.

    >>> names_remedy("no schema: run `holdfast migrate`"), names_remedy("no answer in time")
    (True, False)
    """
    return "`holdfast " in message or "check that" in message


def shortened(text: str) -> str:
    """Return a string as a message quotes it: the beginning of a long one.

    >>> shortened("a" * 500)[-5:]
    'aaaa…'
    """
    return text if len(text) <= 80 else f"{text[:60]}…"


def storable_text(text: str | None) -> str | None:
    """Return the text with a replacement for each character that a SQL store cannot keep."""
    return None if text is None else text.replace("\0", "\ufffd").encode(errors="replace").decode()


def json_text(value: object) -> str:
    """Return a value as JSON; a character that UTF-8 cannot encode (a lone surrogate in a file name) becomes a question mark."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(encodable(value)).decode()


def json_part(text: str) -> str:
    """Return what is between the quotes of a string in JSON."""
    return json_text(text)[1:-1]


def in_lower_case(text: str) -> str:
    """Return the text with small ASCII letters, as ``lower`` of SQL writes them in any locale.

    >>> in_lower_case("KeyError: Ü")
    'keyerror: Ü'
    """
    return text.translate(_SMALL)


def encodable(value: Encoded) -> Encoded:
    """Return a copy of a struct in which characters that UTF-8 cannot encode have become question marks."""
    return msgspec.convert(_sayable(msgspec.to_builtins(value)), type(value))


def _sayable(value: object) -> object:
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case list() | tuple():
            return [_sayable(each) for each in value]
        case dict():
            return {_sayable(key): _sayable(each) for key, each in value.items()}
        case _:
            return value
