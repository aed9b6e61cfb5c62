"""The API as routes: each call is authenticated, read and checked, then made; any error becomes a problem."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast._core.text import printable
from holdfast._engine.error_text import described
from holdfast._ports.leading import LEADER_HEADER, MISDIRECTED
from holdfast.http.access import Access, target_of
from holdfast.http.denials import Denials
from holdfast.http.limits import BodyTooLarge, Rates, read_body
from holdfast.http.openapi import PREFIX, document
from holdfast.http.operation import Call, Operation, Reply
from holdfast.http.problems import CONTENT_TYPE, RETRY_AFTER, ApiError, Problem, problem, problem_of
from holdfast.http.selectors import Selector, spread

MOST_BYTES: Final = 4 * 2**20
_JSON: Final = "application/json"
_STORE_AWAY: Final = 503
_TOO_MANY: Final = 429
_UNKNOWN: Final = 401
_BROKEN: Final = 500
LONGEST_READ: Final = 2.0
"""Seconds for which a call that only reads waits for the store."""

logger = logging.getLogger("holdfast")
Endpoint = Callable[[Request], Awaitable[Response]]
_encode = msgspec.json.Encoder().encode


class Api:
    """The routes of some calls, and the document that describes them. ``rates``: what each sender may ask.

    ``denials``: records what it refuses.
    """

    def __init__(self, operations: Sequence[Operation], access: Access, denials: Denials, rates: Rates | None = None) -> None:
        self._access, self._denials, self._rates = access, denials, rates
        # A route with a parameter would also match the fixed ones.
        self._operations = sorted(operations, key=lambda each: "{" in each.path)

    def routes(self, admitted: Callable[[Operation, Endpoint], Endpoint] = lambda _, endpoint: endpoint) -> list[Route]:
        """Return the routes; ``admitted`` limits how many requests of a call there are at once."""
        found = [
            Route(PREFIX + each.path, admitted(each, self._endpoint(each)), methods=[each.method]) for each in self._operations
        ]
        return [*found, Route(f"{PREFIX}/openapi.json", self._describe, methods=["GET"])]

    @cached_property
    def _document(self) -> bytes:
        return _encode(document(self._operations))

    async def _describe(self, _: Request) -> Response:
        return Response(self._document, media_type=_JSON)

    def _endpoint(self, operation: Operation) -> Endpoint:
        decoder = None if operation.body is None else msgspec.json.Decoder(operation.body)

        async def serve(request: Request) -> Response:
            try:
                call = await self._call(request, operation, decoder)
                return _answer(await (operation.run(call) if operation.is_change else _in_time(operation, call)))
            except ClientDisconnect:
                raise
            except Exception as error:
                found = problem_of(error)
                if found.status == _BROKEN:
                    logger.error("the API failed at %s: %s", operation.path, printable(described(error)))
                await self._denials.note(request, found, operation.action)
                answer = refused(found)
                if found.status == _UNKNOWN:
                    answer.headers["WWW-Authenticate"] = self._access.challenge
                return answer

        return serve

    async def _call(self, request: Request, operation: Operation, decoder: "msgspec.json.Decoder[Any] | None") -> Call:
        access, identity = self._access, self._access.identity(request)
        target = target_of(request)
        access.require(identity, operation.action, target, operation.roles)
        if operation.is_change:
            access.require_change(request)
        if self._rates is not None and not self._rates.accepts(identity.name):
            raise ApiError(
                _TOO_MANY, "too_many", f"{identity.name} has sent too many requests in a second", "send it again later"
            )
        return Call(
            identity=identity,
            path=request.path_params,
            query=request.query_params,
            asked=None if operation.query is None else asked(operation.query, request.query_params.multi_items()),
            body=None if decoder is None else await _body(request, decoder, is_optional=operation.is_body_optional),
            key=request.headers.get("idempotency-key") if operation.has_key else None,
            match=request.headers.get("if-match") if operation.has_match else None,
            may=access.may(identity, target),
            is_read_only=access.is_read_only,
            is_gone=request.is_disconnected,
        )


async def _in_time(operation: Operation, call: Call) -> Reply:
    """Return the answer of a call that reads, unless the store takes too long: then others would wait behind it."""
    if operation.is_unbounded:
        return await operation.run(call)
    try:
        async with asyncio.timeout(LONGEST_READ):
            return await operation.run(call)
    except TimeoutError:
        detail = f"the store did not answer within {LONGEST_READ:g} s"
        raise ApiError(_STORE_AWAY, "slow", detail, "ask for less: a narrower filter, or a smaller limit") from None


def asked(kind: Any, items: Sequence[tuple[str, str]]) -> Any:
    """Return the query of a request as a value of this type. Raises ``msgspec.ValidationError`` for what does not fit."""
    if twice := sorted(name for name, times in Counter(name for name, _ in items).items() if times > 1):
        raise msgspec.ValidationError(f"Object contains the field `{twice[0]}` twice")
    given = dict(items)
    return msgspec.convert(spread(given) if issubclass(kind, Selector) else given, kind, strict=False)


def refused(found: Problem) -> Response:
    """Return a problem as an answer."""
    headers = {"Retry-After": str(RETRY_AFTER)} if found.status in (_STORE_AWAY, _TOO_MANY) else {}
    return Response(_encode(found), found.status, headers, CONTENT_TYPE)


def overloaded() -> Response:
    """Return the answer for a request that is not accepted now."""
    return refused(problem(503, "overloaded", "the broker has too many requests, or is stopping", "send it again"))


def misdirected(leader: str) -> Response:
    """Return the answer of a broker that does not lead."""
    answer = refused(problem(MISDIRECTED, "misdirected", "this broker follows another one", f"send it to {leader}"))
    answer.headers[LEADER_HEADER] = leader
    return answer


async def of_route(_: Request, error: Exception) -> Response:
    """Answer a request that no route serves."""
    status = error.status_code if isinstance(error, HTTPException) else _BROKEN
    code = {404: "no_such_path", 405: "no_such_method"}.get(status, "broken")
    headers = error.headers if isinstance(error, HTTPException) else None
    answer = refused(problem(status, code, "there is no such call", f"see {PREFIX}/openapi.json"))
    answer.headers.update(headers or {})
    return answer


async def _body(request: Request, decoder: "msgspec.json.Decoder[Any]", *, is_optional: bool) -> Any:
    if is_optional and request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers:
        return decoder.decode(b"{}")
    # Pages of other sites can send other types without asking the server first.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
        raise ApiError(415, "not_json", "the body is not JSON", f"send Content-Type: {_JSON}")
    try:
        return decoder.decode(await read_body(request, MOST_BYTES))
    except BodyTooLarge:
        raise ApiError(413, "too_large", f"the body has more than {MOST_BYTES:,} bytes", "send fewer jobs at once") from None
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(400, "malformed", f"the body cannot be read: {error}", "send a JSON document") from None


def _answer(reply: Reply) -> Response:
    body = None if reply.body is None else _encode(reply.body)
    return Response(body, reply.status, dict(reply.headers), None if body is None else _JSON)
