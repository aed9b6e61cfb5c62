"""`python -m bench.compare` drives every peer by one protocol. Holdfast's driver runs here; the peers need their environments."""

import math
import sys
from pathlib import Path

import msgspec
import pytest

from bench.compare import page, results, targets
from bench.compare.catalogue import CELERY, GRAPHILE, HUEY, OURS, PEERS, Store
from bench.compare.environments import DRIVERS, Missing, ready
from bench.compare.figures import ACTS, NAMES, Sizes, nothing
from bench.compare.processes import Site
from bench.compare.targets import LIMITS, TARGETS, Target
from bench.rounds import Book

SMALL = Sizes(one_by_one=20, callers=100, bulk=100, pings=2, part=0.002)
TITLES = {results.title(peer, entry) for peer in (*OURS, *PEERS) for entry in peer.entries}


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("act", "kind"),
    [
        ("drain", "def"),
        *(pytest.param(act, "async", marks=pytest.mark.prove) for act in ("enqueue", "latency", "payload")),
    ],
)
def test_every_act_measures_all_its_figures(act: str, kind: str, tmp_path: Path) -> None:
    peer = next(peer for peer in OURS if peer.store is Store.SQLITE)
    entry = next(entry for entry in peer.entries if entry.kind == kind)
    found = ACTS[act](Site(peer, entry, (sys.executable,), f"sqlite:///{tmp_path}/jobs.db", tmp_path), SMALL)
    assert tuple(found) == NAMES[act]
    assert all(value > 0 for value in found.values())


def test_every_peer_has_a_driver_pinned_versions_and_a_best_setting() -> None:
    for peer in PEERS:
        assert (DRIVERS / peer.driver).exists()
        assert peer.packages
        assert peer.source
        assert {"best", "defaults"} == {entry.setting for entry in peer.entries}
    assert len({peer.environment for peer in PEERS}) == len(PEERS)


def test_targets_name_entries_that_exist() -> None:
    named = {cell[1] for target in TARGETS for cell in (target.above, *target.below)} | {limit.cell[1] for limit in LIMITS}
    assert {name for name in named if ", raw, " not in name} <= TITLES


def test_a_ratio_is_the_median_over_rounds_of_holdfast_to_the_best_peer() -> None:
    book = Book()
    for ours, one, other in ((20, 10, 5), (30, 10, 30), (40, math.nan, 10), (math.nan, 1, 1)):
        for name, value in (("ours", ours), ("one", one), ("other", other)):
            book.add(name, {"bulk": value})
    assert targets.ratio(book, Target("", ("bulk", "ours"), (("bulk", "one"), ("bulk", "other")), 1.0)) == 2.0
    assert targets.ratio(book, Target("", ("bulk", "ours"), (("bulk", "nothing"),), 1.0)) is None


def test_of_a_latency_less_is_better() -> None:
    book = Book()
    for name, value in (("ours", 2.0), ("peer", 6.0)):
        book.add(name, {"p50 at 50": value, "bulk": value})
    assert targets.times(book, "p50 at 50", "peer", "ours") == 3.0
    assert targets.times(book, "bulk", "peer", "ours") == pytest.approx(1 / 3)


def test_a_peer_without_its_program_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("bench.compare.environments.FOLDER", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Missing, match="node and npm are not installed"):
        ready(GRAPHILE, lambda text: None)


def test_a_file_keeps_figures_that_a_later_run_does_not_measure(tmp_path: Path) -> None:
    first, second = Book(), Book()
    first.add("one", {"bulk": 1.0, "drain 1": 2.0})
    second.add("one", nothing("drain"))
    results.write("peer", first, tmp_path, {})
    more = results.earlier("peer", tmp_path)
    more.add("one", nothing("drain"))
    results.write("peer", more, tmp_path, {})
    ((name, contest),) = results.read(tmp_path)
    found = contest.book().entries
    assert name == "peer"
    assert found["bulk", "one"] == [1.0]
    assert found["drain 1", "one"][0] == 2.0
    assert math.isnan(found["drain 1", "one"][1])
    results.write("peer", second, tmp_path, {})
    assert msgspec.json.decode((tmp_path / "peer.json").read_bytes())["rounds"]["drain 1 | one"] == [None]


def test_a_peer_is_compared_with_the_same_kind_of_handler_on_its_kind_of_store() -> None:
    assert page.rival(HUEY, HUEY.entries[0], "drain") == "holdfast, SQLite, defaults, def"
    assert page.rival(CELERY, CELERY.entries[0], "drain") == "holdfast, PostgreSQL, defaults, process"
    assert page.rival(CELERY, CELERY.entries[0], "latency") == "holdfast, PostgreSQL, defaults, async"
