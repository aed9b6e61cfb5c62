"""``app.rows(…)``: all problems are reported at once, and its runs are ordinary jobs."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast import (
    App,
    Batch,
    ConfigurationError,
    Rows,
    State,
    SyncBatch,
)
from holdfast._core.table_spec import TableSpec
from holdfast._ports.table import Findings
from holdfast._system.clock import SystemClock
from holdfast.errors import StoreUnavailable
from proof.stores.memory_table import MemoryTable
from tests.e2e import waiting
from tests.engine.rows.rows_worker import URL, FlakyTable, RowsWorker
from tests.engine.support import until
from tests.event_loops import run

PASTES: dict[str, Any] = {
    "key": "id",
    "status": "status",
    "pending": "new",
    "in_progress": "busy",
    "done": "gone",
    "claimed_at": "since",
    "where": "expires_at < now()",
    "url": URL,
}


class Databases:
    """Tables in memory by name; ``opened`` holds the URL of each call that opened one."""

    def __init__(self) -> None:
        self.tables: dict[str, FlakyTable] = {}
        self.opened: list[str] = []
        self.rows = 10

    def open(self, url: str, spec: TableSpec) -> FlakyTable:
        self.opened.append(url)
        if spec.name not in self.tables:
            rows = [{"id": number} for number in range(1, self.rows + 1)]
            self.tables[spec.name] = FlakyTable(MemoryTable(spec, SystemClock(), rows))  # type: ignore[arg-type]
        return self.tables[spec.name]

    def ids(self, name: str, status: str) -> list[int]:
        return [key[0] for key, row in self.tables[name].store.rows.items() if row["status"] == status]


@pytest.fixture
def databases(monkeypatch: pytest.MonkeyPatch) -> Databases:
    made = Databases()
    monkeypatch.setattr("holdfast.app.open_table", made.open)
    return made


@pytest.fixture
def app(databases: Databases) -> Iterator[App]:
    made = App("memory://", poll_interval="20ms", recovery_interval="0.1s")
    yield made
    made.close()


def declare(app: App, table: str = "pastes", **options: Any) -> Rows:
    return app.rows(table, **{**PASTES, **options})


async def finish_all(batch: Batch) -> None:
    await batch.done(batch.keys)


def test_the_defaults_are_those_of_the_front_door(app: App) -> None:
    pastes = declare(app)
    seen = pastes.settings
    assert (pastes.name, seen.task, seen.queue, seen.concurrency, seen.interval) == ("pastes", "rows.pastes", "default", 1, 5.0)
    assert (seen.watch.batch, seen.watch.stale_after, seen.watch.deletes) == (1000, 7200.0, False)
    assert app.watches == {"pastes": pastes}


def test_a_table_is_in_the_apps_own_database_unless_a_url_is_given(databases: Databases) -> None:
    for url, options, wanted in (
        ("sqlite:///jobs.db", {}, "sqlite:///jobs.db"),
        ("postgresql://db/shop", {"pooler": "transaction"}, "postgresql://db/shop?pooler=transaction"),
        ("postgresql://db/shop?a=b", {"pooler": "transaction"}, "postgresql://db/shop?a=b&pooler=transaction"),
    ):
        app = App(url, **options)  # type: ignore[arg-type]
        assert declare(app, url=None).settings.url == wanted
        assert declare(app, "other").settings.url == URL


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"table": "a.b.c"}, "table='a.b.c': use 'table' or 'schema.table'"),
        ({"table": ""}, "table='': use"),
        ({"key": ()}, r"key=\(\): use the column"),
        ({"key": ("id", "id")}, "key and key: column 'id' cannot be all of them"),
        ({"claimed_at": "status"}, "status and claimed_at: column 'status' cannot be"),
        ({"owner": ""}, "owner='': use the name of a column"),
        ({"done": "busy"}, "in_progress and done are both 'busy'"),
        ({"pending": 1.5}, "pending=1.5: use the text, whole number or boolean"),
        ({"pending": None}, "pending=None: use the text"),
        ({"where": " "}, "where=' ': say which pending rows are due"),
        ({"order_by": ""}, "order_by='': use SQL"),
        ({"batch": 0}, "batch=0: use a whole number from 1 to 10,000"),
        ({"batch": True}, "batch=True"),
        ({"batch": 10_001}, "batch=10001"),
        ({"stale_after": "0s"}, "stale_after='0s': use more than nothing"),
        ({"stale_after": None}, "stale_after: None is not a duration"),
        ({"interval": "soon"}, "interval: 'soon' is not a duration"),
        ({"max_resets": 3}, "max_resets: it needs resets= and failed="),
        ({"max_resets": -1, "resets": "n", "failed": "bad"}, "max_resets=-1: use a whole number from 0"),
        ({"reason": "why"}, "reason: it needs failed="),
        ({"delete": "yes"}, "delete='yes': use True"),
        ({"delete": True, "retention": "1d"}, "retention and delete=True: use one of them"),
        ({"columns": "id"}, "columns='id': use a list"),
        ({"name": "two words"}, "name='two words': use 1 to 200 letters"),
        ({"table": "my table"}, "name='my table': use 1 to 200 letters"),
        ({"queue": "a b"}, "queue='a b'"),
        ({"concurrency": 0}, "concurrency=0: use an integer from 1"),
        ({"url": None}, "memory:// has no tables: pass url="),
        ({"url": "ftp://x"}, "is not a store URL"),
    ],
)
def test_options_that_cannot_work_are_refused_with_a_remedy(app: App, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        declare(app, **{"table": "pastes", **options})


def test_all_problems_are_reported_at_once_each_with_the_name_of_its_rows(app: App) -> None:
    with pytest.raises(ConfigurationError) as caught:
        declare(app, batch=0, where="", concurrency=0)
    assert len(caught.value.problems) == 3
    assert all(problem.startswith("rows pastes: ") for problem in caught.value.problems)
    declare(app)
    with pytest.raises(ConfigurationError, match="rows pastes: watched twice; give one of them name="):
        declare(app)


# run_due


@pytest.mark.parametrize("is_async", [True, False])
def test_run_due_works_off_what_is_due(app: App, databases: Databases, is_async: bool) -> None:
    def in_thread(batch: SyncBatch) -> None:
        batch.done(batch.keys)

    declare(app, batch=3).handler(finish_all if is_async else in_thread)  # type: ignore[type-var]
    assert app.run_due() == 1
    assert databases.ids("pastes", "gone") == list(range(1, 11))
    (job,) = app.jobs.list()
    assert (job.task, job.state, job.result["batches"]) == ("rows.pastes", State.COMPLETED, 4)
    assert app.run_due() == 0


def test_each_of_several_runs_gets_different_rows(app: App, databases: Databases) -> None:
    seen, arrived, all_here = list[list[int]](), list[int](), asyncio.Event()

    async def handler(batch: Batch) -> None:
        seen.append(batch.keys)
        arrived.append(1)
        if len(arrived) == 3:
            all_here.set()
        await all_here.wait()
        await batch.done(batch.keys)

    declare(app, batch=2, concurrency=3).handler(handler)
    assert app.run_due(concurrency=10) == 3
    assert sorted(key for keys in seen for key in keys) == list(range(1, 11))
    assert databases.ids("pastes", "gone") == list(range(1, 11))


def test_a_handler_that_raises_is_tried_again_an_interval_later(app: App, databases: Databases) -> None:
    tries = list[int]()

    async def handler(batch: Batch) -> None:
        tries.append(len(batch))
        if len(tries) == 1:
            raise ValueError("no")
        await batch.done(batch.keys)

    declare(app, interval="0.3s").handler(handler)
    assert app.run_due() == 1
    waiting.until(lambda: app.run_due() == 1, within=5)
    assert tries == [10, 10]
    assert databases.tables["pastes"].calls.count("inspect") == 1, "a table is looked at once"
    assert [(job.state, job.failures) for job in app.jobs.list()] == [(State.COMPLETED, 1)], (
        "no other run was enqueued in the meantime"
    )


def test_a_paused_queue_starts_no_run(app: App, databases: Databases) -> None:
    declare(app, queue="cleanup").handler(finish_all)
    app.queues.pause("cleanup")
    assert app.run_due() == 0
    assert databases.ids("pastes", "gone") == []
    app.queues.resume("cleanup")
    assert app.run_due() == 1
    assert len(app.jobs.list()) == 1, "it had been enqueued, once"


# the embedded worker


async def test_an_embedded_worker_works_off_rows_as_they_become_due(app: App, databases: Databases) -> None:
    pastes = declare(app, interval="0.05s")
    pastes.handler(finish_all)
    async with app.worker():
        await until(lambda: "pastes" in databases.tables and databases.ids("pastes", "gone") == list(range(1, 11)))
        databases.tables["pastes"].store.add({"id": 11})
        await until(lambda: 11 in databases.ids("pastes", "gone"))
    assert databases.ids("pastes", "gone") == list(range(1, 12))


def test_a_worker_refuses_to_start_on_a_table_that_does_not_fit(app: App, databases: Databases) -> None:
    pastes = declare(app)
    pastes.handler(finish_all)
    table = databases.open(URL, pastes.settings.watch)
    table.store.findings = Findings(problems=("there is no column 'since'", "status: its CHECK forbids 'busy'"))

    async def main() -> None:
        async with app.worker():
            raise AssertionError("it must not start")

    with pytest.raises(ConfigurationError) as caught:
        asyncio.run(main())
    assert caught.value.problems == ["rows pastes: there is no column 'since'", "rows pastes: status: its CHECK forbids 'busy'"]
    assert "claim" not in table.calls


def test_a_worker_starts_beside_a_database_that_is_away(app: App, databases: Databases) -> None:
    pastes = declare(app)
    pastes.handler(finish_all)
    databases.open(URL, pastes.settings.watch).is_out = True
    ran = list[str]()

    @app.task
    async def other() -> None:
        ran.append("other")

    async def main() -> None:
        async with app.worker():
            await other.aenqueue()
            await until(lambda: ran)

    run(main())
    assert ran == ["other"]


# what operators call


def test_check_reports_what_is_wrong_with_tables(app: App, databases: Databases) -> None:
    pastes, orders, mails = declare(app), declare(app, "orders"), declare(app, "mails")
    for each in (pastes, orders):
        each.handler(finish_all)
    tables = {each.name: databases.open(URL, each.settings.watch) for each in (pastes, orders, mails)}
    tables["pastes"].store.findings = Findings(("it is a view",), ("a trigger fires",), ("CREATE INDEX i",))
    tables["orders"].is_out = True
    found = [(each.level, each.message, each.remedy) for each in app.check() if each.name == "rows"]
    assert [(level, message) for level, message, _ in found] == [
        ("error", "pastes: it is a view"),
        ("warning", "pastes: a trigger fires"),
        ("warning", "pastes: each look for due or stuck rows reads more than it must without: CREATE INDEX i"),
        ("error", "orders: inspect: not reached"),
        ("warning", "mails: it has no handler, so no worker finishes its rows and no supervisor watches over it"),
        ("ok", "mails: its table fits"),
    ]
    assert found[2][2] == "`holdfast rows indexes pastes --create`"


def test_states_resets_and_indexes_of_a_table(app: App, databases: Databases) -> None:
    pastes = declare(app, stale_after="1ms")
    table = databases.open(URL, pastes.settings.watch)
    table.store.findings = Findings(indexes=("CREATE INDEX i",))
    asyncio.run(table.store.claim("", 4))
    counts = list[int]()
    app.on("rows.reset")(lambda event: counts.append(event.fields["count"]))
    assert (pastes.states().rows, pastes.states().due) == ({"busy": 4, "new": 6}, 6)
    _wait_until_stuck(pastes, 4)
    assert [reset.key for reset in pastes.reset()] in ([(1,), (2,), (3,), (4,)], [(4,), (3,), (2,), (1,)])
    assert (counts, pastes.states().rows) == ([4], {"new": 10})
    assert pastes.inspect().indexes == ("CREATE INDEX i",)
    assert (pastes.create_indexes(), pastes.inspect().indexes) == (("CREATE INDEX i",), ())


def _wait_until_stuck(rows: Rows, count: int) -> None:
    while rows.states().stuck < count:
        pass


def test_calls_on_rows_raise_while_their_database_is_away(app: App, databases: Databases) -> None:
    pastes = declare(app)
    databases.open(URL, pastes.settings.watch).is_out = True
    calls: tuple[Callable[[], Any], ...] = (pastes.states, pastes.reset, pastes.inspect, pastes.create_indexes)
    for call in calls:
        with pytest.raises(StoreUnavailable):
            call()


async def _with_sync(batch: SyncBatch) -> None: ...


def _with_async(batch: Batch) -> None: ...


async def _with_two(batch: Batch, more: int) -> None: ...


def _yields(batch: SyncBatch) -> Any:
    yield batch


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        (_with_sync, "in `async def` write `batch: Batch`"),
        (_with_async, "in `def` write `batch: SyncBatch`"),
        (_with_two, "takes one thing, its batch"),
        (_yields, "not a function of a batch"),
        ("pastes", "not a function of a batch"),
    ],
)
def test_a_handler_that_cannot_work_is_refused(handler: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        RowsWorker(handler)


def test_a_run_is_an_ordinary_job_with_three_attempts_that_is_kept_for_an_hour() -> None:
    worker = RowsWorker(finish_all, queue="cleanup")
    task = worker.registry.get("rows.pastes")
    assert task is not None
    assert (task.queue, task.policy.max_attempts, task.policy.max_crashes, task.policy.retention) == ("cleanup", 3, 3, 3600.0)
    with pytest.raises(ConfigurationError, match="registered twice"):
        worker.rows.handler(finish_all)
