"""`python -m bench.mongo` measures what it judges; no test judges its figures."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bench.mongo import acceptance, acts
from bench.mongo.acceptance import judge
from bench.mongo.rates import Numbers, Rates
from bench.mongo.site import Site
from bench.rounds import Book
from holdfast.testing.servers import MongoSet

NUMBERS = Numbers(one_by_one=20, batches=100, drain=100, pings=3, others=40, listeners=2)


@pytest.fixture
def site(mongo_set: MongoSet, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(tmp_path, mongo_set)) as opened:
        yield opened


def book(**figures: float) -> Book:
    found = Book()
    found.add("holdfast", {name.replace("_", " "): value for name, value in figures.items()})
    return found


def test_a_figure_at_its_bound_is_met_and_one_beyond_is_missed() -> None:
    assert [(each.found, each.is_met) for each in judge(book(p50=10.0, p99=30.5), [])] == [(10.0, True), (30.5, False)]


def test_a_figure_is_compared_with_each_peer() -> None:
    found = book(drain=1200.0)
    found.add("slow", {"drain": 100.0})
    found.add("quick", {"drain": 110.0})
    assert [(each.text, each.is_met) for each in judge(found, ["slow", "quick"])] == [
        ("drain, as a multiple of slow's", True),
        ("drain, as a multiple of quick's", False),
    ]


def test_enqueues_and_drains_are_measured_beside_raw_commands(site: Site) -> None:
    found = Book()
    asyncio.run(Rates(site, (), NUMBERS, found, print).round(0, ["enqueue", "store"]))
    measured = {each.text for each in judge(found, [])}
    assert measured == {each.text for each in acceptance.musts([]) if "insert" in each.text}
    assert min(found.entries["drain", name][0] for name in ("bare commands", "store without engine")) > 0


@pytest.mark.prove
def test_acts_are_measured_and_a_beat_is_one_write(site: Site) -> None:
    found = Book()
    asyncio.run(_act(site, found))
    assert {figure for figure, _ in found.entries} == {"50 failed", "beat", "beat writes", "orphans"}
    assert found.entries["beat writes", "holdfast"] == [1.0]


async def _act(site: Site, found: Book) -> None:
    await acts.failed_attempts(site, found)
    await acts.beat(site, found, 100)
    await acts.orphans(site, found, 100)
