"""The broker as an ASGI application: the store port, hints, and the HTTP API, each behind the same authenticator and limits."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from holdfast._engine.environment import Environment
from holdfast.broker.hints import Hub, decode_hints, encode_hints
from holdfast.broker.limits import MOST_REQUESTS, read_body
from holdfast.broker.maintenance import Maintenance
from holdfast.broker.port import Port, overloaded
from holdfast.http.identity import Authenticate, Identity, Role, local
from holdfast.settings import Settings

HINT_BYTES = 1 << 20
_LISTENING = frozenset((Role.WORKER,))
_PUBLISHING = frozenset((Role.WORKER, Role.PRODUCER, Role.OPERATOR))

logger = logging.getLogger("holdfast")
Endpoint = Callable[[Request], Awaitable[Response]]


class Broker:
    """What a broker serves. ``authenticate``: by default it recognises requests of this machine only.

    ``maintains=False``: leave recovery, expiry and pruning to the supervisors of workers.
    """

    def __init__(
        self, environment: Environment, settings: Settings, *, authenticate: Authenticate = local, maintains: bool = True
    ) -> None:
        self._authenticate = authenticate
        self._port = Port(environment.store)
        self.hub = Hub(environment.transport, environment.chance.uuid4())
        self._maintenance = Maintenance(environment, settings) if maintains else None
        self._requests = 0

    def stop(self) -> None:
        """Answer all who wait for hints, so that the server can end; calls that are under way still get their answers."""
        self.hub.close()

    def application(self) -> Starlette:
        """Return the ASGI application."""
        return Starlette(
            routes=[
                Route("/port/{version}/{verb}", self._admitted(self._serve_port), methods=["POST"]),
                Route("/hints/v1", self._read_hints, methods=["GET"]),
                Route("/hints/v1", self._admitted(self._publish_hints), methods=["POST"]),
                Route("/healthz", _alive, methods=["GET"]),
            ],
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as closing:
            await self.hub.open()
            closing.callback(self.hub.close)
            if self._maintenance is not None:
                await closing.enter_async_context(self._maintenance.running())
            yield

    def _admitted(self, endpoint: Endpoint) -> Endpoint:
        """Refuse requests beyond the limit before they are read: a queue of them would outlive the patience of their senders."""

        async def admit(request: Request) -> Response:
            if self._requests >= MOST_REQUESTS:
                return overloaded()
            self._requests += 1
            try:
                return await endpoint(request)
            except ClientDisconnect:
                return Response(status_code=408)
            finally:
                self._requests -= 1

        return admit

    async def _serve_port(self, request: Request) -> Response:
        return await self._port.serve(request, self._authenticate(request))

    async def _read_hints(self, request: Request) -> Response:
        if (refused := _refused(self._authenticate(request), _LISTENING)) is not None:
            return refused
        found = await self.hub.read(request.query_params.get("position", ""))
        return Response(encode_hints(found))

    async def _publish_hints(self, request: Request) -> Response:
        if (refused := _refused(self._authenticate(request), _PUBLISHING)) is not None:
            return refused
        try:
            await self.hub.publish(decode_hints(await read_body(request, HINT_BYTES)))
        except msgspec.MsgspecError as error:
            return PlainTextResponse(f"hints cannot be read: {error}", 400)
        return Response(status_code=204)


def _refused(identity: Identity | None, roles: frozenset[Role]) -> Response | None:
    if identity is None:
        return PlainTextResponse("the broker does not know the token", 401)
    return None if identity.has(roles) else PlainTextResponse("the token has another role", 403)


async def _alive(_: Request) -> Response:
    return PlainTextResponse("ok")
