"""The scheduler of rows: it enqueues runs where rows are due, none of them twice, and resets stuck rows."""

import asyncio
from copy import deepcopy
from typing import Any

import pytest
from msgspec import structs

from holdfast._core.job import State
from holdfast._core.requests import JobFilter
from holdfast._core.table_spec import Key, RowOutcome, RowsSettings
from holdfast._engine import messages
from holdfast._engine.client.client import Client
from holdfast._engine.environment import Environment
from holdfast._engine.rows.scheduler import PAUSE, PRUNING, TableJobs
from holdfast._engine.rows.tables import Tables
from holdfast._engine.supervisor.supervisor import Supervisor, SupervisorOptions
from holdfast._ports.host import Exit
from holdfast._ports.table import Findings, Refusal, ResetRow
from holdfast.errors import ConfigurationError, HoldfastError
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance, FakeClock
from proof.stores.memory_table import MemoryTable
from tests.engine.machines import MemoryHost, MemoryTransport
from tests.engine.rows.rows_worker import FlakyTable, RowsWorker, settings
from tests.engine.rows.support import finish_all
from tests.engine.supervisor.test_supervisor import HELLO, obey, passing
from tests.engine.support import Log, LoopClock, turns
from tests.event_loops import beside

STUCK = 7201.0


class OneTable:
    """One table and one store, whose runs the schedulers of several supervisors enqueue."""

    def __init__(self, count: int = 3, **options: Any) -> None:
        self.clock, self.log = FakeClock(), Log()
        self.settings = settings(**options)
        self.plain = MemoryTable(self.settings.watch, self.clock, [{"id": number} for number in range(1, count + 1)])
        self.table = FlakyTable(self.plain)  # type: ignore[arg-type]
        self.memory = MemoryStore(self.clock)
        self.jobs = self.another(1)

    def another(self, seed: int) -> TableJobs:
        """Return the table's jobs as another supervisor sees them."""
        chance = FakeChance(seed)
        client = Client(Environment(self.memory, MemoryTransport(), self.clock, chance, self.log.events), give_up=0)
        tables = Tables(lambda url, watch: self.table)  # type: ignore[arg-type,return-value]
        return TableJobs(self.settings, tables, client, chance=chance, events=self.log.events)

    async def runs(self) -> list[tuple[str | None, str, State]]:
        found = await self.memory.list(JobFilter(task=self.settings.task, limit=100))
        return sorted((each.unique_key, each.queue, each.state) for each in found)


async def test_s11_due_rows_get_as_many_runs_as_concurrency_allows_and_two_supervisors_make_no_duplicates() -> None:
    one = OneTable(concurrency=2, queue="cleanup", interval="7s")
    other = one.another(2)
    assert await asyncio.gather(one.jobs.enqueue_runs(), other.enqueue_runs(), one.jobs.enqueue_runs()) == [7.0, 7.0, 7.0]
    wanted = [(f"rows.pastes#{slot}", "cleanup", State.AVAILABLE) for slot in range(2)]
    assert await one.runs() == wanted
    assert len(one.log.of("job.enqueued")) == 2


async def test_no_run_is_enqueued_where_no_row_is_due() -> None:
    one = OneTable(count=0)
    await one.jobs.enqueue_runs()
    assert await one.runs() == []


async def test_a_table_that_does_not_fit_gets_no_runs_and_is_not_touched() -> None:
    one = OneTable()
    one.plain.findings = Findings(problems=("it is a view",))
    for step in (one.jobs.enqueue_runs, one.jobs.reset, one.jobs.prune):
        with pytest.raises(ConfigurationError, match="rows pastes: it is a view"):
            await step()
    assert (one.table.calls, await one.runs()) == (["inspect"] * 3, [])


async def test_rows_without_a_stamp_are_stamped_in_batches_and_reset_when_that_stamp_is_old() -> None:
    one = OneTable(count=50, batch=30)
    for row in one.plain.rows.values():
        row |= {"status": "busy", "since": None}
    assert await one.jobs.reset() == PAUSE
    assert await one.jobs.reset() == one.settings.interval
    one.clock.advance(STUCK + 1)
    assert await one.jobs.reset() == PAUSE
    assert await one.jobs.reset() == one.settings.interval
    assert [each["count"] for each in one.log.of("rows.reset")] == [30, 20]


