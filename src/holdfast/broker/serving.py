"""The broker's own server: where it listens, with which certificate, and how it stops."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import AF_INET, AF_INET6, IPPROTO_TCP, TCP_NODELAY, create_server, socket
from typing import Final

import uvicorn
from msgspec import Struct

from holdfast._core.broker_url import PORT, BrokerUrl, problems_of_broker_url
from holdfast._core.listen_address import host_of, is_loopback, port_of
from holdfast.broker.broker import Broker
from holdfast.errors import ConfigurationError

KEPT: Final = 75
"""Seconds for which an unused connection is kept: longer than a client keeps it."""
MOST_CONNECTIONS: Final = 10_000
BACKLOG: Final = 2048
_WILDCARDS: Final = ("0.0.0.0", "::")
DRAIN: Final = 10
"""Seconds for the requests under way when the broker stops."""


class Listening(Struct, frozen=True, kw_only=True):
    """Where a broker listens. ``client_ca``: it accepts only clients with a certificate of this authority. ``advertised``: where other
    machines reach it, if it is not the same."""

    host: str = "127.0.0.1"
    port: int = PORT
    certificate: str | None = None
    key: str | None = None
    client_ca: str | None = None
    advertised: str | None = None

    @classmethod
    def of(
        cls,
        address: str,
        certificate: str | None,
        key: str | None,
        client_ca: str | None,
        *,
        is_open: bool,
        advertised: str | None = None,
    ) -> "Listening":
        """Check what the user wrote. ``is_open``: there is no authenticator, so nothing beyond this machine may connect.

        Raises ``ConfigurationError`` with every problem.
        """
        host, problems = host_of(address), list[str]()
        port = port_of(address) if ":" in address.rpartition("]")[2] else PORT
        if not host or port is None:
            problems.append(f"--listen: {address!r} is not host:port: write 127.0.0.1:7700")
        elif is_open and not is_loopback(host):
            problems.append(
                f"--listen: {host} is reached from other machines, whose users could run and read jobs: "
                "pass --tokens FILE, or listen on 127.0.0.1"
            )
        if (certificate is None) != (key is None):
            problems.append("--tls-cert and --tls-key: pass both")
        if client_ca is not None and certificate is None:
            problems.append("--client-ca: pass --tls-cert and --tls-key, too")
        if advertised is not None:
            problems += [f"--advertise: {each}" for each in _problems_of_advertised(advertised)]
        if problems:
            raise ConfigurationError(problems)
        reached = None if advertised is None else BrokerUrl.of(advertised).servers[0]
        return cls(host=host, port=port or 0, certificate=certificate, key=key, client_ca=client_ca, advertised=reached)

    def require_address(self) -> None:
        """Raise ``ConfigurationError`` if it does not show where clients reach this broker."""
        if self.advertised is None and self.host in _WILDCARDS:
            scheme = "https" if self.certificate else "http"
            problem = f"--listen: clients cannot find this broker by {self.host}: pass --advertise {scheme}://HOST:{self.port}"
            raise ConfigurationError([problem])

    def url_of(self, listener: "socket") -> str:
        """Return the URL of the open socket."""
        host, port = listener.getsockname()[:2]
        return f"{'https' if self.certificate else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"

    def socket(self) -> socket:
        """Open the socket. Raises ``ConfigurationError`` if the address cannot be used."""
        family = AF_INET6 if ":" in self.host else AF_INET
        try:
            listener = create_server((self.host, self.port), family=family, backlog=BACKLOG)
        except OSError as error:
            raise ConfigurationError([f"--listen: {self.host}:{self.port} cannot be used: {error.strerror}"]) from None
        # Connections inherit it. Without it each answer on a kept connection waited 40 ms for the client's acknowledgement.
        listener.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        return listener


class Server(uvicorn.Server):
    """A server that answers all requests that wait when it is asked to stop, and reports its URL once it listens."""

    def __init__(self, broker: Broker, listening: Listening, ready: Callable[[str], None]) -> None:
        super().__init__(_config(broker, listening))
        self._broker, self._listening, self._ready = broker, listening, ready

    async def run_until_stopped(self) -> None:
        """Serve until ``stop``. Raises ``ConfigurationError`` if the address is taken, or a file of TLS cannot be used."""
        with self._listening.socket() as socket:
            await self._broker.stand(self._listening.advertised or self._listening.url_of(socket))
            try:
                await self.serve(sockets=[socket])
            except (OSError, ssl.SSLError) as error:
                raise ConfigurationError([f"--tls-cert, --tls-key, --client-ca: {error}"]) from error

    async def startup(self, sockets: "list[socket] | None" = None) -> None:
        await super().startup(sockets)
        if sockets and not self.should_exit:
            self._ready(self._listening.url_of(sockets[0]))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the command, which ends with its own exit code."""
        yield

    def stop(self) -> None:
        """Accept no more requests, and end once those under way are answered; called again, end at once."""
        self._broker.stop()
        self.force_exit = self.should_exit
        self.should_exit = True


def _config(broker: Broker, listening: Listening) -> uvicorn.Config:
    return uvicorn.Config(
        broker.application(),
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=KEPT,
        timeout_graceful_shutdown=DRAIN,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
        ssl_ca_certs=listening.client_ca,
        ssl_cert_reqs=ssl.CERT_REQUIRED if listening.client_ca else ssl.CERT_NONE,
    )


def _problems_of_advertised(url: str) -> list[str]:
    problems = problems_of_broker_url(url)
    if not problems and len(BrokerUrl.of(url).servers) > 1:
        problems.append("name this broker only")
    return problems
