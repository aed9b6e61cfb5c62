"""The dashboard's own server, on this machine only."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import AF_INET, AF_INET6, IPPROTO_TCP, TCP_NODELAY, create_server, socket
from typing import Final

import uvicorn

from holdfast._core.listen_address import is_loopback
from holdfast._system.clock import SystemRandomness
from holdfast._system.ending_signals import on_ending_signals
from holdfast.app import App
from holdfast.dashboard.commands import Complete, set_commands
from holdfast.dashboard.dashboard import Dashboard
from holdfast.errors import ConfigurationError
from holdfast.http.authentication import OneTimeLink, by_token
from holdfast.http.sessions import Sessions
from holdfast.http.tokens import Tokens

DRAIN: Final = 2
"""Seconds for the pages under way when the dashboard stops."""


def dashboard_of(app: App, host: str, token_file: str | None, *, actions: bool) -> tuple[Dashboard, str]:
    """Return the dashboard, and the path of the link to it.

    Without ``token_file`` it answers this machine, and with ``actions`` only the one browser that opens the link. Raises
    ``ConfigurationError`` for a host that other machines reach.
    """
    if token_file is not None:
        return Dashboard(app, authenticate=by_token(Tokens.read(token_file, "--token-file").identity), actions=actions), ""
    require_loopback(host)
    if not actions:
        return Dashboard(app), ""
    chance = SystemRandomness()
    token = f"{chance.uuid4().hex}{chance.uuid4().hex}"
    link = OneTimeLink(token, Sessions(app.settings.url, chance))
    return Dashboard(app, authenticate=link, actions=True), f"enter?token={token}"


def require_loopback(host: str) -> None:
    """Raise ``ConfigurationError`` for a host that other machines reach."""
    if not is_loopback(host):
        problem = f"--host: {host} is reached from other machines, and the dashboard knows no users"
        remedy = "pass --token-file FILE, or use 127.0.0.1 and forward the port: ssh -L 8400:127.0.0.1:8400 HOST"
        raise ConfigurationError([f"{problem}: {remedy}"])


async def serve(
    app: App,
    host: str,
    port: int,
    ready: Callable[[str], None],
    *,
    token_file: str | None = None,
    actions: bool = False,
    complete: Complete = str,
) -> None:
    """Serve until SIGTERM or Ctrl-C. ``ready``: called with the link once it listens. ``complete``: returns a remedy whose
    commands name the App or the store. Raises ``ConfigurationError`` for a taken port."""
    set_commands(app, complete)
    dashboard, path = dashboard_of(app, host, token_file, actions=actions)
    config = uvicorn.Config(
        dashboard,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=DRAIN,
    )
    with _listener(host, port) as listener:
        server = _Server(config, lambda: ready(_link(listener) + path), dashboard.stop)
        on_ending_signals(asyncio.get_running_loop(), server.stop)
        try:
            await server.serve(sockets=[listener])
        finally:
            await app.aclose()


class _Server(uvicorn.Server):
    """A server that leaves signals to the command, and reports when it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], stopping: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready, self._stopping = ready, stopping

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the command."""
        yield

    def stop(self) -> None:
        """End once the pages under way are answered; called again, end at once."""
        self._stopping()
        self.force_exit = self.should_exit
        self.should_exit = True


def _listener(host: str, port: int) -> socket:
    try:
        listener = create_server((host, port), family=AF_INET6 if ":" in host else AF_INET)
    except OSError as error:
        raise ConfigurationError(
            [f"--port: {host}:{port} cannot be used ({error.strerror}): pass another one, or --port 0 for any free one"]
        ) from None
    listener.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)  # else the end of an answer waits 40 ms for the client's acknowledgement
    return listener


def _link(listener: socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"
