"""The timeline of a job as the terminal draws it."""

from holdfast._core.points import Point
from holdfast._core.story import Lane, Story
from holdfast._core.story_words import Kind
from holdfast.cli.timeline import timeline_of

DRAWN = """
                     0        1:00     2:00     3:00     4:00    5:00
state                █████ running ███████ running ██████ running ███ ✓
attempt 1            │clone ▁│analyze ▅▅┃ killed: SIGKILL, out of memory, at 52 %
web1-4711            └      ╵        ╵  ┃ ⚓ rescued, crash 1 of 3
attempt 2                               │▅▅▅▅▅▅▅▅╱╱╱╱╱┃ lease ran out, at 71 %
web2-1207                               └             ┃ no sign of life for 32 s, ⚓ rescued, ◇ late result 58 s later: refused, kept
attempt 3, isolated                                   │analyze ▇▇█│ch┃ completed
web1-4833                                             └              ┃
"""


def test_the_timeline_has_curves_stages_beats_silence_and_what_came_of_each_attempt() -> None:
    lanes = (
        Lane(
            attempt=1,
            worker="web1-4711",
            begins=1.0,
            ends=130.0,
            ending=Kind.KILLED,
            note="killed: SIGKILL, out of memory, at 52 %",
            points=(Point(0, 0.0, "clone"), Point(50, 0.2, "analyze"), Point(100, 0.52, "analyze"), Point(129, 0.52, "analyze")),
            rescue="rescued, crash 1 of 3",
            beats=(50.0, 110.0),
        ),
        Lane(
            attempt=2,
            worker="web2-1207",
            begins=131.0,
            ends=222.0,
            ending=Kind.SILENT,
            note="lease ran out, at 71 %",
            points=(Point(0, 0.5), Point(30, 0.6), Point(59, 0.71)),
            rescue="rescued",
            silent_from=190.0,
            has_late_result=True,
            late_at=280.0,
        ),
        Lane(
            attempt=3,
            worker="web1-4833",
            begins=222.7,
            ends=324.0,
            ending=Kind.COMPLETED,
            note="completed",
            is_isolated=True,
            points=(Point(0, 0.8, "analyze"), Point(75, 1.0, "analyze"), Point(80, 1.0, "chart")),
        ),
    )
    assert list(timeline_of(Story("", lanes, ()), 400.0)) == DRAWN.strip("\n").split("\n")


def test_an_attempt_that_runs_ends_now_and_a_name_cannot_steer_the_terminal() -> None:
    points = (Point(0, None, "\x1b[2J"), Point(5, 1.0, "\x1b[2J"))
    lane = Lane(attempt=1, worker="w\x1b", begins=5.0, ends=None, ending=None, note="", points=points)
    lines = list(timeline_of(Story("", (lane,), ()), 10.0))
    assert lines[2].endswith("┃ running")
    assert "\x1b" not in "".join(lines)
    assert list(timeline_of(Story("", (), ()), 10.0)) == []
