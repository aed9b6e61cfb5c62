"""A check is red for anything that keeps a job from moving, and names the remedy, which makes it green. It leaves nothing behind."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
from msgspec import structs

from holdfast._core.answers import Answer, Check
from holdfast._core.job import State
from holdfast._core.policy import Policy
from holdfast.errors import HoldfastError, StoreRefused
from holdfast.stores.postgres import objects
from holdfast.testing.contracts.scene import Scene, done, play, raised
from tests.stores.postgres_databases import KINDS, Homes
from tests.stores.postgres_faulty_databases import Site, store_at
from tests.stores.test_postgres_checks import found_at, levels
from tests.stores.test_postgres_partitions import In

DAY = 86400.0
WITHOUT_A_KEY = ("active", "partition_days", "finished_other", "attempts_other")
TABLES = ("SELECT relname FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace AND relkind = 'r'",)[0]


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    """Return a session of the database's owner."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def worker(database: str, owner: psycopg.Connection) -> Iterator[str]:
    """Return the address of that database for a user that has the role of workers."""
    _act(database, "create_roles")
    owner.execute("DROP ROLE IF EXISTS a_tried_worker")
    owner.execute("CREATE ROLE a_tried_worker LOGIN IN ROLE holdfast_work")
    yield database.replace("//postgres@", "//a_tried_worker@")
    owner.execute("DROP OWNED BY a_tried_worker; DROP ROLE a_tried_worker")


def _act(dsn: str, verb: str) -> None:
    async def act() -> None:
        store = store_at(dsn)
        try:
            await getattr(store, verb)()
        finally:
            await store.close()

    asyncio.run(act())


def errors(dsn: str) -> dict[str, Check]:
    """Return the findings that make a check red."""
    return {name: check for name, check in found_at(dsn).items() if check.level == "error"}


def test_l11_jobs_move_under_a_publication_of_all_tables(homes: Homes) -> None:
    for kind in ("18", *["15"] * KINDS["15"]):
        home = homes.empty(kind)
        home.sql("CREATE PUBLICATION everything FOR ALL TABLES")

        async def act(at: Scene) -> None:
            kept = Policy(retention=3 * DAY)
            job = structs.replace(at.new(queue="q", policy=kept, payload=b"x" * 5000), unique_key="one")
            await at.enqueue(job)
            (claim,) = await at.claim(await at.lease(), policy=kept)
            assert await at.settle(raised(claim.job)) == (Answer.APPLIED,)
            at.advance(60.0)
            (claim,) = await at.claim(await at.lease(), policy=kept)
            assert await at.settle(done(claim.job)) == (Answer.APPLIED,)
            for _ in range(6):
                at.advance(DAY)
                await at.store.prune(100)
            assert await at.store.get(job.id) is None

        try:
            play(In(home), act)
        finally:
            home.sql("DROP PUBLICATION everything")


def test_every_table_and_every_new_partition_can_be_replicated(homes: Homes) -> None:
    home = homes.empty()

    async def act(at: Scene) -> None:
        at.advance(5 * DAY)
        await at.store.prune(1)

    play(In(home), act)
    lacking = [row["name"] for row in _relations(home.dsn) if row["kind"] == "r" and not row["has_identity"]]
    assert lacking == []


def _relations(dsn: str) -> list[dict[str, object]]:
    async def act() -> list[dict[str, object]]:
        store = store_at(dsn)
        try:
            return [dict(row) for row in await store._fetch("relations", "holdfast")]
        finally:
            await store.close()

    return asyncio.run(act())


@pytest.mark.parametrize("table", WITHOUT_A_KEY)
@pytest.mark.parametrize("actions", ["update", "delete"])
def test_a_publication_without_identities_is_red_until_its_remedy_is_done(
    database: str, owner: psycopg.Connection, table: str, actions: str
) -> None:
    owner.execute(f"ALTER TABLE holdfast.{table} REPLICA IDENTITY DEFAULT")
    assert levels(found_at(database), "publication", "job") == ["warning", "ok"]
    owner.execute(f"CREATE PUBLICATION everything FOR ALL TABLES WITH (publish = '{actions}')")
    found = errors(database)["publication"]
    assert (table in found.message, "everything" in found.message) == (True, True)
    assert found.remedy == f"ALTER TABLE holdfast.{table} REPLICA IDENTITY FULL"
    owner.execute(found.remedy)
    assert levels(found_at(database), "publication", "job") == ["-", "ok"]


def test_a_publication_of_a_whole_is_one_of_its_partitions(database: str, owner: psycopg.Connection) -> None:
    owner.execute("ALTER TABLE holdfast.finished_other REPLICA IDENTITY NOTHING")
    owner.execute("CREATE PUBLICATION partial FOR TABLE holdfast.finished WITH (publish_via_partition_root = true)")
    assert "finished_other" in errors(database)["publication"].message


@pytest.mark.parametrize(
    "publication", ["FOR ALL TABLES WITH (publish = 'insert')", "FOR TABLE holdfast.pending, public.active", ""]
)
def test_a_publication_that_stops_nothing_is_not_red(database: str, owner: psycopg.Connection, publication: str) -> None:
    owner.execute("ALTER TABLE holdfast.active REPLICA IDENTITY DEFAULT")
    owner.execute("CREATE TABLE public.active (id int PRIMARY KEY)")
    owner.execute(f"CREATE PUBLICATION partial {publication}")
    assert errors(database) == {}


