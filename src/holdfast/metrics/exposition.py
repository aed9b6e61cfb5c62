"""Tallies and gauges as metric families of prometheus_client, which writes them in the format that a scraper asks for."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from holdfast._core.metrics import METRICS, Kind
from holdfast._core.tallies import Distribution, Series, Tallies, Totals
from holdfast.errors import MissingExtra

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

Gauges = Mapping[Series, float]
PREFIX = "holdfast_"


class Exposition:
    """A collector of prometheus_client: everything that was counted, and what the gauges show now.

    Counts begin at zero in each process, as scrapers expect.
    """

    def __init__(self, tallies: Tallies, gauges: Callable[[], Gauges] = dict) -> None:
        self._counted, self._gauges, self._totals = tallies.reader(), gauges, Totals()

    def collect(self) -> Iterator["Metric"]:
        """Yield one family for each metric that has a value."""
        self._totals.add(self._counted.take())
        by_name: defaultdict[str, dict[Series, Any]] = defaultdict(dict)
        for series, value in (*self._totals.counts.items(), *self._totals.spreads.items()):
            by_name[series[0]][series[1:]] = value
        for (name, *labels), value in self._gauges().items():
            shown = tuple(self._totals.values.of(label, text) for label, text in zip(METRICS[name].labels, labels, strict=True))
            by_name[name][shown] = by_name[name].get(shown, 0.0) + value
        for name in METRICS:
            if name in by_name:
                yield _family(name, by_name[name].items())

    def describe(self) -> Iterable["Metric"]:
        """Return nothing: a registry then does not collect when the collector is registered."""
        return ()


def _family(name: str, series: Iterable[tuple[Series, Any]]) -> "Metric":
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    metric = METRICS[name]
    if metric.kind is Kind.COUNTER or metric.kind is Kind.GAUGE:
        kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
        family = kind(PREFIX + name, metric.help, labels=metric.labels)
        for labels, value in series:
            family.add_metric(labels, value)
        return family
    spreads = HistogramMetricFamily(PREFIX + name, metric.help, labels=metric.labels)
    for labels, spread in series:
        spreads.add_metric(labels, buckets=_buckets(spread, metric.bounds), sum_value=spread.total)
    return spreads


def _buckets(spread: Distribution, bounds: tuple[float, ...]) -> list[tuple[str, float]]:
    names = [*(f"{bound:g}" if bound < 1e6 else str(int(bound)) for bound in bounds), "+Inf"]
    return list(zip(names, map(float, accumulate(spread.counts)), strict=True))


def require_client() -> None:
    """Raise ``MissingExtra`` if prometheus_client is not installed."""
    from importlib.util import find_spec

    if find_spec("prometheus_client") is None:
        raise MissingExtra("prometheus_client", "prometheus")
