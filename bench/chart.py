"""One bar for each peer and figure, with the range of its rounds."""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot

from bench.races import OURS, Race
from bench.rounds import Book

PANELS = {
    "one by one": "enqueue one by one",
    "together": "enqueue, 100 callers",
    "bulk": "enqueue many",
    "drain": "run, 1 worker process",
    "p50": "latency p50",
    "p99": "latency p99",
}
OUR_COLOR, QUEUE_COLORS, PEER_COLORS = "#2a6f97", ("#e07a5f", "#e9b872", "#90a959"), ("#8d99ae", "#bfc6d1")


def draw(race: Race, book: Book, path: Path, about: dict[str, str]) -> Path:
    """Draw the chart as SVG."""
    others = [queue.name for queue in race.queues if queue is not race.ours]
    colors = {OURS: OUR_COLOR, **dict(zip(others, QUEUE_COLORS, strict=False))}
    colors |= dict(zip((peer.name for peer in race.peers), PEER_COLORS, strict=False))
    matplotlib.rcParams["svg.hashsalt"] = "holdfast"
    figure, panels = pyplot.subplots(2, 3, figsize=(11, 6))
    for panel, (name, title) in zip(panels.flat, PANELS.items(), strict=True):
        peers = [peer for peer in colors if (name, peer) in book.entries]
        values = [book.median(name, peer) or 0.0 for peer in peers]
        ranges = [[value for value in book.entries[name, peer] if not math.isnan(value)] or [0.0] for peer in peers]
        errors = [
            [value - min(found) for value, found in zip(values, ranges, strict=True)],
            [max(found) - value for value, found in zip(values, ranges, strict=True)],
        ]
        bars = panel.bar(peers, values, color=[colors[peer] for peer in peers], yerr=errors, capsize=3, ecolor="#444444")
        panel.bar_label(
            bars, labels=[f"{value:,.0f}" if value >= 100 else f"{value:.1f}" for value in values], padding=3, fontsize=8
        )
        is_latency = name.startswith("p")
        panel.set_title(f"{title}, {'ms: less is better' if is_latency else 'jobs/s'}", fontsize=10)
        panel.tick_params(axis="x", labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
        panel.margins(y=0.2)
    figure.suptitle(f"{race.title}, every job on disk: median and range of {about['rounds']} rounds", fontsize=12)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return path
