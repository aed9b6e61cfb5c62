"""Two bars for each peer: its figure at its best setting, and Holdfast's at its defaults in the same rounds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot

from bench.chart import OUR_COLOR, QUEUE_COLORS

PANELS = {
    "drain 1": "drain, 1 worker, jobs/s",
    "bulk": "enqueue in bulk, jobs/s",
    "p50 at 50": "latency p50 at 50/s, ms: less is better",
}
HEIGHT = 0.38


def draw(pairs: Sequence[tuple[str, str, float, float]], path: Path) -> None:
    """Draw figure, peer, its value and Holdfast's as SVG."""
    matplotlib.rcParams["svg.hashsalt"] = "holdfast"
    figure, panels = pyplot.subplots(1, len(PANELS), figsize=(13, 5))
    for panel, (name, text) in zip(panels, PANELS.items(), strict=True):
        rows = [row for row in pairs if row[0] == name]
        for values, shift, color, label in (
            ([row[2] for row in rows], HEIGHT / 2, QUEUE_COLORS[0], "peer, best setting"),
            ([row[3] for row in rows], -HEIGHT / 2, OUR_COLOR, "Holdfast, defaults, same rounds"),
        ):
            bars = panel.barh([number + shift for number in range(len(rows))], values, HEIGHT, color=color, label=label)
            labels = [f"{value:,.0f}" if value >= 100 else f"{value:.1f}" for value in values]
            panel.bar_label(bars, labels=labels, padding=3, fontsize=7)
        panel.set_yticks(range(len(rows)), [row[1] for row in rows], fontsize=8)
        panel.set_title(text, fontsize=10)
        panel.invert_yaxis()
        panel.spines[["top", "right"]].set_visible(False)
        panel.margins(x=0.2)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="lower center", ncols=2, fontsize=8)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
