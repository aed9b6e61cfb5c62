"""The broker's own server: where it listens, with which certificate, and how it stops."""

import ssl
from collections.abc import Callable
from ipaddress import ip_address
from types import FrameType
from typing import Final

import uvicorn
from msgspec import Struct

from holdfast._core.broker_url import PORT
from holdfast.broker.application import Broker
from holdfast.errors import ConfigurationError

KEPT: Final = 75
"""Seconds for which an unused connection is kept: longer than a client keeps it."""
MOST_CONNECTIONS: Final = 10_000
DRAIN: Final = 10
"""Seconds for the requests under way when the broker stops."""


class Listening(Struct, frozen=True, kw_only=True):
    """Where a broker listens. ``client_ca``: it accepts only clients with a certificate of this authority."""

    host: str = "127.0.0.1"
    port: int = PORT
    certificate: str | None = None
    key: str | None = None
    client_ca: str | None = None

    @classmethod
    def of(cls, address: str, certificate: str | None, key: str | None, client_ca: str | None, *, is_open: bool) -> "Listening":
        """Check what the user wrote. ``is_open``: there is no authenticator, so nothing beyond this machine may connect.

        Raises ``ConfigurationError`` with every problem.
        """
        host, problems = _host_of(address), list[str]()
        port = address.rpartition(":")[2] if ":" in address.rpartition("]")[2] else str(PORT)
        if not host or not port.isdecimal() or int(port) > 65535:
            problems.append(f"--listen: {address!r} is not host:port: write 127.0.0.1:7700")
        elif is_open and not _is_loopback(host):
            problems.append(
                f"--listen: {host} is reached from other machines, and everybody there could run and read jobs: "
                "pass --tokens FILE, or listen on 127.0.0.1"
            )
        if (certificate is None) != (key is None):
            problems.append("--tls-cert and --tls-key: pass both")
        if client_ca is not None and certificate is None:
            problems.append("--client-ca: pass --tls-cert and --tls-key, too")
        if problems:
            raise ConfigurationError(problems)
        return cls(host=host, port=int(port), certificate=certificate, key=key, client_ca=client_ca)


class Server(uvicorn.Server):
    """A server that ends waiting requests when it is asked to stop, and reports the URL once it listens."""

    def __init__(self, broker: Broker, listening: Listening, ready: Callable[[str], None]) -> None:
        super().__init__(_config(broker, listening))
        self._broker, self._listening, self._ready = broker, listening, ready

    async def startup(self, sockets: object = None) -> None:
        await super().startup()
        if self.started and not self.should_exit:
            place = self.servers[0].sockets[0].getsockname()
            host = f"[{place[0]}]" if ":" in place[0] else place[0]
            self._ready(f"{'https' if self._listening.certificate else 'http'}://{host}:{place[1]}")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.stop()
        super().handle_exit(sig, frame)

    def stop(self) -> None:
        """Stop to accept requests, and end once those under way are answered."""
        self._broker.stop()
        self.should_exit = True


def _config(broker: Broker, listening: Listening) -> uvicorn.Config:
    return uvicorn.Config(
        broker.application(),
        host=listening.host,
        port=listening.port,
        ws="none",
        lifespan="on",
        log_config=None,
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


def _host_of(address: str) -> str:
    host = address.rpartition(":")[0] if ":" in address.rpartition("]")[2] else address
    return host.removeprefix("[").removesuffix("]")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
