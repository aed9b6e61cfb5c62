"""``holdfast.integrations.prometheus``: the metrics of an App in the registry of a web process, or beside an embedded worker."""

from typing import TYPE_CHECKING

from holdfast._core.tallies import Series
from holdfast.app import App, environment_of
from holdfast.metrics.exposition import Exposition, require_client

if TYPE_CHECKING:
    from holdfast._engine.client.client import Client


def collector(app: App, *, store: bool = False) -> Exposition:
    """Return a collector for a registry of prometheus_client. What the App does is counted from now on.

    ``store``: it also shows what the store holds, read at most every 5 s. Have one process show it, and not each of them.
    Make it before ``app.worker()`` is entered, so that the rescues of an embedded worker are counted, too.

    >>> from prometheus_client import REGISTRY
    >>> REGISTRY.register(collector(App("memory://")))
    """
    require_client()
    if not store:
        return Exposition(app.events.tallied())
    from holdfast.metrics.rows_gauges import Look
    from holdfast.metrics.store_gauges import StoreGauges
    from holdfast.sync import PORTAL

    def connect() -> "Client":
        from holdfast._engine.client.client import Client

        return Client(environment_of(app), give_up=0)

    def tables() -> dict[str, Look]:
        return {name: each.astates for name, each in app.watches.items()}

    gauges = StoreGauges(connect, environment_of(app).clock, tables)

    def read() -> dict[Series, float]:
        return PORTAL.run(gauges.read())

    return Exposition(app.events.tallied(), read)
