"""A workflow as an SVG document: layers from left to right, in colours that fit light and dark pages."""

from datetime import datetime
from html import escape

from holdfast._core.picture.layers import Box, Layers, layers_of, summary_of
from holdfast._core.picture.mermaid import CLASS_OF
from holdfast._core.workflow_view import WorkflowView

CHARACTER = 7.3
"""The width of a character in pixels: of a monospaced font of 12 pixels, rounded up, so that no text leaves its box."""
WIDEST = 44
"""Characters of a line in a box; a longer one is cut, and its tooltip has all of it."""
MARGIN, PADDING, STRIPE = 24.0, 12.0, 5.0
BOX, ROW, COLUMN = 58.0, 76.0, 64.0
HEADER = 44.0

_COLOURS = {
    "svg": ("background", "#ffffff", "#0d1117"),
    "text": ("fill", "#1f2328", "#e6edf3"),
    ".quiet": ("fill", "#59636e", "#9198a1"),
    ".card": ("fill", "#f6f8fa", "#161b22"),
    ".card, .edge": ("stroke", "#8c959f", "#6e7681"),
    ".arrow": ("fill", "#8c959f", "#6e7681"),
    ".done": ("fill", "#1a7f37", "#3fb950"),
    ".active": ("fill", "#0969da", "#58a6ff"),
    ".waiting": ("fill", "#6e7781", "#8b949e"),
    ".held": ("fill", "#9a6700", "#d29922"),
    ".failed": ("fill", "#cf222e", "#f85149"),
}
"""By what they are for: the property, and its value on light and on dark pages. No variables: not all that draw SVG know them."""
_FONT = "font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 12px"
_LIGHT = "\n".join(f"{what} {{ {name}: {light} }}" for what, (name, light, _) in _COLOURS.items())
_DARK = "\n".join(f"  {what} {{ {name}: {dark} }}" for what, (name, _, dark) in _COLOURS.items())
_STYLE = f"""text {{ {_FONT} }}
.title {{ font-size: 14px; font-weight: 600 }}
.name {{ font-weight: 600 }}
.edge {{ fill: none; stroke-width: 1.5 }}
{_LIGHT}
@media (prefers-color-scheme: dark) {{
{_DARK}
}}"""
_MARKER = 'id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"'
_ARROW = f'<defs><marker {_MARKER}><path class="arrow" d="M0 0 8 4 0 8z"/></marker></defs>'


def svg_of(view: WorkflowView, now: datetime) -> str:
    """Return an SVG document; ``now``: until when running nodes have run."""
    layers, title = layers_of(view, now), summary_of(view)
    lefts, widths = _columns(layers)
    right = lefts[-1] + widths[-1] if lefts else MARGIN
    width = max(right, MARGIN + len(title) * CHARACTER * 14 / 12) + MARGIN
    rows = max((len(layer) for layer in layers.boxes), default=0)
    height = HEADER + max(rows, 1) * ROW + MARGIN
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        _ARROW,
        f'<text class="title" x="{MARGIN:.0f}" y="30">{escape(title)}</text>',
    ]
    tops = [_tops(len(layer), rows) for layer in layers.boxes]
    for (a, b), (c, d) in layers.edges:
        parts.append(_edge(lefts[a] + widths[a], tops[a][b] + BOX / 2, lefts[c], tops[c][d] + BOX / 2))
    for depth, layer in enumerate(layers.boxes):
        parts += [_box(box, lefts[depth], tops[depth][position], widths[depth]) for position, box in enumerate(layer)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _columns(layers: Layers) -> tuple[list[float], list[float]]:
    """Return the left edge and the width of each layer: its widest text decides."""
    lefts, widths, left = list[float](), list[float](), MARGIN
    for layer in layers.boxes:
        longest = max(len(_cut(line)) for box in layer for line in _lines(box))
        lefts.append(left)
        widths.append(STRIPE + 2 * PADDING + longest * CHARACTER)
        left += widths[-1] + COLUMN
    return lefts, widths


def _tops(number: int, rows: int) -> list[float]:
    """Return the upper edges of a layer's boxes, in the middle of the picture."""
    first = HEADER + (rows - number) * ROW / 2
    return [first + position * ROW for position in range(number)]


def _box(box: Box, left: float, top: float, width: float) -> str:
    kind, text = CLASS_OF[box.state], left + STRIPE + PADDING
    name, state, details = (escape(_cut(line)) for line in _lines(box))
    return (
        f"<g><title>{escape(box.name)}: {escape(box.state.value)}{escape(f', {box.details}' if box.details else '')}</title>"
        f'<rect class="card" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{BOX:.0f}" rx="6"/>'
        f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{STRIPE:.0f}" height="{BOX:.0f}" rx="2"/>'
        f'<text class="name" x="{text:.1f}" y="{top + 18:.1f}">{name}</text>'
        f'<text class="{kind}" x="{text:.1f}" y="{top + 34:.1f}">{state}</text>'
        f'<text class="quiet" x="{text:.1f}" y="{top + 50:.1f}">{details}</text></g>'
    )


def _lines(box: Box) -> tuple[str, str, str]:
    return box.name, box.state.value, box.details


def _cut(line: str) -> str:
    return line if len(line) <= WIDEST else f"{line[: WIDEST - 1]}…"


def _edge(x1: float, y1: float, x2: float, y2: float) -> str:
    middle = (x1 + x2) / 2
    path = f"M{x1:.1f} {y1:.1f} C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2 - 1:.1f} {y2:.1f}"
    return f'<path class="edge" d="{path}" marker-end="url(#arrow)"/>'