def test_a_key_that_does_not_identify_rows_is_not_taken_for_a_replica_identity(database: str, owner: psycopg.Connection) -> None:
    owner.execute("ALTER TABLE holdfast.leases REPLICA IDENTITY NOTHING")
    assert "leases" in found_at(database)["publication"].message
    owner.execute("ALTER TABLE holdfast.leases REPLICA IDENTITY USING INDEX leases_pkey")
    assert "publication" not in found_at(database)
    owner.execute("ALTER TABLE holdfast.leases DROP CONSTRAINT leases_pkey")
    assert "leases" in found_at(database)["publication"].message


def test_a_settle_that_a_publication_refuses_is_a_fault_that_names_the_remedy(database: str, owner: psycopg.Connection) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        owner.execute("ALTER TABLE holdfast.active REPLICA IDENTITY DEFAULT")
        owner.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        with pytest.raises(StoreRefused, match="REPLICA IDENTITY FULL"):
            await at.settle(done(active))
        owner.execute("ALTER TABLE holdfast.active REPLICA IDENTITY FULL")
        assert await at.settle(done(active)) == (Answer.APPLIED,)

    play(Site(database), act)


RAISING = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION {how}; END $$"


@pytest.mark.parametrize(
    "how",
    [
        "'no' USING ERRCODE = '0A000'",
        "'no' USING ERRCODE = '23514'",
        "'no' USING ERRCODE = '25001'",
        "'no' USING ERRCODE = '42P10'",
        "'no' USING ERRCODE = '55000'",
        "'no'",
    ],
)
def test_a_write_that_the_server_refuses_is_not_an_outage(database: str, owner: psycopg.Connection, how: str) -> None:
    owner.execute(RAISING.format(how=how))
    owner.execute("CREATE TRIGGER refuse BEFORE INSERT ON holdfast.finished_other FOR EACH ROW EXECUTE FUNCTION refuse()")

    async def act(at: Scene) -> None:
        active = await at.running(policy=Policy(retention=60.0))
        with pytest.raises(StoreRefused, match="holdfast check"):
            await at.settle(done(active))
        assert await at.state(active.id) is State.RUNNING

    play(Site(database), act)


@pytest.mark.parametrize(
    "table", ["pending", "active", "finished", "payloads", "attempts", "receipts", "unique_keys", "leases", "queues"]
)
@pytest.mark.parametrize("event", ["INSERT", "DELETE"])
def test_a_trigger_that_refuses_any_move_is_red(database: str, owner: psycopg.Connection, table: str, event: str) -> None:
    if (table, event) in (("receipts", "DELETE"), ("leases", "DELETE"), ("attempts", "DELETE")):
        event = "INSERT"
    owner.execute(RAISING.format(how="'the trigger says no'"))
    owner.execute(f"CREATE TRIGGER refuse BEFORE {event} ON holdfast.{table} FOR EACH ROW EXECUTE FUNCTION refuse()")
    assert "the trigger says no" in errors(database)["job"].message


def test_a_trigger_that_swallows_rows_is_red(database: str, owner: psycopg.Connection) -> None:
    owner.execute("CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$")
    owner.execute("CREATE TRIGGER swallow BEFORE DELETE ON holdfast.active FOR EACH ROW EXECUTE FUNCTION swallow()")
    assert "nothing came of it" in errors(database)["job"].message


