"""The store port, served: each request is a call of one verb of the broker's store."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast._core.release import VERSION
from holdfast._core.text import printable
from holdfast._engine import store_defaults
from holdfast._engine.error_text import described
from holdfast._ports import wire
from holdfast._ports.leading import LEADER_HEADER, MISDIRECTED, Misdirected
from holdfast._ports.store import Store
from holdfast._ports.wire_errors import encode_error
from holdfast.broker.group_commit import GroupCommit
from holdfast.broker.roles import ROLES
from holdfast.errors import HoldfastError, StoreRefused, StoreUnavailable, Unsupported
from holdfast.http.identity import Identity
from holdfast.http.limits import BodyTooLarge, read_body

OK, UNREADABLE, NO_TOKEN, NOT_ALLOWED, UNKNOWN, TOO_LARGE, FAILED = 200, 400, 401, 403, 404, 413, 409
DEFAULTS: Final[dict[str, Callable[..., Awaitable[Any]]]] = {
    "purge": store_defaults.purge,
    "steer": store_defaults.steer,
    "waiting_tasks": store_defaults.waiting_tasks,
    "due": store_defaults.due,
    "owed_hooks": store_defaults.owed_hooks,
    "estimates": store_defaults.estimates,
}
"""What stands in for a verb that a store does not have."""

logger = logging.getLogger("holdfast")


def _new(role: str) -> str:
    """Return how to get another token."""
    return f"`holdfast broker --new-token NAME={role}` prints a new one, and its line for the file that the broker reads when it starts"


class Port:
    """Answers calls of verbs. Every call is answered: any error of the store becomes an answer."""

    def __init__(self, store: Store) -> None:
        self._store, self._group = store, GroupCommit(store)

    async def serve(self, request: Request, identity: Identity | None) -> Response:
        """Answer a request to ``/port/v1/VERB``."""
        verb = wire.VERBS.get(request.path_params["verb"])
        if request.path_params["version"] != f"v{wire.VERSION}" or verb is None:
            asked = printable(f"{request.path_params['version']}/{request.path_params['verb']}")[:80]
            unknown = f"the broker (release {VERSION}) does not know {asked}: upgrade brokers first, then workers"
            return _failure(UNKNOWN, Unsupported(unknown))
        if identity is None:
            return _failure(NO_TOKEN, StoreRefused(f"the broker does not know the token: set HOLDFAST_TOKEN; {_new('worker')}"))
        if not identity.has(ROLES[verb.name]):
            roles: list[str] = [*sorted(ROLES[verb.name])] or ["admin"]
            remedy = f"use one of the role {', '.join(roles)}; {_new(roles[0])}"
            return _failure(NOT_ALLOWED, StoreRefused(f"the token of {identity.name} may not {verb.name}: {remedy}"))
        try:
            body = await read_body(request, wire.MOST_BYTES)
        except BodyTooLarge:
            return _failure(TOO_LARGE, StoreRefused(f"a call has more than {wire.MOST_BYTES:,} bytes: send fewer jobs at once"))
        try:
            arguments, keywords = verb.decode_request(body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return _failure(UNREADABLE, StoreRefused(f"the broker cannot read the call of {verb.name}: {error}"))
        return await self._call(verb, arguments, keywords)

    async def _call(self, verb: wire.Verb, arguments: list[Any], keywords: dict[str, Any]) -> Response:
        try:
            value = await self._verb(verb.name)(*arguments, **keywords)
            body = verb.encode_answer(value, store_defaults.take_flow_changes(self._store))
        except Misdirected as error:
            return overloaded() if error.leader is None else misdirected(error.leader)
        except HoldfastError as error:
            return _failure(FAILED, error)
        except Exception as error:
            logger.error("the store failed at %s: %s", verb.name, printable(described(error)))
            return _failure(FAILED, error)
        return _response(OK, body)

    def _verb(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name in ("exchange", "start"):
            found: Callable[..., Awaitable[Any]] = getattr(self._group, name)
            return found
        if (own := getattr(self._store, name, None)) is not None:
            verb: Callable[..., Awaitable[Any]] = own
            return verb
        if name in DEFAULTS:
            return lambda *arguments, **keywords: DEFAULTS[name](self._store, *arguments, **keywords)
        kind = self._store.capabilities.name
        raise Unsupported(f"the {kind} store behind the broker has no {name}: use one that does, such as sqlite:///jobs.db")


def misdirected(leader: str) -> Response:
    """Return the answer of a broker that follows."""
    answer = _failure(MISDIRECTED, Misdirected(f"this broker follows: ask the one that leads, {leader}", leader))
    answer.headers[LEADER_HEADER] = leader
    return answer


def overloaded() -> Response:
    """Return the answer for a request that the broker does not accept now."""
    return _failure(503, StoreUnavailable("the broker has too many requests, or is stopping: send it again"))


def _failure(status: int, error: BaseException) -> Response:
    return _response(status, encode_error(error))


def _response(status: int, body: bytes) -> Response:
    return Response(body, status, {wire.HEADER: str(wire.VERSION)}, wire.CONTENT_TYPE)
