"""Tables for people and for pipes."""

import json
import re
import sys

import pytest

from holdfast.cli.output import print_table, shown, to_json

ID = "01a1f960-80fc-74a2-8bb1-1f0678730c4c"


def test_a_pipe_gets_every_column(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("id", "state", "held", "why"), [(ID, "a\tb", 0, None)], empty="none")
    assert capsys.readouterr().out == f"id\tstate\theld\twhy\n{ID}\ta\\tb\t0\t\n"


def test_a_terminal_gets_only_columns_with_content_and_ids_in_one_piece(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    rows = [(ID, "", 0, None, "[bold]x\x1b[2J " * 9), (ID, "", 1, "", "y")]
    print_table(("id", "state", "held", "failed", "why"), rows, empty="none")
    text = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out)  # what rich itself paints
    assert text.splitlines()[0].split() == ["id", "state", "held", "why"]
    assert text.count(ID) == 2
    assert "\x1b" not in text
    assert "[bold]" in text
    print_table(("id",), [], empty="no jobs")
    assert capsys.readouterr().out == "no jobs\n"


def test_documents_cannot_steer_a_terminal_and_mean_the_same() -> None:
    text = to_json({"a": "\x9b1m\u202e\x7f\x1bü"})
    assert not {"\x9b", "\u202e", "\x7f", "\x1b"} & set(text)
    assert json.loads(text) == {"a": "\x9b1m\u202e\x7f\x1bü"}
    assert shown(True) == "yes"
