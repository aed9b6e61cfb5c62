"""The picture of the stuck table shows what was measured, and its page states what was measured."""

from itertools import groupby

from scripts import rows_picture
from scripts.rows_picture import IMAGES, PROCESSES, ROWS, drawn, read

MOMENTS = read(IMAGES / "rows.csv")
SIDES = {side: [*moments] for side, moments in groupby(MOMENTS, lambda moment: moment.side)}


def test_it_is_drawn_from_the_measurements() -> None:
    assert drawn(MOMENTS) == (IMAGES / "rows.svg").read_text()


def test_a_loop_leaves_rows_in_progress_and_app_rows_none() -> None:
    assert [*SIDES] == ["a loop", "app.rows"]
    for side, moments in SIDES.items():
        assert sum(moment.killed for moment in moments) > PROCESSES
        assert {sum(moment[2:5]) for moment in moments} == {ROWS}
        assert moments[-1].pending == 0
        assert (moments[-1].in_progress == 0) is (side == "app.rows")
    in_hand = PROCESSES * rows_picture.BATCH
    assert max(moment.in_progress for moment in SIDES["app.rows"]) <= in_hand < SIDES["a loop"][-1].in_progress
