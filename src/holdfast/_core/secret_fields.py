"""The fields of a handler's parameters that a model declares as secret: those of pydantic's ``SecretStr`` and ``SecretBytes``."""

from collections.abc import Iterable, Iterator
from typing import Any, get_args


def secret_fields(annotations: Iterable[Any]) -> frozenset[str]:
    """Return their names, and their aliases, also of models within models. Pydantic need not be installed."""
    found, seen, waiting = set[str](), set[int](), list(annotations)
    while waiting:
        kind = waiting.pop()
        if id(kind) in seen:
            continue
        seen.add(id(kind))
        waiting += get_args(kind)
        for name, alias, annotation in _fields(kind):
            waiting.append(annotation)
            if _is_secret(annotation):
                found |= {name, alias}
    return frozenset(found)


def _fields(kind: Any) -> Iterator[tuple[str, str, Any]]:
    fields = getattr(kind, "model_fields", None) if isinstance(kind, type) else None
    for name, field in fields.items() if isinstance(fields, dict) else ():
        yield name, getattr(field, "alias", None) or name, getattr(field, "annotation", None)


def _is_secret(annotation: Any) -> bool:
    parts = (annotation, *get_args(annotation))
    return any(isinstance(part, type) and hasattr(part, "get_secret_value") for part in parts)
