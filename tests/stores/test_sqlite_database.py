"""The store's connection when the file is busy, damaged, full or deleted."""

import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.requests import JobFilter, NewLease
from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.database import require_version
from holdfast.errors import ConfigurationError, HoldfastError, StoreDamaged, StoreUnavailable
from holdfast.stores.sqlite import schema
from holdfast.stores.sqlite.database import QUERIES
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contracts.scene import TTL, Scene, play
from tests.engine.support import LEASE
from tests.stores.support import OnFile, inside, new_job, sql, store_on, using


class Meanwhile(FakeChance):
    """Randomness that runs an action while a store waits for the third time."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self.act, self.waits = act, 0

    def jitter(self) -> float:
        self.waits += 1
        if self.waits == 3:
            self.act()
        return -1.0


def test_a_busy_file_is_waited_for(tmp_path: Path) -> None:
    path, chance = tmp_path / "jobs.db", FakeChance()
    using(store_on(path), lambda store: store.migrate())
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = Meanwhile(lambda: other.execute("COMMIT"))
        using(store_on(path, chance=waiting), lambda store: store.enqueue(chance.uuid4(), [new_job(chance)]))
    assert waiting.waits == 3
    assert using(store_on(path), lambda store: store.counts()) == {("", State.AVAILABLE): 1}


def test_a_file_that_stays_busy_is_unavailable(tmp_path: Path) -> None:
    path, chance = tmp_path / "jobs.db", FakeChance()
    using(store_on(path), lambda store: store.migrate())
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store = store_on(path, busy_limit=0.01)
        with pytest.raises(StoreUnavailable, match=r"enqueue\w*: .*jobs\.db: busy for") as failure:
            using(store, lambda store: store.enqueue(chance.uuid4(), [new_job(chance)]))
        assert isinstance(failure.value.__cause__, sqlite3.OperationalError)
        assert using(store_on(path), lambda store: store.counts()) == {}, "readers never wait"


def test_a_write_that_had_to_wait_is_judged_by_the_time_at_which_it_lands(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(at.new())
        lease = await at.lease()
        with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None, check_same_thread=False)) as other:
            other.execute("BEGIN IMMEDIATE")

            def expire() -> None:
                at.advance(TTL + 1.0)
                other.execute("COMMIT")

            late = store_on(tmp_path / "jobs.db", at.clock, chance=Meanwhile(expire))
            answer = await late.exchange((), at.request(lease))
            await late.close()
        assert answer.claims == ()
        assert await at.store.counts() == {("", State.AVAILABLE): 1}

    play(OnFile(tmp_path / "jobs.db"), act)


def test_a_full_disk_changes_nothing_and_is_unavailable(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        (job,) = await at.enqueue(at.new())
        await inside(at.store, lambda connection: connection.pragma("max_page_count = 1"))
        call, large = at.chance.uuid4(), [at.new(payload=b"x" * 100_000), at.new()]
        with pytest.raises(StoreUnavailable, match=r"enqueue\w*: .*full"):
            await at.store.enqueue(call, large)
        assert await at.store.counts() == {("", State.AVAILABLE): 1}
        await at.store.close()
        await at.store.enqueue(call, large)
        assert [row.id for row in await at.store.list(at.everything)] == [large[1].id, large[0].id, job]

    play(OnFile(tmp_path / "jobs.db"), act)


def test_a_disk_that_the_log_has_filled_is_freed_of_it(tmp_path: Path) -> None:
    path, log = tmp_path / "jobs.db", tmp_path / "jobs.db-wal"

    async def act(at: Scene) -> None:
        other = at.another()
        await other.counts()  # whose connection keeps the log from being emptied by the last close
        await at.enqueue(*(at.new() for _ in range(200)))
        await inside(at.store, lambda connection: connection.pragma("max_page_count = 1"))
        assert log.stat().st_size > 0
        with pytest.raises(StoreUnavailable, match=r"enqueue\w*: .*full"):
            await at.enqueue(at.new(payload=b"x" * 100_000))
        assert log.stat().st_size == 0

    play(OnFile(path), act)


VERBS: dict[str, Callable[[Scene, UUID], Coroutine[None, None, object]]] = {
    "beat": lambda at, lease: at.store.beat([lease]),
    "enqueue": lambda at, lease: at.enqueue(at.new()),
    "counts": lambda at, lease: at.store.counts(),
}


@pytest.mark.parametrize("is_replaced", [False, True])
@pytest.mark.parametrize("verb", VERBS)
def test_a_file_that_was_deleted_or_replaced_is_noticed_and_reported(tmp_path: Path, verb: str, is_replaced: bool) -> None:
    path = tmp_path / "jobs.db"

    async def act(at: Scene) -> None:
        lease = await at.lease()
        await at.enqueue(at.new())
        for name in ("jobs.db", "jobs.db-wal", "jobs.db-shm"):
            (tmp_path / name).rename(tmp_path / f"old-{name}")
        if is_replaced:
            await at.another().counts()
        at.advance(1.0)
        with pytest.raises(StoreUnavailable, match=r"jobs\.db was deleted or replaced while it was open.*stop all processes"):
            await VERBS[verb](at, lease)
        assert path.exists() is is_replaced

    play(OnFile(path), act)


def test_after_a_replacement_the_file_at_the_path_is_used(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def act(at: Scene) -> None:
        lease = await at.lease()
        await at.enqueue(at.new())
        for name in ("jobs.db", "jobs.db-wal", "jobs.db-shm"):
            (tmp_path / name).unlink()
        at.advance(0.5)
        await at.store.counts()  # the store checks the file at most once a second
        at.advance(0.5)
        with pytest.raises(StoreUnavailable, match="deleted or replaced"):
            await at.store.counts()
        assert await at.store.counts() == {}
        assert (await at.store.beat([lease])).gone == {lease}
        assert path.exists()

    play(OnFile(path), act)


def test_a_file_that_is_not_a_database_is_refused_at_once_and_a_repaired_one_is_used(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.write_bytes(b"this is no database, whatever its name says. " * 100)

    async def act(at: Scene) -> None:
        with pytest.raises(ConfigurationError, match=r"jobs\.db: file is not a database: name another file"):
            await at.store.counts()
        path.unlink()
        assert await at.store.counts() == {}

    play(OnFile(path), act)


def damage(path: Path, table: str = "holdfast_jobs") -> None:
    """Make a store whose schema can be read, and whose table cannot."""
    chance = FakeChance()
    using(store_on(path), lambda store: store.enqueue(chance.uuid4(), [new_job(chance)]))
    with closing(sqlite3.connect(path)) as connection:
        ((page,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,))
        ((size,),) = connection.execute("PRAGMA page_size")
    content = bytearray(path.read_bytes())
    content[(page - 1) * size : page * size] = bytes(size)
    path.write_bytes(content)


def test_damage_that_a_verb_finds_names_the_remedy(tmp_path: Path) -> None:
    damage(tmp_path / "jobs.db")
    with pytest.raises(StoreDamaged, match=r"list_all: .*malformed: restore a backup; the file is damaged"):
        using(store_on(tmp_path / "jobs.db"), lambda store: store.list(JobFilter()))


def test_an_error_closes_the_connection_and_the_next_verb_opens_another(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(at.new())
        await inside(at.store, lambda connection: connection.pragma("query_only = 1"))
        with pytest.raises(StoreUnavailable, match=r"enqueue\w*: .*readonly"):
            await at.enqueue(at.new())
        await at.enqueue(at.new())
        assert await at.store.counts() == {("", State.AVAILABLE): 2}

    play(OnFile(tmp_path / "jobs.db"), act)


def test_a_second_job_of_an_id_is_not_an_outage(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        job = at.new()
        await at.enqueue(job)
        with pytest.raises(HoldfastError, match="its own id") as failure:
            await at.enqueue(job)
        assert not isinstance(failure.value, StoreUnavailable)

    play(OnFile(tmp_path / "jobs.db"), act)


def test_acknowledged_writes_survive_a_power_failure(tmp_path: Path) -> None:
    full = 2

    async def act(at: Scene) -> None:
        assert await inside(at.store, lambda connection: connection.pragma("synchronous")) == [(full,)]
        assert await inside(at.store, lambda connection: connection.pragma("journal_mode")) == [("wal",)]

    play(OnFile(tmp_path / "jobs.db"), act)


def test_no_write_returns_rows_while_it_holds_the_lock() -> None:
    for query in QUERIES.values():
        text = " ".join(line for line in query.statement.splitlines() if not line.startswith("--")).upper()
        assert "RETURNING" not in text, query.name
        assert not text.strip().startswith(("BEGIN", "SAVEPOINT")), query.name
        assert sqlite3.complete_statement(query.statement), query.name
        assert text.count(";") == 1, query.name


def test_no_write_leaves_a_transaction_open(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        await at.store.request_cancel([active.id])
        await at.store.reopen([active.id])
        await at.store.beat([active.lease])
        await at.store.end_lease(active.lease, LeaseEnd(RescueReason.CLOSED))
        sql(tmp_path / "jobs.db", "PRAGMA busy_timeout = 0")
        sql(tmp_path / "jobs.db", "UPDATE holdfast_sequence SET claim_number = claim_number + 7")
        assert (await at.running()).token.number > active.token.number + 7

    play(OnFile(tmp_path / "jobs.db"), act)


def test_old_versions_are_refused_and_racy_ones_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=r"SQLite 3\.34\.1 is too old, 3\.35\.0 is needed"):
        require_version((3, 34, 1))
    require_version((3, 35, 0))
    for version, level in (((3, 40, 1), "warning"), ((3, 51, 2), "warning"), ((3, 51, 3), "ok"), ((3, 60, 0), "ok")):
        monkeypatch.setattr(driver, "version", lambda *, use_apsw, version=version: version)
        (library, *_) = using(store_on(tmp_path / "jobs.db"), lambda store: store.check())
        assert (library.level, "pip install apsw" in library.remedy) == (level, level == "warning")


def test_the_first_worker_on_a_file_has_one_line_about_an_old_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def notices(store: SqliteStore, lease: NewLease) -> tuple[str, ...]:
        await store.open_lease(lease)
        return store.capabilities.notices

    line = "SQLite 3.40.1: a rare bug of old releases can damage the file; `holdfast check` says what to do"
    monkeypatch.setattr(driver, "version", lambda *, use_apsw: (3, 40, 1))
    first, second = (structs.replace(LEASE, id=UUID(int=number)) for number in (1, 2))
    assert using(store_on(tmp_path / "jobs.db"), lambda store: notices(store, first)) == (line,)
    assert using(store_on(tmp_path / "jobs.db"), lambda store: notices(store, second)) == ()
    monkeypatch.setattr(driver, "version", lambda *, use_apsw: (3, 60, 0))
    assert using(store_on(tmp_path / "new.db"), lambda store: notices(store, first)) == ()


def test_a_check_of_an_impossible_path_is_a_finding(tmp_path: Path) -> None:
    found = using(store_on(tmp_path / "none" / "jobs.db"), lambda store: store.check())
    (error,) = [finding for finding in found if finding.level == "error"]
    assert "does not exist" in error.message


@pytest.mark.parametrize("table", ["holdfast_jobs", "holdfast_attempts"])
def test_a_check_finds_a_damaged_file(tmp_path: Path, table: str) -> None:
    damage(tmp_path / "jobs.db", table)
    found = using(store_on(tmp_path / "jobs.db"), lambda store: store.check())
    wrong = [finding for finding in found if finding.level == "error"]
    assert [finding.remedy for finding in wrong] == ["restore a backup"] * len(wrong)
    assert any("malformed" in finding.message for finding in wrong)


def test_every_query_begins_with_its_promise() -> None:
    folder = Path(schema.__file__).parent / "queries"
    for path in folder.rglob("*.sql"):
        first = path.read_text().splitlines()[0]
        assert first.startswith("-- "), path.name
        assert first.endswith((".", ":", "?")), path.name


def test_leases_are_not_judged_by_the_wall_clock(tmp_path: Path) -> None:
    clock = FakeClock()
    clock.step_wall(-1_000_000_000.0)

    async def act(at: Scene) -> None:
        lease = await at.lease()
        at.clock.step_wall(2_000_000_000.0)
        assert (await at.store.workers())[0].overdue < 0
        assert (await at.store.beat([lease])).alive == {lease}

    play(OnFile(tmp_path / "jobs.db"), act)
