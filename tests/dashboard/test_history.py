"""Charts are drawn from what the store remembers: a dashboard that begins again forgets nothing."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import App
from holdfast._core.history import aligned
from holdfast.cli.frame import draw, read
from holdfast.dashboard import Dashboard
from holdfast.dashboard.charts import Frame, spark
from holdfast.dashboard.views import history as views
from holdfast.stores.memory import MemoryStore
from tests.dashboard.browser import Elements, get
from tests.dashboard.past import WORKERS, minute, moments, remember
from tests.dashboard.showroom import PROCESS
from tests.event_loops import run

DAY = 24 * 60 - 5
"""Minutes."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a store with a day behind it."""
    made = tmp_path_factory.mktemp("day")
    App(f"sqlite:///{made}/jobs.db").migrate()
    run(remember(made, PROCESS, minutes=DAY))
    return made


@pytest.fixture
def app(folder: Path) -> Iterator[App]:
    made = App(f"sqlite:///{folder}/jobs.db")
    yield made
    made.close()


def labels(page: Elements) -> list[str]:
    """Return what the drawings of a page are called."""
    return [str(attrs["aria-label"]) for tag, attrs in page.found if tag == "svg" and attrs.get("role") == "img"]


def figures(app: App, hours: str) -> list[str]:
    """Return the rows of the table below the charts, oldest first."""
    page = get(Dashboard(app), f"/?range={hours}h").body
    table = page[page.index('class="figures"') : page.index("</details>")]
    return [*reversed(re.findall(r"<tr><td>.*?</tr>", table, re.DOTALL))]


def test_the_overview_shows_the_last_hour_as_charts_and_as_a_table(app: App) -> None:
    page = Elements(get(Dashboard(app), "/").body)
    ended, waiting, slots = labels(page)
    assert re.search(r"over the last hour, on the average 3\d\.\d completed and [\d.]+ failed, \d rescued", ended)
    assert "half waited less than" in waiting
    assert slots == "Slots in use over the last hour: at most 54 of 240"
    assert "Figures" in page.text
    assert "back in the queue: 4.2 /s retried · 0.07 /s snoozed" in page.text
    rows = figures(app, "1")
    assert len(rows) == 60
    assert all(row.count("<td") == 12 for row in rows)
    assert len(figures(app, "24")) == 96
    assert get(Dashboard(app), "/?range=forever").status == 200


def test_a_restart_of_the_dashboard_loses_no_figure_of_the_last_24_hours(app: App) -> None:
    end = aligned(datetime.fromtimestamp(app._connections.clock.wall() - 60.0, UTC), 60.0)
    path = f"/api/v1/history?from={_text(end - timedelta(hours=24))}&to={_text(end)}&step=60&by=task"
    before = json.loads(get(Dashboard(app), path).body)
    again = App(app.settings.url)
    after = json.loads(get(Dashboard(again), path).body)
    again.close()
    assert before == after
    steps = after["steps"]
    assert (len(steps), after["looked_back_to"]) == (1440, None)
    written = [minute("w", DAY - ago) for ago in moments(DAY)]
    done = sum(task.outcomes["completed"] for each in written for task in each.tasks)
    found = sum(step["ended"].get("completed", 0.0) * 60.0 for step in steps)
    assert found == pytest.approx(2 * done, rel=0.02)  # one minute more or less at each end
    assert sum(step["rescued"] for step in steps) == 2 * sum(task.rescued for each in written for task in each.tasks)


def _text(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def test_all_viewers_share_one_read_of_the_history_a_minute(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = list[Any]()
    found = App.ahistory

    async def counted(self: App, **given: Any) -> Any:
        reads.append(given)
        return await found(self, **given)

    monkeypatch.setattr(App, "ahistory", counted)
    views._read.clear()
    dashboard = Dashboard(app)
    for _ in range(3):
        assert get(dashboard, "/").status == 200
    assert len(reads) <= 4  # two, or four when a minute passes in between


def test_the_page_of_a_worker_shows_a_day_of_its_beats_also_after_its_end(app: App) -> None:
    page = Elements(get(Dashboard(app), f"/workers/{WORKERS[0]}").body)
    assert "This worker has ended." in page.text
    running, memory, lag = labels(page)
    assert "at most 49" in running
    assert "at most 408 MB" in memory
    assert "at most 400 ms" in lag
    assert get(Dashboard(app), "/workers/none").status == 404


def test_top_draws_the_last_15_minutes_of_each_queue(app: App) -> None:
    app.enqueue("sync_orders")
    frame = read(app, app._connections.clock.wall())
    (queue,) = [each for each in frame.queues if each.name == "default"]
    assert len(queue.rates) == 15
    assert queue.rate is not None
    assert queue.rate > 30
    assert queue.wait_p99 == pytest.approx(0.005, abs=0.001)
    assert draw(frame)


def test_the_overview_of_a_store_without_a_history_states_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("holdfast._core.book.verbs.BookVerbs.minutes")
    app = App("memory://")
    assert not hasattr(MemoryStore, "minutes")
    app.enqueue("t")
    assert "This store keeps no history, so there are no charts." in Elements(get(Dashboard(app), "/").body).text
    app.close()


def test_lines_break_where_there_is_no_value() -> None:
    frame = Frame(4, 10.0)
    assert frame.path([1.0, None, 2.0, 3.0]).count("M") == 2
    assert frame.path([None, 5.0, None]).count("H") == 1
    assert frame.area([1.0, 2.0, None, 3.0]).count("Z") == 1
    assert (spark([]), spark([0.0, 2.0])) == ("", "M0.0 23.0L132.0 1.0")
