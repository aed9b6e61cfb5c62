"""The journal of rows: what it commits is what comes back, at every size."""

from pathlib import Path

import pytest
from analyzer.journal import Journal, last_row
from analyzer.processes import Children, Ended


def written(path: Path, rows: int, width: int) -> int:
    with Journal.begin(path) as journal:
        for number in range(rows):
            journal.append({"number": number, "text": "x" * width})
        return journal.commit()


@pytest.mark.parametrize(("rows", "width"), [(1, 0), (1, 3_000_000), (5, 1_100_000), (40, 70_000), (5000, 500)])
def test_the_last_row_of_a_journal_of_any_size(tmp_path: Path, rows: int, width: int) -> None:
    length = written(tmp_path / "rows", rows, width)
    assert last_row(tmp_path / "rows", length, rows) == {"number": rows - 1, "text": "x" * width}
    assert last_row(tmp_path / "rows", length, rows + 1) is None
    assert last_row(tmp_path / "rows", length - 1, rows) is None
    assert last_row(tmp_path / "rows", length + 1, rows) is None


def test_a_long_copy_ends_with_the_analysis(tmp_path: Path) -> None:
    length = written(tmp_path / "rows", 3, 2_000_000)
    children = Children()
    children.kill()
    with pytest.raises(Ended):
        Journal.resume(tmp_path / "rows", length, tmp_path / "next", check=children.raise_if_ended)
    with Journal.resume(tmp_path / "rows", length, tmp_path / "next") as journal:
        assert journal.commit() == length
    assert (tmp_path / "next").read_bytes() == (tmp_path / "rows").read_bytes()


def test_removing_ends_with_the_analysis_and_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "mine" / "deep").mkdir(parents=True)
    (tmp_path / "mine" / "deep" / "file").touch()
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "text").touch()
    (tmp_path / "mine" / "link").symlink_to(tmp_path / "thesis")
    ended = Children()
    ended.kill()
    with pytest.raises(Ended):
        ended.remove(tmp_path / "mine")
    Children().remove(tmp_path / "mine")
    assert not (tmp_path / "mine").exists()
    assert (tmp_path / "thesis" / "text").exists()
