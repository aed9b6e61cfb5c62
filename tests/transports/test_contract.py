"""Every transport keeps the contract."""

from pathlib import Path
from typing import Any

import asyncpg
import pytest

from holdfast._core.identity import ProcessIdentity
from holdfast._core.transport_url import TransportUrl
from holdfast._ports.transport import Transport
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.transports.inprocess import InProcessTransport, Listener
from holdfast.transports.local import LocalTransport
from holdfast.transports.nats.transport import NatsTransport
from holdfast.transports.polling import PollingTransport
from holdfast.transports.postgres import PostgresTransport
from tests.transports.contract import DeliveryContract, TransportContract


class TestPolling(TransportContract):
    carries = False

    def make_transport(self) -> Transport:
        return PollingTransport()


class TestInProcess(TransportContract):
    def setup_method(self) -> None:
        super().setup_method()
        self.listeners: list[Listener] = []

    def make_transport(self) -> Transport:
        return InProcessTransport(self.listeners)


class TestLocal(TransportContract):
    @pytest.fixture(autouse=True)
    def in_folder(self, tmp_path: Path) -> None:
        self.database = tmp_path / "jobs.db"

    def make_transport(self) -> Transport:
        return LocalTransport(self.database, ProcessIdentity("host", 1, 1))


class TestPostgres(TransportContract):
    @pytest.fixture(autouse=True)
    def in_database(self, postgres_dsn: str) -> None:
        self.dsn = postgres_dsn

    def make_transport(self) -> Transport:
        async def connect() -> Any:
            return await asyncpg.connect(self.dsn)

        return PostgresTransport(connect, "holdfast", name="the test", clock=SystemClock(), chance=SystemRandomness())


@pytest.mark.parametrize("ack", ["claim", "finish"])
class TestNats(DeliveryContract):
    @pytest.fixture(autouse=True)
    def on_server(self, nats_url: str, ack: str) -> None:
        self.address = TransportUrl.of(f"{nats_url}?ack_wait={self.ack_wait}s&ack={ack}")
        self.stream = f"test-{SystemRandomness().uuid4().hex[:12]}"

    def make_transport(self) -> Transport:
        return NatsTransport(self.address, self.stream, clock=SystemClock(), chance=SystemRandomness())
