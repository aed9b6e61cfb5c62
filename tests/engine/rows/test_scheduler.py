"""A supervisor's care for tables: runs where rows are due, none of them twice, and rows taken back from the dead."""

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
from tests.engine.rows.rows_worker import FlakyTable, Garden, settings
from tests.engine.rows.support import finish_all
from tests.engine.supervisor.test_supervisor import HELLO, obey, passing
from tests.engine.support import Log, LoopClock, turns
from tests.event_loops import beside

STUCK = 7201.0


class Field:
    """Plots of one table in one store."""

    def __init__(self, count: int = 3, **options: Any) -> None:
        self.clock, self.log = FakeClock(), Log()
        self.settings = settings(**options)
        self.plain = MemoryTable(self.settings.watch, self.clock, [{"id": number} for number in range(1, count + 1)])
        self.table = FlakyTable(self.plain)  # type: ignore[arg-type]
        self.memory = MemoryStore(self.clock)
        self.plot = self.another(1)

    def another(self, seed: int) -> TableJobs:
        """That of another supervisor."""
        chance = FakeChance(seed)
        client = Client(Environment(self.memory, MemoryTransport(), self.clock, chance, self.log.events), give_up=0)
        tables = Tables(lambda url, watch: self.table)  # type: ignore[arg-type,return-value]
        return TableJobs(self.settings, tables, client, chance=chance, events=self.log.events)

    async def runs(self) -> list[tuple[str | None, str, State]]:
        found = await self.memory.list(JobFilter(task=self.settings.task, limit=100))
        return sorted((each.unique_key, each.queue, each.state) for each in found)


async def test_s11_rows_that_are_due_get_as_many_runs_as_may_be_at_once_and_two_supervisors_sow_no_doubles() -> None:
    field = Field(concurrency=2, queue="cleanup", interval="7s")
    other = field.another(2)
    assert await asyncio.gather(field.plot.enqueue_runs(), other.enqueue_runs(), field.plot.enqueue_runs()) == [7.0, 7.0, 7.0]
    wanted = [(f"rows.pastes#{place}", "cleanup", State.AVAILABLE) for place in range(2)]
    assert await field.runs() == wanted
    assert len(field.log.of("job.enqueued")) == 2


async def test_where_nothing_is_due_nothing_is_sown() -> None:
    field = Field(count=0)
    await field.plot.enqueue_runs()
    assert await field.runs() == []


async def test_a_table_that_does_not_fit_is_neither_sown_nor_touched() -> None:
    field = Field()
    field.plain.findings = Findings(problems=("it is a view",))
    for step in (field.plot.enqueue_runs, field.plot.reset, field.plot.prune):
        with pytest.raises(ConfigurationError, match="rows pastes: it is a view"):
            await step()
    assert (field.table.calls, await field.runs()) == (["inspect"] * 3, [])


async def test_rows_that_others_left_without_a_stamp_get_theirs_batch_after_batch_and_are_taken_back_when_that_is_old() -> None:
    field = Field(count=50, batch=30)
    for row in field.plain.rows.values():
        row |= {"status": "busy", "since": None}
    assert await field.plot.reset() == PAUSE
    assert await field.plot.reset() == field.settings.interval
    field.clock.advance(STUCK + 1)
    assert await field.plot.reset() == PAUSE
    assert await field.plot.reset() == field.settings.interval
    assert [each["count"] for each in field.log.of("rows.reset")] == [30, 20]


async def test_s9_rows_whose_stamp_a_trigger_takes_away_are_reported_once_a_minute_and_make_no_hot_loop() -> None:
    field = Field(count=90, batch=30)

    async def passes(count: int) -> list[float]:
        found = []
        for _ in range(count):
            for row in field.plain.rows.values():
                row |= {"status": "busy", "since": None}
            found.append(await field.plot.reset())
        return found

    assert await passes(3) == [PAUSE, 5.0, 5.0]
    assert await field.plot.look() == PRUNING
    (report,) = field.log.of("rows.undone")
    assert (report["rows"], report["count"], report["keys"].split(", ")[-1]) == ("pastes", 30, "…")
    await passes(5)
    assert len(field.log.of("rows.undone")) == 1
    await field.plot.look()
    assert len(field.log.of("rows.undone")) == 2
    await field.plot.look()
    assert len(field.log.of("rows.undone")) == 2


async def test_s9_rows_whose_reset_a_trigger_undoes_make_no_hot_loop() -> None:
    field, found = Field(count=30, batch=30), list[float]()
    for _ in range(3):
        for row in field.plain.rows.values():
            row |= {"status": "busy", "since": field.clock.wall() - STUCK}
        found.append(await field.plot.reset())
    assert found == [PAUSE, PAUSE, 5.0]


