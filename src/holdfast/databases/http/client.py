"""Calls to one of several brokers. What may not be sent twice is not sent again once its bytes may have arrived."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from aiohttp import ClientConnectorError, ClientError, ClientResponse, ClientSession, ClientTimeout, TCPConnector
from msgspec import Struct

from holdfast._ports.clock import Randomness
from holdfast._ports.leading import LEADER_HEADER, MISDIRECTED, Refused
from holdfast._ports.wire import HEADER
from holdfast._system.clock import loop_sleep
from holdfast.databases.http.loop_thread import LoopThread
from holdfast.errors import ConfigurationError, StoreUnavailable

TIMEOUT = 10.0
"""Seconds for a call, with all its copies."""
CONNECT_TIMEOUT = 3.0
KEPT = 30.0
"""Seconds for which an unused connection is kept: shorter than a broker keeps it, or a call would meet a connection that closes."""
FAREWELL = 0.25
"""Seconds for brokers to answer the end of TLS, which aiohttp does not wait for."""
ROUNDS = 2
PAUSE = 0.1
CONNECTIONS = 128
"""More callers than that wait for each other here, so that a broker cannot put their calls into one write."""
OVERLOADED = 503
_REFUSED = (OVERLOADED, MISDIRECTED)
_BROKEN = (ClientError, OSError, RuntimeError)
"""What aiohttp raises without an answer: an SSLError if the broker wants a certificate, a RuntimeError once this process has closed."""


class HttpAnswer(Struct, frozen=True):
    """The answer to a call. Names of headers are lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class HttpClient:
    """Connections to brokers, in a separate thread. The token goes to these brokers only: no redirect is followed.

    ``certificate``: a file with a certificate of the client and its key, for brokers that ask for one.
    """

    def __init__(self, servers: Sequence[str], token: str | None, chance: Randomness, *, certificate: str | None = None) -> None:
        self._certificate = certificate
        self._servers, self._chance = tuple(servers), chance
        self._turn = chance.uuid4().int % len(servers)  # in the same order all clients would meet at the first broker
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._thread = LoopThread("holdfast-http")
        self._opened: tuple[asyncio.AbstractEventLoop, ClientSession] | None = None
        self._inherited: list[object] = []

    async def post(self, path: str, body: bytes, content_type: str, *, is_repeatable: bool) -> HttpAnswer:
        """Send a call and return the answer of any status. Raises ``StoreUnavailable`` if there is none: its outcome is unknown; or
        ``Refused`` if no broker can have had it."""
        return await self._thread.run(lambda: self._post(path, body, content_type, is_repeatable=is_repeatable))

    def start(self, call: Callable[[], Coroutine[Any, Any, None]]) -> "Future[None]":
        """Run calls in the client's thread, where they go on if the loop of the caller ends."""
        return self._thread.start(call)

    async def get(self, path: str, timeout: float) -> HttpAnswer:
        """Ask a broker for an answer that it may hold back for some time."""
        return await self._thread.run(lambda: self._get(path, timeout))

    async def close(self) -> None:
        """Close all connections; the next call opens them again."""
        await self._thread.close()

    async def _post(self, path: str, body: bytes, content_type: str, *, is_repeatable: bool) -> HttpAnswer:
        asked = self._server
        try:
            async with asyncio.timeout(TIMEOUT):
                return await self._insist(path, body, content_type, is_repeatable=is_repeatable)
        except TimeoutError:
            if self._server == asked:  # else another call, or this one, has turned away from it already
                self._turn_to_next()
            raise StoreUnavailable(f"no answer from the broker at {asked} within {TIMEOUT:g} s") from None

    async def _insist(self, path: str, body: bytes, content_type: str, *, is_repeatable: bool) -> HttpAnswer:
        """Send the call to each broker in turn until one accepts it. ``is_repeatable``: also if one may have accepted it."""
        turns, session = ROUNDS * len(self._servers), self._session()
        error: StoreUnavailable = Refused("")
        for turn in range(turns):
            if turn and turn % len(self._servers) == 0:
                await loop_sleep(PAUSE * (1.0 + 0.5 * self._chance.jitter()))
            server, url = self._server, self._server + path
            try:
                async with session.post(url, data=body, headers={"Content-Type": content_type}, allow_redirects=False) as found:
                    answer = await _read(found)
                # A proxy answers 503, too, when the connection to its broker breaks after the broker has read the call.
                is_refused = answer.status in _REFUSED and (is_repeatable or HEADER.lower() in answer.headers)
                if not is_refused or turn == turns - 1:
                    return answer
                if self._turn_to(answer.headers.get(LEADER_HEADER.lower())):
                    continue
            except ClientConnectorError as failure:
                error = type(error)(f"no broker answers: {failure}")
            except _BROKEN as failure:
                error = StoreUnavailable(f"no broker answers: {server} closed the connection ({type(failure).__name__})")
                if not is_repeatable:
                    break
            self._turn_to_next()
        raise error

    async def _get(self, path: str, timeout: float) -> HttpAnswer:
        url = self._server + path
        try:
            async with asyncio.timeout(timeout), self._session().get(url, allow_redirects=False) as found:
                return await _read(found)
        except _BROKEN as error:  # a TimeoutError, too
            self._turn_to_next()
            raise StoreUnavailable(f"no broker answers at {url}: {str(error) or type(error).__name__}") from None

    @property
    def _server(self) -> str:
        return self._servers[self._turn]

    def _turn_to(self, leader: str | None) -> bool:
        """Turn to the broker that another one names, if the user has named it, too: no other server gets the token."""
        if leader not in self._servers or leader == self._server:
            return False
        self._turn = self._servers.index(leader)
        return True

    def _turn_to_next(self) -> None:
        self._turn = (self._turn + 1) % len(self._servers)

    def _tls(self) -> ssl.SSLContext | bool:
        """Return how servers are verified: by the system's authorities, or those that ``SSL_CERT_FILE`` names."""
        if not self._servers[0].startswith("https:"):
            return True
        context = ssl.create_default_context()
        if self._certificate is not None:
            try:
                context.load_cert_chain(self._certificate)
            except OSError as error:  # an SSLError, too
                raise ConfigurationError([f"HOLDFAST_CLIENT_CERT: {self._certificate} cannot be used: {error}"]) from error
        return context

    def _session(self) -> ClientSession:
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened[0] is not loop:
            if self._opened is not None and not self._opened[1].closed:
                self._inherited.append(self._opened)  # the parent's, in a forked child: deleting it would touch its sockets
            connector = TCPConnector(limit=CONNECTIONS, keepalive_timeout=KEPT, ssl=self._tls())
            limits = ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT)
            self._opened = loop, ClientSession(connector=connector, timeout=limits, headers=self._headers)
            self._thread.at_end(partial(_end, self._opened[1], FAREWELL if self._servers[0].startswith("https:") else 0.0))
        return self._opened[1]


async def _end(session: ClientSession, farewell: float) -> None:
    await session.close()
    await loop_sleep(farewell)


async def _read(found: ClientResponse) -> HttpAnswer:
    body = await found.read()
    return HttpAnswer(found.status, {name.lower(): value for name, value in found.headers.items()}, body)