async def test_s9_rows_whose_stamp_a_trigger_removes_are_reported_once_a_minute_and_make_no_hot_loop() -> None:
    one = OneTable(count=90, batch=30)

    async def passes(count: int) -> list[float]:
        found = []
        for _ in range(count):
            for row in one.plain.rows.values():
                row |= {"status": "busy", "since": None}
            found.append(await one.jobs.reset())
        return found

    assert await passes(3) == [PAUSE, 5.0, 5.0]
    assert await one.jobs.look() == PRUNING
    (report,) = one.log.of("rows.undone")
    assert (report["rows"], report["count"], report["keys"].split(", ")[-1]) == ("pastes", 30, "…")
    await passes(5)
    assert len(one.log.of("rows.undone")) == 1
    await one.jobs.look()
    assert len(one.log.of("rows.undone")) == 2
    await one.jobs.look()
    assert len(one.log.of("rows.undone")) == 2


async def test_s9_rows_whose_reset_a_trigger_undoes_make_no_hot_loop() -> None:
    one, found = OneTable(count=30, batch=30), list[float]()
    for _ in range(3):
        for row in one.plain.rows.values():
            row |= {"status": "busy", "since": one.clock.wall() - STUCK}
        found.append(await one.jobs.reset())
    assert found == [PAUSE, PAUSE, 5.0]


async def test_s9_rows_whose_reset_a_trigger_undoes_do_not_starve_younger_ones() -> None:
    one, found = OneTable(count=100, batch=30), list[float]()
    held = {(id,): {"status": "busy", "since": one.clock.wall() - STUCK - 100 + id} for id in range(1, 101)}
    for key, row in one.plain.rows.items():
        row |= held[key]
    while found[-1:] != [5.0]:
        found.append(await one.jobs.reset())
        for id in range(1, 51):
            one.plain.rows[id,] |= held[id,]
    assert [row["status"] for row in one.plain.rows.values()] == ["busy"] * 50 + ["new"] * 50
    assert len(found) < 12
    for row in one.plain.rows.values():
        row |= {"status": "busy", "since": one.clock.wall() - STUCK}
    found = [await one.jobs.reset() for _ in range(5)]
    assert (found, one.plain.rows[1,]["status"]) == ([PAUSE] * 3 + [5.0] * 2, "new"), "the watchdog begins with the oldest again"


async def test_rows_are_reset_also_where_rows_without_a_stamp_cannot_get_one() -> None:
    one = OneTable(count=3)
    await one.plain.claim("", 2)
    one.clock.advance(STUCK)

    async def adopt(limit: int) -> list[Key]:
        raise HoldfastError("no right to do that")

    one.plain.stamp_unstamped = adopt  # type: ignore[method-assign]
    with pytest.raises(HoldfastError, match="no right"):
        await one.jobs.reset()
    assert [each["count"] for each in one.log.of("rows.reset")] == [2]


async def test_rows_that_the_database_refuses_to_change_are_reported() -> None:
    one = OneTable(count=3, retention="1d")
    one.plain.refusals = [Refusal("reset", (1,), "row is frozen")]
    await one.jobs.reset()
    one.plain.refusals = [Refusal("prune", (2,), "a bill names it")]
    await one.jobs.prune()
    first, second = one.log.of("rows.refused")
    assert first == {"rows": "pastes", "verb": "reset", "count": 1, "keys": "1", "error": "row is frozen", "job": None}
    assert (second["verb"], second["keys"]) == ("prune", "2")


async def test_stuck_rows_are_reset_a_batch_at_a_time_and_reported_with_their_keys() -> None:
    one = OneTable(count=50, batch=30, owner="holder")
    for number in range(2):
        await one.plain.claim(f"worker-{number}", 25)
        one.clock.advance(10)
    one.clock.advance(STUCK)
    assert await one.jobs.reset() == PAUSE
    assert await one.jobs.reset() == one.settings.interval
    assert await one.jobs.reset() == one.settings.interval
    first, second = one.log.of("rows.reset")
    assert (first["rows"], first["count"], first["failed"], first["owner"]) == ("pastes", 30, 0, "worker-0")
    assert round(first["oldest"]) == STUCK + 20
    assert len(first["keys"].split(", ")) == 21, "20 keys, and a sign that there are more"
    assert (second["count"], second["owner"]) == (20, "worker-1")


