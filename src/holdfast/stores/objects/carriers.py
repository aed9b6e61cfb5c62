"""The bytes in arguments, answers and rows: payloads, results, checkpoints, values of steps and signals."""

from collections.abc import Callable
from functools import cache
from typing import Any

from msgspec import Struct, inspect, structs


def replaced(value: Any, change: Callable[[bytes], bytes]) -> Any:
    """Return the value with other bytes in it; the same object if none of them changes."""
    if type(value) is bytes:
        return change(value)
    if isinstance(value, Struct):
        pairs = ((name, getattr(value, name)) for name in _carrying(type(value)))
        new = {name: made for name, old in pairs if (made := replaced(old, change)) is not old}
        return structs.replace(value, **new) if new else value
    if type(value) in (tuple, list):
        items = [replaced(each, change) for each in value]
        return type(value)(items) if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if isinstance(value, dict):
        made = {key: replaced(each, change) for key, each in value.items()}
        return made if any(made[key] is not value[key] for key in value) else value
    return value


def bytes_in(value: Any) -> list[bytes]:
    """Return the bytes in a value."""
    found = list[bytes]()
    _find(value, found)
    return found


def _find(value: Any, found: list[bytes]) -> None:
    kind = type(value)
    if kind is bytes:
        found.append(value)
    elif kind is tuple or kind is list:
        for each in value:
            _find(each, found)
    elif isinstance(value, Struct):
        for name in _carrying(type(value)):
            _find(getattr(value, name), found)
    elif isinstance(value, dict):
        for each in value.values():
            _find(each, found)


@cache
def _carrying(kind: type[Struct]) -> tuple[str, ...]:
    """Return the fields of a class that may have bytes in them."""
    found = inspect.type_info(kind)
    assert isinstance(found, inspect.StructType)
    return tuple(each.name for each in found.fields if _may_have_bytes(each.type, {kind}))


def _may_have_bytes(kind: inspect.Type, outer: set[type]) -> bool:
    match kind:
        case inspect.BytesType():
            return True
        case inspect.StructType():
            return kind.cls not in outer and any(_may_have_bytes(each.type, {*outer, kind.cls}) for each in kind.fields)
        case inspect.UnionType():
            return any(_may_have_bytes(each, outer) for each in kind.types)
        case inspect.VarTupleType() | inspect.ListType() | inspect.CollectionType():
            return _may_have_bytes(kind.item_type, outer)
        case inspect.TupleType():
            return any(_may_have_bytes(each, outer) for each in kind.item_types)
        case inspect.DictType():
            return _may_have_bytes(kind.value_type, outer)
        case _:
            return False
