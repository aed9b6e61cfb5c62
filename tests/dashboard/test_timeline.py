"""Where the attempts of a job are drawn."""

import itertools

from holdfast._core.job import State
from holdfast._core.story import Lane
from holdfast._core.story_runs import Point
from holdfast._core.story_words import Kind
from holdfast.dashboard.timeline import LATE, LEFT, LETTER, MOST_LANES, MOST_TICKS, RIGHT, WIDTH, Late, timeline_of


def _lane(attempt: int, begins: float | None, ends: float | None, ending: Kind | None, **more: object) -> Lane:
    return Lane(attempt=attempt, worker="w", begins=begins, ends=ends, ending=ending, note="", **more)  # type: ignore[arg-type]


def test_a_job_that_never_started_has_no_timeline() -> None:
    assert timeline_of([], State.AVAILABLE, 9.0, "") is None
    assert timeline_of([_lane(1, None, None, Kind.SILENT)], State.AVAILABLE, 9.0, "") is None


def test_lanes_and_state_share_one_scale() -> None:
    drawn = timeline_of([_lane(1, 0, 5, Kind.KILLED), _lane(2, 6, None, None)], State.RUNNING, 10.0, "Running.")
    assert drawn is not None
    first, second = drawn.rows
    assert (first.x, first.end) == (LEFT, (LEFT + RIGHT) / 2)
    assert (second.end, first.tone, second.tone) == (RIGHT, "ft", "rn")
    assert [box.family for box in drawn.ribbon] == ["running", "waiting", "running"]
    assert sum(box.width for box in drawn.ribbon) == RIGHT - LEFT


def test_progress_is_a_curve_within_its_lane() -> None:
    points = (Point(0, 0.0), Point(5, 0.5), Point(10, 1.0))
    drawn = timeline_of([_lane(1, 0, None, None, points=points)], State.RUNNING, 10.0, "")
    assert drawn is not None
    assert drawn.rows[0].curve == "M150.0 130.0 L598.0 98.0 L1046.0 66.0"


def test_of_many_attempts_the_last_ones_are_drawn_with_few_ticks() -> None:
    lanes = [_lane(n, n * 10.0, n * 10.0 + 5, Kind.FAILED) for n in range(40)]
    for total in (0.001, 1.0, 400.0, 1e6, 1e9):
        drawn = timeline_of(lanes, State.AVAILABLE, total, "")
        assert drawn is not None
        assert (len(drawn.rows), drawn.left_out) == (MOST_LANES, 40 - MOST_LANES)
        assert 1 <= len(drawn.ticks) <= MOST_TICKS + 1
        assert all(LEFT <= row.x <= row.end <= RIGHT for row in drawn.rows)


def test_stages_beats_silence_and_rescue_are_where_they_happened() -> None:
    points = (
        Point(0, 0.0, "clone"),
        Point(20, 0.1, "a very long name of a stage"),
        Point(22, 0.2, "count"),
        Point(50, 0.9, "count"),
    )
    first = _lane(1, 0, 80, Kind.SILENT, points=points, beats=(10.0, 40.0), silent_from=50.0, rescue="rescued, crash 1 of 3")
    drawn = timeline_of([first, _lane(2, 80, None, None)], State.RUNNING, 100.0, "")
    assert drawn is not None
    row = drawn.rows[0]
    assert [(stage.x, stage.label, stage.is_border) for stage in row.stages] == [
        (150.0, "clone", False),
        (329.2, "", True),
        (347.1, "count", True),
    ]
    assert row.stages[0].y < row.stages[2].y  # below a curve that is high
    assert (row.beats, row.gone, row.silence) == ([239.6, 508.4], (598.0, 268.8), "no sign of life for 30 s")
    assert (row.rescue, drawn.keys) == ("rescued, crash 1 of 3", {"curve", "beats", "gone", "rescue"})


def test_a_late_result_is_drawn_when_it_came_if_that_is_known_and_not_too_close() -> None:
    known = [_lane(1, 0, 50, Kind.SILENT, has_late_result=True, late_at=at) for at in (None, 51.0, 75.0, 1e9)]
    drawn = timeline_of([*known, _lane(2, 50, None, None)], State.RUNNING, 100.0, "")
    assert drawn is not None
    assert [row.late for row in drawn.rows] == [LATE] * 4 + [""]
    first, second, third, fourth, fifth = (row.late_mark for row in drawn.rows)
    y, end = drawn.rows[2].y, drawn.rows[2].end
    assert (first, second, fifth) == (None, None, None)
    assert third == Late(822.0, 834.0, y + 52, "start")
    assert fourth == Late(RIGHT, end + 8, drawn.rows[3].y + 67, "start")


def test_the_words_of_a_late_result_stay_in_the_drawing() -> None:
    for begins, late_at in itertools.product(range(0, 100, 7), range(0, 200, 9)):
        lanes = [_lane(1, begins, 96, Kind.SILENT, has_late_result=True, late_at=float(late_at))]
        drawn = timeline_of(lanes, State.FAILED, 100.0 + begins, "")
        assert drawn is not None
        if (mark := drawn.rows[0].late_mark) is not None:
            left = mark.text_x - (LETTER * len(LATE) if mark.anchor == "end" else 0.0)
            assert LEFT <= left <= WIDTH - LETTER * len(LATE)


def test_a_finished_job_shows_its_state_at_the_end() -> None:
    drawn = timeline_of([_lane(1, 0, 5, Kind.FAILED)], State.CANCELLED, 10.0, "")
    assert drawn is not None
    assert [box.family for box in drawn.ribbon] == ["running", "waiting", "waiting"]
    assert (drawn.ribbon[-1].x, drawn.rows[0].end < drawn.ribbon[-1].x) == (1031.9, True)


def test_a_note_gives_way_to_the_rescue_above_it() -> None:
    lanes = [_lane(1, 0, 80, Kind.KILLED, rescue="rescued, crash 1 of 3"), _lane(2, 81, 90, Kind.KILLED)]
    lanes[1] = Lane(attempt=2, worker="w", begins=81, ends=90, ending=Kind.KILLED, note="killed: SIGKILL, out of memory, at 52 %")
    drawn = timeline_of(lanes, State.AVAILABLE, 100.0, "")
    assert drawn is not None
    assert drawn.rows[1].y < drawn.rows[1].note_y