async def test_a_row_that_is_reset_too_often_fails() -> None:
    one = OneTable(count=1, resets="resets", max_resets=1, failed="bad")
    for _ in range(2):
        await one.plain.claim("", 1)
        one.clock.advance(STUCK)
        await one.jobs.reset()
    assert one.plain.rows[1,]["status"] == "bad"
    assert [each["failed"] for each in one.log.of("rows.reset")] == [0, 1]


async def test_rows_that_have_been_done_for_their_retention_are_pruned() -> None:
    one = OneTable(count=3, retention="1d", batch=2)
    claimed = await one.plain.claim("", 3)
    await one.plain.move(claimed.fence, [(1,), (2,), (3,)], RowOutcome.DONE)
    assert await one.jobs.prune() == PRUNING
    one.clock.advance(86401)
    assert [await one.jobs.prune(), await one.jobs.prune()] == [PAUSE, PRUNING]
    assert (one.plain.rows, [each["count"] for each in one.log.of("rows.pruned")]) == ({}, [2, 1])


async def test_rows_whose_stamp_cannot_be_judged_are_reported() -> None:
    one = OneTable(count=3)
    await one.plain.claim("", 3)
    assert (await one.jobs.look(), one.log.of("rows.unreadable")) == (PRUNING, [])
    one.plain.rows[2,]["since"] = "yesterday"
    assert await one.jobs.look() == PRUNING
    (report,) = one.log.of("rows.unreadable")
    assert (report["rows"], report["count"], report["keys"]) == ("pastes", 1, "2")


class SupervisedTables:
    """A supervisor whose workers the test plays, and tables by their names."""

    def __init__(self, *tables: str, until_empty: bool = False) -> None:
        self.clock, self.chance, self.log, self.host = LoopClock(), FakeChance(), Log(), MemoryHost()
        self.memory = MemoryStore(self.clock)
        self.settings = {name: settings(table=name) for name in tables}
        self.tables = {
            name: FlakyTable(MemoryTable(each.watch, self.clock, [{"id": 1}]))  # type: ignore[arg-type]
            for name, each in self.settings.items()
        }
        self.supervisor = Supervisor(
            host=self.host,
            clock=self.clock,
            chance=self.chance,
            events=self.log.events,
            connect=lambda _: (self.memory, MemoryTransport()),
            open_table=lambda url, watch: self.tables[watch.name],  # type: ignore[arg-type,return-value]
            options=SupervisorOptions(until_empty=until_empty),
            arguments=("app:app",),
        )
        self.running = beside(self.supervisor.run())

    async def spawned(self, *, is_ready: bool = True) -> Any:
        child = await self.host.children.get()
        child.far.say(structs.replace(HELLO, rows=tuple(self.settings.values())))
        await child.far.hear(messages.LeaseGranted)
        if is_ready:
            child.far.say(messages.Ready())
        await turns()
        return child

    async def enqueued(self) -> list[str]:
        found = await self.memory.list(JobFilter(limit=100))
        return sorted(each.task for each in found if each.state is State.AVAILABLE)


@pytest.mark.virtual_time
async def test_a_supervisor_schedules_tables_once_a_worker_is_ready() -> None:
    tables = SupervisedTables("pastes")
    child = await tables.spawned(is_ready=False)
    await passing(20)
    assert tables.tables["pastes"].calls == [], "no worker has verified it yet"
    child.far.say(messages.Ready())
    await passing(1)
    assert await tables.enqueued() == ["rows.pastes"]


@pytest.mark.virtual_time
async def test_a_database_that_is_away_or_hangs_delays_only_its_own_runs() -> None:
    tables = SupervisedTables("pastes", "orders", "mails")
    tables.tables["orders"].is_out = True
    tables.tables["mails"].hold("inspect")
    child = await tables.spawned()
    beside(obey(child))
    await passing(60)
    assert await tables.enqueued() == ["rows.pastes"]
    operations = {each["operation"] for each in tables.log.of("store.unavailable")}
    assert operations == {"enqueue runs rows.orders", "reset rows.orders", "look rows.orders"}
    assert not child.has_ended.done()
    tables.tables["orders"].is_out = False
    await passing(10)
    assert await tables.enqueued() == ["rows.orders", "rows.pastes"]


@pytest.mark.virtual_time
async def test_the_watchdog_resets_the_rows_of_a_frozen_worker() -> None:
    tables = SupervisedTables("pastes")
    beside(obey(await tables.spawned()))
    table = tables.tables["pastes"].store
    await table.claim("", 10)
    await passing(7199)
    assert table.rows[1,]["status"] == "busy"
    await passing(10)
    assert table.rows[1,]["status"] == "new"
    (event,) = tables.log.of("rows.reset")
    assert event["keys"] == "1"


