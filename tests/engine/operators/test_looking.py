"""Pages of jobs look at a bounded number of jobs, and go on where the last one ended."""

import asyncio
from collections.abc import Iterator

import pytest

from holdfast import App, Where
from holdfast._engine.operators.looking import alook


@pytest.fixture(params=["memory://", "sqlite:///jobs.db"])
def app(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[App]:
    monkeypatch.chdir(tmp_path_factory.mktemp("jobs"))
    app = App(request.param)
    yield app
    app.close()


def test_a_page_ends_where_it_has_looked_at_enough_jobs_and_the_next_one_goes_on_there(app: App) -> None:
    oldest = app.enqueue("rare").id
    common = [app.enqueue("common").id for _ in range(10)]
    newest = app.enqueue("rare").id

    async def pages(where: Where) -> list[tuple[list[object], object]]:
        found, cursor = [], None
        while True:
            look = await alook(app.jobs, where, 5, cursor, most=4)
            found.append(([job.id for job in look.jobs], look.back_to and look.back_to.id))
            if look.back_to is None:
                return found
            cursor = look.back_to.id

    rare = [([newest], common[7]), ([], common[3]), ([oldest], oldest), ([], None)]
    assert asyncio.run(pages(Where(task="rare"))) == rare
    assert asyncio.run(pages(Where(text="RARE"))) == rare
    assert asyncio.run(pages(Where(state="failed"))) == [([], None)]
    assert asyncio.run(pages(Where())) == [([newest, *common[:-5:-1]], None)]


def test_a_full_page_does_not_name_where_it_ended(app: App) -> None:
    for _ in range(6):
        app.enqueue("common")
    look = asyncio.run(alook(app.jobs, Where(task="common"), 2, most=4))
    assert (len(look.jobs), look.back_to) == (2, None)