async def test_s9_rows_whose_reset_a_trigger_undoes_do_not_starve_younger_ones() -> None:
    field, found = Field(count=100, batch=30), list[float]()
    held = {(id,): {"status": "busy", "since": field.clock.wall() - STUCK - 100 + id} for id in range(1, 101)}
    for key, row in field.plain.rows.items():
        row |= held[key]
    while found[-1:] != [5.0]:
        found.append(await field.plot.reset())
        for id in range(1, 51):
            field.plain.rows[id,] |= held[id,]
    assert [row["status"] for row in field.plain.rows.values()] == ["busy"] * 50 + ["new"] * 50
    assert len(found) < 12
    for row in field.plain.rows.values():
        row |= {"status": "busy", "since": field.clock.wall() - STUCK}
    found = [await field.plot.reset() for _ in range(5)]
    assert (found, field.plain.rows[1,]["status"]) == ([PAUSE] * 3 + [5.0] * 2, "new"), "all begins again"


async def test_rows_are_taken_back_where_rows_without_a_stamp_cannot_get_one() -> None:
    field = Field(count=3)
    await field.plain.claim("", 2)
    field.clock.advance(STUCK)

    async def adopt(limit: int) -> list[Key]:
        raise HoldfastError("no right to do that")

    field.plain.stamp_unstamped = adopt  # type: ignore[method-assign]
    with pytest.raises(HoldfastError, match="no right"):
        await field.plot.reset()
    assert [each["count"] for each in field.log.of("rows.reset")] == [2]


async def test_rows_that_the_database_refuses_to_change_are_reported() -> None:
    field = Field(count=3, retention="1d")
    field.plain.refusals = [Refusal("reset", (1,), "row is frozen")]
    await field.plot.reset()
    field.plain.refusals = [Refusal("prune", (2,), "a bill names it")]
    await field.plot.prune()
    first, second = field.log.of("rows.refused")
    assert first == {"rows": "pastes", "verb": "reset", "count": 1, "keys": "1", "error": "row is frozen", "job": None}
    assert (second["verb"], second["keys"]) == ("prune", "2")


async def test_stuck_rows_are_taken_back_a_batch_at_a_time_and_said_with_their_keys() -> None:
    field = Field(count=50, batch=30, owner="holder")
    for number in range(2):
        await field.plain.claim(f"worker-{number}", 25)
        field.clock.advance(10)
    field.clock.advance(STUCK)
    assert await field.plot.reset() == PAUSE
    assert await field.plot.reset() == field.settings.interval
    assert await field.plot.reset() == field.settings.interval
    first, second = field.log.of("rows.reset")
    assert (first["rows"], first["count"], first["failed"], first["owner"]) == ("pastes", 30, 0, "worker-0")
    assert round(first["oldest"]) == STUCK + 20
    assert len(first["keys"].split(", ")) == 21, "twenty, and a sign that there are more"
    assert (second["count"], second["owner"]) == (20, "worker-1")


async def test_a_row_that_is_reset_too_often_fails() -> None:
    field = Field(count=1, resets="resets", max_resets=1, failed="bad")
    for _ in range(2):
        await field.plain.claim("", 1)
        field.clock.advance(STUCK)
        await field.plot.reset()
    assert field.plain.rows[1,]["status"] == "bad"
    assert [each["failed"] for each in field.log.of("rows.reset")] == [0, 1]


async def test_rows_that_have_been_done_for_their_retention_are_pruned() -> None:
    field = Field(count=3, retention="1d", batch=2)
    claimed = await field.plain.claim("", 3)
    await field.plain.move(claimed.fence, [(1,), (2,), (3,)], RowOutcome.DONE)
    assert await field.plot.prune() == PRUNING
    field.clock.advance(86401)
    assert [await field.plot.prune(), await field.plot.prune()] == [PAUSE, PRUNING]
    assert (field.plain.rows, [each["count"] for each in field.log.of("rows.pruned")]) == ({}, [2, 1])


async def test_rows_whose_stamp_cannot_be_judged_are_reported() -> None:
    field = Field(count=3)
    await field.plain.claim("", 3)
    assert (await field.plot.look(), field.log.of("rows.unreadable")) == (PRUNING, [])
    field.plain.rows[2,]["since"] = "yesterday"
    assert await field.plot.look() == PRUNING
    (report,) = field.log.of("rows.unreadable")
    assert (report["rows"], report["count"], report["keys"]) == ("pastes", 1, "2")


class Estate:
    """A supervisor whose workers do what the test says, and tables by their names."""

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

    async def sown(self) -> list[str]:
        found = await self.memory.list(JobFilter(limit=100))
        return sorted(each.task for each in found if each.state is State.AVAILABLE)


@pytest.mark.virtual_time
async def test_a_supervisor_cares_for_tables_from_the_moment_a_worker_is_ready() -> None:
    estate = Estate("pastes")
    child = await estate.spawned(is_ready=False)
    await passing(20)
    assert estate.tables["pastes"].calls == [], "nobody has looked at it yet"
    child.far.say(messages.Ready())
    await passing(1)
    assert await estate.sown() == ["rows.pastes"]


