"""Throw-away servers to try things with, without set-up: ``python -m holdfast.testing.servers postgres``.

Others are ``nats`` and ``mongo``. Each prints its address and runs until Ctrl-C; what was in it is gone then.
"""

import argparse
import os
import signal
import socket
import sys
from collections.abc import Sequence

from holdfast.testing.servers.mongo_set import MongoSet
from holdfast.testing.servers.nats import NatsServer
from holdfast.testing.servers.postgres import PostgresServer
from holdfast.testing.servers.process import ServerMissing

SERVERS: dict[str, type[PostgresServer | NatsServer | MongoSet]] = {
    "postgres": PostgresServer,
    "nats": NatsServer,
    "mongo": MongoSet,
}
PORTS = {"postgres": 54320, "nats": 42220, "mongo": 27117}


def main(words: Sequence[str] | None = None) -> None:
    """Run one server until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.servers", description=__doc__)
    parser.add_argument("server", choices=sorted(PORTS))
    parser.add_argument("--port", type=int, help=f"where it listens, on this machine only; {PORTS} if left out")
    asked = parser.parse_args(words)
    port = asked.port or PORTS[asked.server]
    if _is_taken(port):
        sys.exit(f"error: port {port} is taken: end what listens there, or choose another with --port")
    try:
        _run(SERVERS[asked.server](), port)
    except ServerMissing as missing:
        sys.exit(f"error: {missing}")


def _run(server: PostgresServer | NatsServer | MongoSet, port: int) -> None:
    process = server.members[0] if isinstance(server, MongoSet) else server
    process.port = port
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with server:
            print(server.dsn() if isinstance(server, PostgresServer) else server.url, flush=True)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            sys.exit(f"error: it has ended:\n{process.tail()}")
    except KeyboardInterrupt:
        pass


def _is_taken(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    main()
