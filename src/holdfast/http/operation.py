"""One call of the API, as a value: the routes and the OpenAPI document are made from the same list."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from holdfast.http.identity import Identity, Role


class Call(Struct, frozen=True, kw_only=True):
    """A request that was checked. ``is_gone``: whether its sender has closed the connection."""

    identity: Identity
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any = None
    key: str | None = None
    is_gone: Callable[[], Awaitable[bool]]


class Reply(Struct, frozen=True):
    """An answer; ``None`` as a body: it has none."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = {}


class Operation(Struct, frozen=True, kw_only=True):
    """A call: its route, who may make it, and the types of its body and its answers. ``refusals``: the statuses of its problems."""

    method: str
    path: str
    summary: str
    roles: frozenset[Role]
    body: Any = None
    answers: Mapping[int, Any]
    query: tuple[str, ...] = ()
    has_key: bool = False
    refusals: tuple[int, ...] = ()
    run: Callable[[Call], Awaitable[Reply]]