@pytest.mark.virtual_time
async def test_a_database_that_is_away_or_hangs_hurts_only_its_own_runs() -> None:
    estate = Estate("pastes", "orders", "mails")
    estate.tables["orders"].is_out = True
    estate.tables["mails"].hold("inspect")
    child = await estate.spawned()
    beside(obey(child))
    await passing(60)
    assert await estate.sown() == ["rows.pastes"]
    said = {each["operation"] for each in estate.log.of("store.unavailable")}
    assert said == {"sow rows.orders", "watch rows.orders", "look rows.orders"}
    assert not child.has_ended.done()
    estate.tables["orders"].is_out = False
    await passing(10)
    assert await estate.sown() == ["rows.orders", "rows.pastes"]


@pytest.mark.virtual_time
async def test_the_watchdog_takes_back_what_a_frozen_worker_holds() -> None:
    estate = Estate("pastes")
    beside(obey(await estate.spawned()))
    table = estate.tables["pastes"].store
    await table.claim("", 10)
    await passing(7199)
    assert table.rows[1,]["status"] == "busy"
    await passing(10)
    assert table.rows[1,]["status"] == "new"
    (event,) = estate.log.of("rows.reset")
    assert event["keys"] == "1"


@pytest.mark.virtual_time
async def test_until_empty_waits_for_rows_that_are_due() -> None:
    estate = Estate("pastes", until_empty=True)
    beside(obey(await estate.spawned(), lambda: True))
    await passing(60)
    assert not estate.running.done()
    await estate.tables["pastes"].store.claim("", 10)
    assert await estate.running == 0


@pytest.mark.virtual_time
async def test_until_empty_does_not_end_while_nobody_can_say_whether_rows_are_due() -> None:
    estate = Estate("pastes", until_empty=True)
    estate.tables["pastes"].is_out = True
    beside(obey(await estate.spawned(), lambda: True))
    await passing(60)
    assert not estate.running.done()


@pytest.mark.virtual_time
async def test_a_worker_that_comes_after_another_changes_nothing_for_its_tables() -> None:
    estate = Estate("pastes")
    child = await estate.spawned()
    await passing(60)
    before = estate.tables["pastes"].calls.count("has_due")
    child.end(Exit(code=1))
    beside(obey(await estate.spawned()))
    await passing(60)
    assert estate.tables["pastes"].calls.count("has_due") <= 2 * before, "and not three times as often"


@pytest.mark.virtual_time
async def test_a_drained_supervisor_leaves_tables_alone() -> None:
    estate = Estate("pastes")
    child = await estate.spawned()
    await passing(1)
    estate.supervisor.drain()
    child.end(Exit(code=0))
    assert await estate.running == 0
    calls = list(estate.tables["pastes"].calls)
    assert calls[-1] == "close"
    await passing(60)
    assert estate.tables["pastes"].calls == calls


def test_what_a_worker_says_of_its_tables_survives_the_pipe() -> None:
    said = structs.replace(HELLO, rows=(settings(failed=3, owner="holder", key=("a", "b"), columns=["c"]),))
    assert messages.decode(messages.encode(said)) == said
    assert isinstance(said.rows[0], RowsSettings)
    assert said.rows[0].watch.columns == ("a", "b", "c")


async def test_a_reset_by_hand_ends_where_a_trigger_takes_stamps_back() -> None:
    adopted = list[int]()
    garden = Garden(finish_all, count=7)

    async def adopt(limit: int) -> int:
        adopted.append(limit)
        return limit

    garden.plain.stamp_unstamped = adopt  # type: ignore[method-assign]
    assert await garden.rows.areset() == []
    assert len(adopted) == 3


async def test_a_reset_by_hand_ends_where_a_trigger_puts_rows_back() -> None:
    garden = Garden(finish_all, count=7)

    answers = [[ResetRow((1,), RowOutcome.RETRY, "", 9.0)]] * 3 + [[]]

    async def reset(limit: int, past: int = 0) -> list[ResetRow]:
        return answers.pop(0)

    garden.plain.reset = reset  # type: ignore[method-assign]
    assert [each.key for each in await garden.rows.areset()] == [(1,)]


async def test_a_reset_by_hand_goes_past_rows_that_a_trigger_puts_back() -> None:
    garden = Garden(finish_all, count=9, batch=3)
    reset, since = garden.plain.reset, garden.clock.wall() - 7201
    for id, row in enumerate(garden.plain.rows.values()):
        row |= {"status": "busy", "since": since + id / 1000}

    async def undone(limit: int, past: int = 0) -> list[ResetRow]:
        before = deepcopy(garden.plain.rows)
        found = await reset(limit, past)
        garden.plain.rows |= {(id,): before[id,] for id in (1, 2, 3, 4)}
        return found

    garden.plain.reset = undone  # type: ignore[method-assign]
    assert len(await garden.rows.areset()) == 9
    assert garden.ids("new") == [5, 6, 7, 8, 9]


async def test_a_reset_by_hand_that_the_database_refuses_says_so() -> None:
    garden = Garden(finish_all, count=2)
    garden.plain.refusals = [Refusal("reset", (2,), "row is frozen")]
    with pytest.raises(HoldfastError, match="rows pastes: reset: 2: row is frozen"):
        await garden.rows.areset()
    assert garden.log.of("rows.refused")[0]["error"] == "row is frozen"
