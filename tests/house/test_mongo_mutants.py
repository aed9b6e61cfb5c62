"""The guards that ``scripts/mutate_mongo.py`` removes are in the code, and the tests that must notice exist."""

from pathlib import Path

import pytest

from scripts import mutate_mongo
from scripts.mutate_mongo import ROOT, Guard
from tests.contract.test_mongo import TestWhole as Whole
from tests.stores.test_mongo_guards import TestGuards as Own


def test_each_guard_is_in_the_code_once() -> None:
    assert mutate_mongo.gone(mutate_mongo.guards()) == []


def test_each_guard_has_a_test_or_a_reason_why_none_can_notice() -> None:
    found = mutate_mongo.guards()
    assert [each.says for each in found if bool(each.killer) is bool(each.because)] == []
    assert [
        each.says for each in found if each.killer and not hasattr(Own, each.killer) and not hasattr(Whole, each.killer)
    ] == []
    assert len(found) == len({each.says for each in found})


def test_a_guard_whose_code_has_moved_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    moved = Guard("what was here", "stores/mongo/store.py", "a line that is not there", "pass", killer="test_a")
    monkeypatch.setattr(mutate_mongo, "guards", lambda: [moved])
    assert mutate_mongo.main([]) == 1
    assert "gone: what was here: stores/mongo/store.py has 0 times, not once" in capsys.readouterr().out


def test_a_file_without_its_guard_differs_by_the_edit_alone() -> None:
    guard, source = mutate_mongo.guards()[0], ROOT / "src"
    whole = Path(source, "holdfast", guard.file).read_text(encoding="utf-8")
    assert guard.text(source) == whole.replace(guard.old, guard.new) != whole
