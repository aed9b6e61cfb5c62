"""One call of the API, as a value: the routes and the OpenAPI document are made from the same list."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from holdfast.http.identity import Identity, Role
from holdfast.http.permissions import Action


class Call(Struct, frozen=True, kw_only=True):
    """A request that was checked. ``is_gone``: whether its sender has closed the connection. ``asked``: the query, if the operation
    has a type for it. ``may``: the actions that its sender may take here. ``match``: its ``If-Match``."""

    identity: Identity
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any = None
    asked: Any = None
    key: str | None = None
    match: str | None = None
    may: frozenset[Action] = frozenset()
    is_read_only: bool = False
    is_gone: Callable[[], Awaitable[bool]]


class Reply(Struct, frozen=True):
    """An answer; ``None`` as a body: it has none."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = {}


class Operation(Struct, frozen=True, kw_only=True):
    """A call: its route, who may make it, and the types of its body and its answers. ``refusals``: the statuses of its problems.

    ``action``: what it does, for the rules about who may. ``query``: the type of its query; unknown names are refused then.
    ``is_body_optional``: without one it gets an empty object. ``has_match``: it takes ``If-Match``. ``is_unbounded``: it reads
    for as long as it needs.
    """

    method: str
    path: str
    summary: str
    roles: frozenset[Role]
    action: Action = Action.READ
    body: Any = None
    is_body_optional: bool = False
    answers: Mapping[int, Any]
    query: Any = None
    has_key: bool = False
    has_match: bool = False
    is_unbounded: bool = False
    refusals: tuple[int, ...] = ()
    run: Callable[[Call], Awaitable[Reply]]

    @property
    def is_change(self) -> bool:
        """Whether it changes something."""
        return self.method != "GET"
