"""The curve of an attempt's progress: bounded, its first and last report kept, and read back as it was written."""

from itertools import pairwise

import pytest

from holdfast._core.points import MOST_BYTES, MOST_POINTS, Point, Track, points_text, track_of


def track(*reports: tuple[float, float | None, str | None], message: str | None = None) -> Track:
    """Return the track of these reports."""
    found = Track()
    for seconds, fraction, stage in reports:
        found = found.after(seconds, stage=stage, fraction=fraction, message=message)
    return found


@pytest.mark.parametrize("count", [33, 1000, 20_000])
def test_a_long_curve_keeps_its_ends_and_its_shape_in_32_points(count: int) -> None:
    points = track(*((at * 0.5, at / count, None) for at in range(count + 1))).points
    assert len(points) <= MOST_POINTS
    assert (points[0].seconds, points[-1]) == (0.0, Point(count * 0.5, 1.0))
    gaps = [after.seconds - before.seconds for before, after in pairwise(points)]
    assert max(gaps[:-1]) <= 5 * count * 0.5 / MOST_POINTS  # no part of the time is left out


def test_the_beginnings_of_stages_survive_the_halving() -> None:
    reports = [(float(at), at / 1000, ("clone", "read", "count", "chart")[at // 251]) for at in range(1001)]
    begins = {}
    for point in track(*reports).points:
        begins.setdefault(point.stage, point.seconds)
    assert begins == {"clone": 0, "read": 251, "count": 502, "chart": 753}


def test_many_points_with_long_stages_fit_in_two_kilobytes() -> None:
    """Each report begins another stage, whose name needs the most bytes."""
    made = track(*((at * 1234.567, at / 999, f"{at} " + "\x1b" * 500) for at in range(200)), message="🎁" * 500)
    text = points_text(made)
    assert text is not None
    assert len(text.encode()) <= MOST_BYTES
    assert track_of(text).points[-1] == made.points[-1]
    usual = points_text(track(*((at * 100.0, at / 200, f"stage {at // 50}") for at in range(200)), message="commit 200"))
    assert usual is not None
    assert len(track_of(usual).points) > MOST_POINTS / 2


def test_a_track_is_read_as_it_was_written() -> None:
    made = track((0.5, None, "clone"), (2, 0.25, None), (3, None, "read"), message="one\0two\n")
    assert made.points == (Point(0.5, None, "clone"), Point(2, 0.25, "clone"), Point(3, 0.25, "read"))
    assert track_of(points_text(made)) == made
    assert points_text(Track()) is None
    assert track_of(points_text(track((1, None, None), message="only this"))) == Track((), "only this")


@pytest.mark.parametrize("damaged", ["", "null", "[]", "[1]", '[["x",1],null]', "[[1,2,3],null]", "[[],null]", '{"a":1}'])
def test_a_track_that_was_damaged_by_hand_reads_as_none(damaged: str) -> None:
    assert track_of(damaged) == Track()
