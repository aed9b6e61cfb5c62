"""Texts as SQL stores take them: those have no lone surrogates, and end or refuse a text at a zero character."""

import msgspec


def storable_text(said: str | None) -> str | None:
    """What cannot be kept becomes a sign that says so."""
    return None if said is None else said.replace("\0", "\ufffd").encode(errors="replace").decode()


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
