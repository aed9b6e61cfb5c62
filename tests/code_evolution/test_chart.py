"""The chart renders for every history, and its figures are right."""

import json
import struct
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from analyzer import chart
from analyzer.analysis import Request
from analyzer.chart import draw, spread
from analyzer.report import write_json
from analyzer.series import Point, bands_of, points_of, read_result, straightened
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import MissingExtra
from tests.code_evolution.support import FakeJob, analyze

pytestmark = pytest.mark.prove

DAY = 86_400


def row(date: int, *, side: bool = False, **languages: int) -> dict[str, Any]:
    return {"date": date, "mainline": not side, "languages": languages}


def result_of(*rows: dict[str, Any], name: str = "tool", shallow: bool = False) -> dict[str, object]:
    lines = sum(rows[-1]["languages"].values())
    return {"name": name, "commits": len(rows), "sampled": len(rows), "lines": lines, "shallow": shallow, "history": list(rows)}


def drawn(result: dict[str, object], folder: Path) -> str:
    """Draw and check both files; return the SVG's words."""
    draw(result, folder / "a.svg", folder / "a.png")
    png = (folder / "a.png").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", png[16:24]) == (1400, 800)
    assert len(png) > 8000
    assert sorted(path.name for path in folder.iterdir()) == ["a.png", "a.svg"]
    return " ".join(" ".join(ElementTree.parse(folder / "a.svg").getroot().itertext()).split())


def test_the_whole_way_through_a_child_process(sample: Path, tmp_path: Path) -> None:
    result = analyze(FakeJob(), Request(str(sample), str(tmp_path)))
    svg = ElementTree.parse(tmp_path / "evolution.svg").getroot()
    words = " ".join(svg.itertext())
    assert "sample" in words
    assert "120 commits" in words
    assert f"{result['lines']:,} lines" in words
    assert "Python" in words
    assert (tmp_path / "evolution.png").stat().st_size > 20_000


@pytest.mark.parametrize(
    "rows",
    [
        [row(DAY, C=5)],
        [row(DAY)],
        [row(0, C=1), row(0, C=2)],
        [row(DAY, C=1), row(9 * DAY, C=2)],
        [row(5), row(6)],
        [row(9 * DAY, C=1), row(DAY, C=2), row(4_102_444_800, C=3), row(10 * DAY, D=4)],
        [{**row(number * DAY), "languages": {f"L{n}": n * number + 1 for n in range(30)}} for number in range(40)],
        [row(number * 60, C=10**9 + number) for number in range(2000)],
    ],
)
def test_odd_histories(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    words = drawn(result_of(*rows), tmp_path)
    assert f"{len(rows):,} commit{'' if len(rows) == 1 else 's'}" in words


def test_a_name_is_not_a_formula_and_a_shallow_clone_is_reported(tmp_path: Path) -> None:
    words = drawn(result_of(row(DAY, C=1234567), row(2 * DAY, C=1234568), name="$x_1$ <&>", shallow=True), tmp_path)
    assert "$x_1$ <&>" in words
    assert "shallow clone" in words
    assert "1,234,568" in words


def test_the_same_result_draws_the_same_bytes(tmp_path: Path) -> None:
    result = result_of(row(DAY, C=1), row(2 * DAY, C=5))
    for name in ("one", "two"):
        draw(result, tmp_path / f"{name}.svg", tmp_path / f"{name}.png")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_the_child_names_the_missing_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evolution.json").write_text(json.dumps(result_of(row(1, C=1))))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    output: list[str] = []
    arguments = [str(tmp_path / "evolution.json"), "--svg", str(tmp_path / "a.svg"), "--png", str(tmp_path / "a.png")]
    assert chart.main(arguments, complain=output.append) == 1
    assert output == ["matplotlib is not installed: pip install matplotlib (the extra holdfast[demo])\n"]
    with pytest.raises(MissingExtra):
        draw({}, tmp_path / "a.svg", tmp_path / "a.png")


def test_only_the_main_line_is_drawn() -> None:
    points = points_of([row(1, C=1), row(2, side=True, C=100), row(3, C=2)])
    assert points == [Point(1, {"C": 1}), Point(3, {"C": 2})]


@pytest.mark.parametrize("indent", [None, 1])
def test_a_long_history_is_read_as_what_the_chart_shows(tmp_path: Path, indent: int | None) -> None:
    rows = [row(number, side=number % 3 == 1, C=number) | {"binary": 0} for number in range(9000)]
    result = result_of(*rows, name='{"binary":')
    whole = tmp_path / "whole.json"
    write_json({name: value for name, value in result.items() if name != "history"}, lambda: rows, whole)
    read = read_result(whole)
    assert isinstance(read["history"], list)
    assert len(read["history"]) == 1400
    assert points_of(read["history"]) == points_of(rows)
    (tmp_path / "other.json").write_text(json.dumps(result, indent=indent))  # formatted by another program
    assert read_result(tmp_path / "other.json") == result
    assert {name: read[name] for name in result if name != "history"} == {n: v for n, v in result.items() if n != "history"}


def test_bands_hold_every_line() -> None:
    points = [Point(number, {f"L{n:02}": n * (number + 1) for n in range(12)} | {"Other": 7}) for number in range(5)]
    bands = bands_of(points)
    assert [band.language for band in bands] == [*(f"L{n:02}" for n in range(11, 3, -1)), "Other"]
    for number, point in enumerate(points):
        assert sum(band.lines[number] for band in bands) == sum(point.languages.values())


@given(st.lists(st.integers(0, 50)))
def test_dates_never_go_back(dates: list[int]) -> None:
    straight = straightened(dates)
    assert straight == sorted(straight)
    assert len(straight) == len(dates)
    assert dates != sorted(dates) or straight == dates


@given(st.lists(st.floats(0, 1), max_size=9).map(sorted))
def test_labels_never_overlap(middles: list[float]) -> None:
    heights = spread(middles, step=0.05)
    assert len(heights) == len(middles)
    assert all(after - before > 0.0499 for before, after in pairwise(heights))
    assert all(0.02 < height < 0.98 for height in heights)