@pytest.mark.virtual_time
async def test_until_empty_waits_for_rows_that_are_due() -> None:
    tables = SupervisedTables("pastes", until_empty=True)
    beside(obey(await tables.spawned(), lambda: True))
    await passing(60)
    assert not tables.running.done()
    await tables.tables["pastes"].store.claim("", 10)
    assert await tables.running == 0


@pytest.mark.virtual_time
async def test_until_empty_does_not_end_while_it_is_unknown_whether_rows_are_due() -> None:
    tables = SupervisedTables("pastes", until_empty=True)
    tables.tables["pastes"].is_out = True
    beside(obey(await tables.spawned(), lambda: True))
    await passing(60)
    assert not tables.running.done()


@pytest.mark.virtual_time
async def test_a_second_worker_changes_nothing_for_the_tables_of_the_first() -> None:
    tables = SupervisedTables("pastes")
    child = await tables.spawned()
    await passing(60)
    before = tables.tables["pastes"].calls.count("has_due")
    child.end(Exit(code=1))
    beside(obey(await tables.spawned()))
    await passing(60)
    assert tables.tables["pastes"].calls.count("has_due") <= 2 * before, "and not three times as often"


@pytest.mark.virtual_time
async def test_a_drained_supervisor_does_not_touch_tables() -> None:
    tables = SupervisedTables("pastes")
    child = await tables.spawned()
    await passing(1)
    tables.supervisor.drain()
    child.end(Exit(code=0))
    assert await tables.running == 0
    calls = list(tables.tables["pastes"].calls)
    assert calls[-1] == "close"
    await passing(60)
    assert tables.tables["pastes"].calls == calls


def test_the_tables_in_a_workers_hello_survive_the_pipe() -> None:
    hello = structs.replace(HELLO, rows=(settings(failed=3, owner="holder", key=("a", "b"), columns=["c"]),))
    assert messages.decode(messages.encode(hello)) == hello
    assert isinstance(hello.rows[0], RowsSettings)
    assert hello.rows[0].watch.columns == ("a", "b", "c")


async def test_a_manual_reset_ends_where_a_trigger_removes_stamps() -> None:
    adopted = list[int]()
    worker = RowsWorker(finish_all, count=7)

    async def adopt(limit: int) -> int:
        adopted.append(limit)
        return limit

    worker.plain.stamp_unstamped = adopt  # type: ignore[method-assign]
    assert await worker.rows.areset() == []
    assert len(adopted) == 3


async def test_a_manual_reset_ends_where_a_trigger_undoes_it() -> None:
    worker = RowsWorker(finish_all, count=7)

    answers = [[ResetRow((1,), RowOutcome.RETRY, "", 9.0)]] * 3 + [[]]

    async def reset(limit: int, past: int = 0) -> list[ResetRow]:
        return answers.pop(0)

    worker.plain.reset = reset  # type: ignore[method-assign]
    assert [each.key for each in await worker.rows.areset()] == [(1,)]


async def test_a_manual_reset_goes_past_rows_whose_reset_a_trigger_undoes() -> None:
    worker = RowsWorker(finish_all, count=9, batch=3)
    reset, since = worker.plain.reset, worker.clock.wall() - 7201
    for id, row in enumerate(worker.plain.rows.values()):
        row |= {"status": "busy", "since": since + id / 1000}

    async def undone(limit: int, past: int = 0) -> list[ResetRow]:
        before = deepcopy(worker.plain.rows)
        found = await reset(limit, past)
        worker.plain.rows |= {(id,): before[id,] for id in (1, 2, 3, 4)}
        return found

    worker.plain.reset = undone  # type: ignore[method-assign]
    assert len(await worker.rows.areset()) == 9
    assert worker.ids("new") == [5, 6, 7, 8, 9]


async def test_a_manual_reset_that_the_database_refuses_raises_its_error() -> None:
    worker = RowsWorker(finish_all, count=2)
    worker.plain.refusals = [Refusal("reset", (2,), "row is frozen")]
    with pytest.raises(HoldfastError, match="rows pastes: reset: 2: row is frozen"):
        await worker.rows.areset()
    assert worker.log.of("rows.refused")[0]["error"] == "row is frozen"
