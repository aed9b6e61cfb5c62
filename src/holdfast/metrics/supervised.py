"""The metrics of ``holdfast worker --metrics``: all processes of one supervisor, at one address."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from holdfast._core.tallies import Series
from holdfast._engine.client.client import Client
from holdfast._engine.events import Events
from holdfast.metrics.exposition import Exposition, require_client
from holdfast.metrics.rows_gauges import Look
from holdfast.metrics.server import MetricsAddress, MetricsServer
from holdfast.metrics.store_gauges import StoreGauges
from holdfast.metrics.worker_gauges import worker_gauges

if TYPE_CHECKING:
    from holdfast._engine.supervisor.supervisor import Supervisor
    from holdfast._ports.clock import Clock
    from holdfast._ports.host import Host


class SupervisedMetrics:
    """Serves what the supervisor's workers counted, their gauges, and with ``reads_store`` those of the store."""

    def __init__(
        self,
        address: MetricsAddress,
        events: Events,
        supervisor: "Callable[[], Supervisor]",
        host: "Host",
        clock: "Clock",
        *,
        reads_store: bool,
    ) -> None:
        require_client()
        self._supervisor, self._memory, self._clock = supervisor, host.memory, clock
        self._store = StoreGauges(self._client, clock, self._tables) if reads_store else None
        self._of_store: dict[Series, float] = {}
        self._exposition = Exposition(events.tallied(), self._gauges)
        self.server = MetricsServer(address, self.render)

    async def render(self, accept: str) -> tuple[str, bytes]:
        """Return the content type and all metrics in the format that the scraper accepts."""
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import choose_encoder

        self._of_store = {} if self._store is None else await self._store.read()
        registry = CollectorRegistry()
        registry.register(self._exposition)
        encode, kind = choose_encoder(accept)
        return kind, encode(registry)

    def _gauges(self) -> dict[Series, float]:
        return worker_gauges(self._supervisor().workers, self._memory) | self._of_store

    def _tables(self) -> Mapping[str, Look]:
        scheduler = self._supervisor().rows_scheduler
        return {} if scheduler is None else scheduler.looks()

    def _client(self) -> Client | None:
        environment = self._supervisor().environment
        return None if environment is None else Client(environment, give_up=0)
