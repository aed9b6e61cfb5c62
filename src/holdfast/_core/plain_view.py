"""What views can be turned into: plain JSON, and the schema that pydantic shows for them."""

from collections.abc import Callable
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct


class PlainView(Struct, frozen=True):
    """A view whose fields can be written as JSON. FastAPI returns it as it is, and describes its fields in OpenAPI."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON has them: times as ISO 8601 text, ids and states as text.

        >>> app.jobs.get(id).to_dict()["state"]  # doctest: +SKIP
        'completed'
        """
        fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))  # ``to_builtins`` leaves tuples as they are
        return fields

    def to_json(self) -> str:
        """Return the fields as JSON text.

        >>> app.jobs.get(id).to_json()[:6]  # doctest: +SKIP
        '{"id":'
        """
        return msgspec.json.encode(self).decode()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> dict[str, Any]:
        """Return how pydantic writes the view. Its schemas are plain dicts, so this module does not need pydantic."""
        fields = handler.generate_schema(_typed(cls))
        written = {"type": "function-plain", "function": _fields, "return_schema": fields}
        reader = {"type": "no-info", "function": _fields}
        return {"type": "function-before", "function": reader, "schema": fields, "serialization": written}


def _fields(value: Any) -> Any:
    """Return a view as dicts, with ids, times and states as they are: pydantic writes them."""
    if isinstance(value, Struct):
        return {name: _fields(getattr(value, name)) for name in value.__struct_fields__}
    return tuple(map(_fields, value)) if isinstance(value, tuple) else value


@cache
def _typed(kind: type[Struct]) -> Any:
    """Return a ``TypedDict`` of a struct's fields, which pydantic can describe."""
    from typing_extensions import TypedDict  # noqa: PLC0415 - comes with pydantic, which calls this

    fields = {name: _described(each) for name, each in get_type_hints(kind).items() if name in kind.__struct_fields__}
    return TypedDict(kind.__name__, fields)  # type: ignore[operator]


def _described(kind: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _typed(kind)
    origin, parts = get_origin(kind), tuple(_described(part) for part in get_args(kind))
    if not parts or not isinstance(origin, Callable):  # type: ignore[arg-type]
        return kind
    return Union[parts] if origin in (Union, UnionType) else origin[parts]  # noqa: UP007 - of a tuple