def test_a_trigger_that_refuses_at_the_commit_is_red(database: str, owner: psycopg.Connection) -> None:
    owner.execute(RAISING.format(how="'not at the end'"))
    owner.execute(
        "CREATE CONSTRAINT TRIGGER late AFTER DELETE ON holdfast.active DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    assert "not at the end" in errors(database)["job"].message


def test_a_check_leaves_nothing_and_no_other_session_sees_its_job(database: str, owner: psycopg.Connection) -> None:
    before = owner.execute("SELECT last_value FROM holdfast.claim_numbers").fetchone()
    assert found_at(database)["job"].level == "ok"
    for (table,) in owner.execute(TABLES).fetchall():
        if table not in ("versions", "partition_days"):
            assert owner.execute(f"SELECT count(*) FROM holdfast.{table}").fetchone() == (0,)
    assert owner.execute("SELECT last_value FROM holdfast.claim_numbers").fetchone() != before


def test_a_check_waits_for_no_lock_for_long(database: str, owner: psycopg.Connection) -> None:
    with owner.transaction():
        owner.execute("LOCK TABLE holdfast.unique_keys IN ACCESS EXCLUSIVE MODE")
        assert any("lock timeout" in found.message for found in errors(database).values())


@pytest.mark.prove
def test_a_revoked_right_on_any_object_is_red(worker: str, owner: psycopg.Connection) -> None:
    assert errors(worker) == {}
    rights = [f"{right} ON holdfast.{name}" for name, all_of_it in objects.RIGHTS.items() for right in sorted(all_of_it)]
    rights += ["EXECUTE ON FUNCTION holdfast.make_partitions"]
    for right in rights:
        what = right.replace("ON holdfast.claim_numbers", "ON SEQUENCE holdfast.claim_numbers")
        owner.execute(f"REVOKE {what} FROM holdfast_work")
        try:
            found = errors(worker)
            assert found, right
            if "versions" not in right:
                assert right in found["rights"].message
        finally:
            owner.execute(f"GRANT {what} TO holdfast_work")
    assert errors(worker) == {}


@pytest.mark.parametrize("function", ["take_key", "hold_keys", "again"])
def test_a_function_that_may_not_be_called_is_red(worker: str, owner: psycopg.Connection, function: str) -> None:
    owner.execute(f"REVOKE ALL ON FUNCTION holdfast.{function} FROM PUBLIC")
    found = errors(worker)["rights"]
    assert f"EXECUTE ON FUNCTION holdfast.{function}" in found.message
    assert f"GRANT EXECUTE ON FUNCTION holdfast.{function} TO a_tried_worker" in found.remedy


def test_a_schema_that_may_not_be_used_is_red(worker: str, owner: psycopg.Connection) -> None:
    owner.execute("REVOKE USAGE ON SCHEMA holdfast FROM holdfast_work")
    assert "permission denied" in errors(worker)["server"].message


def test_a_check_by_a_user_who_may_only_read_reports_that_nothing_was_tried(worker: str, owner: psycopg.Connection) -> None:
    owner.execute("REVOKE holdfast_work FROM a_tried_worker")
    owner.execute("GRANT holdfast_read TO a_tried_worker")
    assert levels(found_at(worker), "rights", "job") == ["warning", "-"]


def test_the_indexes_of_a_database_are_those_of_the_migrations(database: str) -> None:
    made = objects.made()
    found = {row["name"] for row in _relations(database) if row["kind"] in ("i", "I") and row["parent"] is None}
    assert found == made.indexes.keys()
    others = {row["name"] for row in _relations(database) if row["kind"] in ("r", "p", "v", "S")}
    assert made.others == {name for name in others if not str(name)[-8:].isdigit()}


@pytest.mark.prove
def test_a_missing_index_is_red_until_its_remedy_is_done(database: str, owner: psycopg.Connection) -> None:
    for name, statement in objects.made().indexes.items():
        table = statement.split("holdfast.")[1].split(" ")[0]
        drop = f"ALTER TABLE holdfast.{table} DROP CONSTRAINT {name}" if name.endswith("_pkey") else f"DROP INDEX holdfast.{name}"
        owner.execute(drop)
        found = errors(database)["indexes"]
        assert f"index {name} is missing" in found.message
        owner.execute(found.remedy)
        assert errors(database) == {}


def test_an_index_that_is_not_valid_is_red(database: str, owner: psycopg.Connection) -> None:
    owner.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'holdfast.waiting'::regclass")
    found = errors(database)["indexes"]
    assert ("waiting is not valid" in found.message, found.remedy) == (True, "REINDEX INDEX holdfast.waiting")
    owner.execute(found.remedy)
    assert errors(database) == {}


@pytest.mark.parametrize(
    ("drop", "name"),
    [
        ("TABLE holdfast.payloads CASCADE", "payloads"),
        ("VIEW holdfast.jobs", "jobs"),
        ("SEQUENCE holdfast.claim_numbers", "claim_numbers"),
        ("FUNCTION holdfast.take_key", "take_key"),
    ],
)
def test_a_missing_object_is_red(database: str, owner: psycopg.Connection, drop: str, name: str) -> None:
    owner.execute(f"DROP {drop}")
    assert any(f"holdfast.{name} is missing" in check.message for check in _all(database))


def _all(dsn: str) -> tuple[Check, ...]:
    async def act() -> tuple[Check, ...]:
        store = store_at(dsn)
        try:
            return await store.check()
        finally:
            await store.close()

    return asyncio.run(act())


def test_no_index_follows_the_databases_collation(homes: Homes) -> None:
    for kind in ("18", *["15"] * KINDS["15"]):
        assert [row["name"] for row in _relations(homes.empty(kind).dsn) if row["is_collated"]] == []


def test_an_index_that_follows_the_databases_collation_is_reported(database: str, owner: psycopg.Connection) -> None:
    owner.execute("DROP INDEX holdfast.unique_keys_job")
    owner.execute('CREATE INDEX unique_keys_job ON holdfast.unique_keys (job, key COLLATE "default")')
    assert "unique_keys_job" in found_at(database)["collation"].message


def test_a_caller_that_enqueues_gets_a_refusal_as_its_answer(database: str, owner: psycopg.Connection) -> None:
    owner.execute(RAISING.format(how="'closed'"))
    owner.execute("CREATE TRIGGER refuse BEFORE INSERT ON holdfast.pending FOR EACH ROW EXECUTE FUNCTION refuse()")

    async def act(at: Scene) -> None:
        with pytest.raises(HoldfastError, match="closed"):
            await at.enqueue(at.new())
        assert await at.store.counts() == {}

    play(Site(database), act)
