"""Whether the result of one task can be a parameter of another, judged by the kinds of JSON that both types have.

Only what cannot fit is refused. Types that are not known here fit everything: the worker decodes each result again.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import is_dataclass
from inspect import formatannotation
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, is_typeddict

from msgspec import Struct

_KINDS: dict[type, str] = {NoneType: "null", bool: "boolean", int: "number", float: "number", str: "string"}
_ALL = frozenset(("null", "boolean", "number", "string", "array", "object"))


def fits(produced: object, accepted: object) -> bool:
    """Return whether a value of one type may be read as the other.

    >>> fits(int, float), fits(list[int], str), fits(int | None, str | None)
    (True, False, True)
    """
    return bool(kinds_of(produced) & kinds_of(accepted))


def kinds_of(kind: object) -> frozenset[str]:
    """Return the kinds of JSON that values of a type have; all of them for a type that is not known here."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is None:
        return frozenset(("null",))
    if origin is Annotated:
        return kinds_of(inner[0])
    if origin in (Union, UnionType):
        return frozenset[str]().union(*map(kinds_of, inner))
    if origin is Literal:
        return frozenset[str]().union(*(kinds_of(type(each)) for each in inner))
    plain = origin or kind
    return _kinds_of_class(plain) if isinstance(plain, type) else _ALL


def item_of(kind: object) -> Any:
    """Return the type of the items of a list type; ``Any`` for a list that names none."""
    return (get_args(kind) or (Any,))[0]


def name_of_type(kind: object) -> str:
    """Return a type as users write it.

    >>> name_of_type(str), name_of_type(list[int]), name_of_type(None)
    ('str', 'list[int]', 'None')
    """
    if kind in (None, NoneType):
        return "None"
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else formatannotation(kind)


def _kinds_of_class(kind: type[Any]) -> frozenset[str]:
    if kind in _KINDS:
        return frozenset((_KINDS[kind],))
    if is_dataclass(kind) or is_typeddict(kind) or issubclass(kind, (Struct, Mapping)):
        return frozenset(("object",))
    if issubclass(kind, (Sequence, Set)) and not issubclass(kind, (str, bytes)):
        return frozenset(("array",))
    return _ALL
