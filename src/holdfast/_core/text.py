"""Strings as others can take them: terminals, JSON documents and SQL databases."""

import msgspec

_CONTROL = (*range(0x20), *range(0x7F, 0xA0))
_BIDIRECTIONAL = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_SHOWN = {code: f"\\x{code:02x}" for code in _CONTROL} | {code: f"\\u{code:04x}" for code in _BIDIRECTIONAL}

IN_ONE_LINE = _SHOWN | {0x0A: "\\n", 0x09: "\\t", 0x0D: "\\r"}
"""For ``str.translate``: everything that moves the cursor or turns the writing is shown instead of obeyed."""

IN_LINES = {code: text for code, text in _SHOWN.items() if code not in (0x09, 0x0A)}
"""The same for text with several lines, such as a traceback."""

IN_JSON = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *_BIDIRECTIONAL)}
"""For an encoded document: what JSON would let through means the same when it is escaped."""


def printable(text: str) -> str:
    """Text that cannot steer a terminal: it may come from a payload.

    >>> printable("a\\x1b[2J")
    'a\\\\x1b[2J'
    """
    return text.translate(IN_ONE_LINE)


def storable_text(text: str | None) -> str | None:
    """Replace what a SQL store cannot keep by a replacement character."""
    return None if text is None else text.replace("\0", "\ufffd").encode(errors="replace").decode()


def json_text(value: object) -> str:
    """JSON; what UTF-8 cannot say (a lone surrogate in the name of a file) becomes a question mark."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(msgspec.convert(_sayable(msgspec.to_builtins(value)), type(value))).decode()


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
