"""The picture of docs/concepts/architecture.md, drawn from the imports between the packages.

    python scripts/house_picture.py    # docs/images/house.svg

An arrow goes from a package to one that it imports. Arrows that follow from others are left out: if `app` imports `rows` and
`rows` imports `databases`, no arrow from `app` to `databases` is drawn. Imports for type checkers do not count.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import grimp

PICTURE = Path(__file__).parents[1] / "docs/images/house.svg"
WIDTH, BOX_WIDTH, BOX_HEIGHT, ROW_HEIGHT, LEFT, TOP = 480, 104, 30, 66, 20, 64
HEAD = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
    '<path d="M0 0 L8 4 L0 8 z" fill="#6b7280"/></marker>'
)
Graph = dict[str, set[str]]


def imports_between(package: str) -> Graph:
    """Return which parts of the package import which others; a part is a module or a package directly below it."""
    graph = grimp.build_graph("holdfast", exclude_type_checking_imports=True)
    parts = {child.rpartition(".")[2] for child in graph.find_children(package)} - {"__main__"}

    def part_of(module: str) -> str:
        return module.removeprefix(f"{package}.").partition(".")[0] if module.startswith(f"{package}.") else ""

    found: Graph = {part: set() for part in parts}
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            one, other = part_of(module), part_of(imported)
            if one in parts and other in parts and one != other:
                found[one].add(other)
    return found


def reduced(graph: Mapping[str, set[str]]) -> Graph:
    """Return the graph without the arrows that follow from others."""
    return {one: {other for other in others if not _reaches_around(graph, one, other)} for one, others in graph.items()}


def _reaches_around(graph: Mapping[str, set[str]], start: str, end: str) -> bool:
    return any(end in reachable(graph, other) for other in graph[start] - {end})


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """Return all parts that the start imports, directly or through others."""
    found, waiting = set[str](), [start]
    while waiting:
        for other in graph[waiting.pop()] - found:
            found.add(other)
            waiting.append(other)
    return found


def rows_of(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the parts in rows from top to bottom: each stands above all that it imports."""
    heights: dict[str, int] = {}

    def height(part: str) -> int:
        if part not in heights:
            heights[part] = 1 + max((height(other) for other in graph[part]), default=-1)
        return heights[part]

    for part in graph:
        height(part)
    return [sorted(part for part in graph if heights[part] == row) for row in range(max(heights.values()), -1, -1)]


def draw() -> str:
    """Return the picture as SVG."""
    house, engine = imports_between("holdfast"), imports_between("holdfast._engine")
    rows = max(len(rows_of(house)), len(rows_of(engine)))
    height = TOP + rows * ROW_HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {height}" font-family="system-ui, sans-serif">',
        f'  <rect width="{2 * WIDTH}" height="{height}" fill="#ffffff"/>',
        f"  <defs>{HEAD}</defs>",
        *_panel("The packages of holdfast", house, 0),
        *_panel("The rooms of _engine", engine, WIDTH),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _panel(title: str, graph: Graph, left: int) -> list[str]:
    places: dict[str, tuple[float, float]] = {}
    for number, row in enumerate(rows_of(graph)):
        gap = (WIDTH - 2 * LEFT) / len(row)
        for column, part in enumerate(row):
            places[part] = left + LEFT + gap * (column + 0.5), TOP + number * ROW_HEIGHT
    lines = [f'  <text x="{left + LEFT}" y="32" font-size="16" font-weight="600" fill="#1f2937">{title}</text>']
    for one, others in sorted(reduced(graph).items()):
        (x, y) = places[one]
        for other in sorted(others):
            (end_x, end_y) = places[other]
            middle = (y + BOX_HEIGHT + end_y) / 2
            path = f"M{x:.0f} {y + BOX_HEIGHT} C{x:.0f} {middle:.0f} {end_x:.0f} {middle:.0f} {end_x:.0f} {end_y - 2}"
            lines.append(
                f'  <path d="{path}" fill="none" stroke="#6b7280" marker-end="url(#head)"><title>{one} → {other}</title></path>'
            )
    for part, (x, y) in places.items():
        fill, ink = ("#dbeafe", "#1e3a8a") if part in graph and part.startswith("_") else ("#fef3c7", "#92400e")
        lines.append(
            f'  <rect x="{x - BOX_WIDTH / 2:.0f}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5" fill="{fill}"/>'
        )
        lines.append(f'  <text x="{x:.0f}" y="{y + 20}" font-size="13" text-anchor="middle" fill="{ink}">{part}</text>')
    return lines


def main() -> int:
    """Draw; return the exit code."""
    PICTURE.write_text(draw())
    return 0


if __name__ == "__main__":
    sys.exit(main())
