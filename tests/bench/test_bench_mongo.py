"""`python -m bench.mongo` measures what it judges; no test judges its figures."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from bench.mongo import acceptance, acts
from bench.mongo.acceptance import judge
from bench.mongo.rates import Numbers, Rates
from bench.mongo.site import Site
from bench.rounds import Book
from holdfast.testing.servers import MongoSet

NUMBERS = Numbers(one_by_one=20, batches=1000, drain=300, pings=3, others=40, listeners=2)


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


@pytest.mark.timeout(60)
def test_every_act_and_every_enqueue_is_measured(mongo_set: MongoSet, tmp_path: Path) -> None:
    found = Book()
    with closing(Site(tmp_path, mongo_set)) as site:
        asyncio.run(_measure(site, found))
    measured = {each.text for each in judge(found, [])}
    assert measured == {each.text for each in acceptance.musts([]) if "drain" not in each.text and "idle" not in each.text}
    assert found.entries["beat writes", "holdfast"] == [1.0]
    assert min(found.entries["drain", name][0] for name in ("bare commands", "store without engine")) > 0


async def _measure(site: Site, found: Book) -> None:
    rates = Rates(site, (), NUMBERS, found, print)
    await rates.round(0, ["enqueue", "store"])
    await acts.failed_attempts(site, found)
    await acts.beat(site, found, 100)
    await acts.orphans(site, found, 100)
