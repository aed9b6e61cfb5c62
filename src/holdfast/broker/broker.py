"""The broker as an ASGI application: the store port, hints, and the HTTP API, each behind the same authenticator and limits."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol

import msgspec
from msgspec import structs
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from holdfast._engine.client.client import Client
from holdfast._engine.environment import Environment
from holdfast._engine.tasks.registry import Registry
from holdfast._ports import wire_hints
from holdfast._ports.leading import VERSION_HEADER, Standing
from holdfast._system.host import SystemHost
from holdfast.broker import port
from holdfast.broker.hints import MOST_WAITING, Hub, HubTransport
from holdfast.broker.leadership import Leadership
from holdfast.broker.maintenance import Maintenance, anonymous
from holdfast.broker.port import Port
from holdfast.http import api
from holdfast.http.access import Access
from holdfast.http.api import Api
from holdfast.http.claiming import CLAIM, Claims
from holdfast.http.compression import Compressed
from holdfast.http.denials import Denials
from holdfast.http.guard import foreign
from holdfast.http.health import health
from holdfast.http.identity import Authenticate, Identity, Role, local
from holdfast.http.limits import MOST_REQUESTS, Rates, read_body
from holdfast.http.managed import Managed
from holdfast.http.management import management
from holdfast.http.openapi import PREFIX
from holdfast.http.operation import Operation
from holdfast.http.settling import Settling
from holdfast.http.stats import stats
from holdfast.http.stream import Stream
from holdfast.http.stream_routes import stream_routes
from holdfast.settings import Settings
from holdfast.transports.polling import PollingTransport

HINT_BYTES = 1 << 20
GIVE_UP = 5.0
"""Seconds for which a call of the API is repeated while the store is away: its sender waits, and may repeat it, too."""
_LISTENING = frozenset((Role.WORKER,))
_PUBLISHING = frozenset((Role.WORKER, Role.PRODUCER, Role.OPERATOR))

Endpoint = Callable[[Request], Awaitable[Response]]


class Refusals(Protocol):
    """The answers to requests that are not accepted, in the form of what was asked."""

    def overloaded(self) -> Response:
        """Return the answer to one request too many."""
        ...

    def misdirected(self, leader: str) -> Response:
        """Return the answer of a broker that follows this one."""
        ...


class Broker:
    """What a broker serves. ``authenticate``: by default it recognises requests of this machine only.

    ``maintains=False``: leave recovery, expiry and pruning to the supervisors of workers. ``rate``: the requests a second that each sender
    may make to the API. ``url``: it stands for election when its application starts, and clients reach it there.
    """

    def __init__(
        self,
        environment: Environment,
        settings: Settings,
        *,
        registry: Registry | None = None,
        authenticate: Authenticate = local,
        maintains: bool = True,
        rate: int | None = None,
        url: str | None = None,
    ) -> None:
        self._authenticate, self._url = authenticate, url
        self._store, self._port = environment.store, Port(environment.store)
        self._leadership = Leadership(environment.store, environment.clock)
        # where brokers are elected, the usual transport leads to the hub of the leader
        is_own_hub = self._leadership.is_elected and settings.transport is None
        transport = PollingTransport() if is_own_hub else environment.transport
        self.hub = Hub(transport, environment.chance.uuid4())
        environment = structs.replace(environment, transport=HubTransport(self.hub, transport))
        self._maintenance = Maintenance(environment, settings) if maintains else None
        rates = None if rate is None else Rates(rate, environment.clock.monotonic)
        client = Client(environment, give_up=GIVE_UP)
        self._managed = Managed.of_store(environment, settings, registry or Registry(), client)
        self._stream = Stream(lambda: client, lambda: environment.clock, environment.chance.uuid4().hex[:12])
        self._access = Access(authenticate)
        denials = Denials(lambda: environment, self._access, "api")
        self._api = Api(self._operations(environment, settings, client), self._access, denials, rates)
        self._requests = 0

    async def stand(self, url: str) -> None:
        """Lead, or follow the broker that leads, if the store is one of which one broker is the only writer."""
        await self._leadership.stand(url)

    def stop(self) -> None:
        """Answer all requests that wait for hints, so that the server can end; calls that are under way still get their answers."""
        self.hub.close()
        self._stream.close()
        self._leadership.end()

    def application(self) -> Starlette:
        """Return the ASGI application."""
        return Starlette(
            routes=[
                Route("/port/{version}/{verb}", self._admitted(self._serve_port, port), methods=["POST"]),
                Route(wire_hints.PATH, self._admitted(self._read_hints, port, waits=True), methods=["GET"]),
                Route(wire_hints.PATH, self._admitted(self._publish_hints, port), methods=["POST"]),
                *self._api.routes(lambda call, endpoint: self._admitted(endpoint, api, waits=call.path == CLAIM)),
                Route("/leader", self._leader, methods=["GET"]),
                *stream_routes(
                    self._access, self._stream, self._managed.record, lambda endpoint: self._admitted(endpoint, api, waits=True)
                ),
                *health(lambda: self._store, ("/healthz", "/readyz")),
            ],
            exception_handlers={HTTPException: api.of_route},
            lifespan=self._lifespan,
            # Holdfast's own processes are near, and send much: only what others read is compressed.
            middleware=[Middleware(Compressed, leaves=lambda path: not path.startswith(f"{PREFIX}/"))],
        )

    def _operations(self, environment: Environment, settings: Settings, client: Client) -> list[Operation]:
        timing = settings.timing
        process, poll = anonymous(SystemHost().process()), settings.poll_interval
        claims = Claims(environment, timing, process, poll=poll, hints=self.hub)
        settling, calls = Settling(environment, timing), management(self._managed)
        return [*calls, claims.operation(), *settling.operations(), stats(client)]

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as closing:
            await self.hub.open()
            if self._url is not None:
                await self.stand(self._url)
            closing.callback(self.hub.close)
            await closing.enter_async_context(self._leadership.maintained(self._maintenance))
            yield

    def _admitted(self, endpoint: Endpoint, kind: Refusals, *, waits: bool = False) -> Endpoint:
        """Refuse requests beyond the limit before they are read: a queue of them would outlive the patience of their senders. A broker
        that does not lead refuses all.

        ``waits``: they wait for hints, so that they count by themselves.
        """

        async def admit(request: Request) -> Response:
            if not (standing := self._leadership.standing).is_leading:
                return _elsewhere(standing, kind)
            if self.hub.waiting >= MOST_WAITING if waits else self._requests >= MOST_REQUESTS:
                return kind.overloaded()
            self._requests += not waits
            try:
                answer = await endpoint(request)
            except ClientDisconnect:
                return Response(status_code=408)
            finally:
                self._requests -= not waits
            if version := self._leadership.standing.version:
                answer.headers[VERSION_HEADER] = version
            return answer

        return admit

    async def _leader(self, _: Request) -> Response:
        standing = self._leadership.standing
        return PlainTextResponse("ok") if standing.is_leading else _elsewhere(standing, api)

    def _sender(self, request: Request) -> Identity | None:
        """Return who sends a request of a program; None for a page of another site, whose browser may show who its reader is."""
        return None if foreign(request.headers) else self._authenticate(request)

    async def _serve_port(self, request: Request) -> Response:
        return await self._port.serve(request, self._sender(request))

    async def _read_hints(self, request: Request) -> Response:
        if (refused := _refused(self._sender(request), _LISTENING)) is not None:
            return refused
        found = await self.hub.read(request.query_params.get("position", ""))
        return Response(wire_hints.encode(found))

    async def _publish_hints(self, request: Request) -> Response:
        if (refused := _refused(self._sender(request), _PUBLISHING)) is not None:
            return refused
        try:
            await self.hub.publish(wire_hints.decode_published(await read_body(request, HINT_BYTES)))
        except msgspec.MsgspecError as error:
            return PlainTextResponse(f"hints cannot be read: {error}", 400)
        return Response(status_code=204)


def _refused(identity: Identity | None, roles: frozenset[Role]) -> Response | None:
    if identity is None:
        return PlainTextResponse("the broker does not know the token", 401)
    return None if identity.has(roles) else PlainTextResponse("the token has another role", 403)


def _elsewhere(standing: Standing, kind: Refusals) -> Response:
    """Return the answer of a broker that does not lead."""
    return kind.overloaded() if standing.leader is None else kind.misdirected(standing.leader)
