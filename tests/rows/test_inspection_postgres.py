"""What only PostgreSQL can have wrong."""

import psycopg
import pytest

from holdfast._core.table_spec import RowOutcome
from holdfast._ports.table import Table
from holdfast.errors import ConfigurationError, HoldfastError, StoreUnavailable, Unsupported
from tests.rows.databases import ENDING, OWNED, Ground, watch
from tests.rows.test_inspection import inspected, the_problem


def test_an_enum_or_a_domain_without_one_of_the_values(postgres: Ground) -> None:
    postgres.say("CREATE TYPE state AS ENUM ('NEW', 'GONE')")
    postgres.say("CREATE DOMAIN kind AS text CHECK (value IN ('NEW', 'GONE'))")
    for kind, says in (("state", "ALTER TYPE state ADD VALUE 'BUSY'"), ("kind", "ALTER DOMAIN kind DROP CONSTRAINT")):
        postgres.say(f"CREATE TABLE of_{kind} (id int PRIMARY KEY, status {kind} NOT NULL, claimed_at timestamptz)")
        problem = the_problem(postgres, table=f"of_{kind}", where="true")
        assert 'in_progress: column "status" is' in problem
        assert says in problem


@pytest.mark.parametrize("what", ["status", "key"])
def test_a_domain_over_an_enum_is_refused_because_postgresql_does_not_compare_it(postgres: Ground, what: str) -> None:
    postgres.say("CREATE TYPE state AS ENUM ('NEW', 'BUSY', 'GONE')")
    postgres.say("CREATE DOMAIN mood AS state")
    types = {"status": "state", "key": "int", what: "mood"}
    postgres.say(
        f"CREATE TABLE pastes (id {types['key']} PRIMARY KEY, status {types['status']} NOT NULL, claimed_at timestamptz)"
    )
    problem = the_problem(postgres, where="true")
    assert 'is mood: PostgreSQL has no = for a domain over an enum: `ALTER TABLE "public"."pastes" ALTER COLUMN' in problem
    postgres.say(problem.split("`")[1])
    assert inspected(postgres, where="true").problems == ()


def test_s9_a_table_from_which_others_inherit_is_refused_before_a_row_is_touched(postgres: Ground) -> None:
    postgres.make(1)
    postgres.say("CREATE TABLE bystander (LIKE pastes INCLUDING ALL)")
    postgres.say("CREATE TABLE heir (PRIMARY KEY (id)) INHERITS (pastes)")
    postgres.say("INSERT INTO heir (id, status) VALUES (1, 'NEW')")  # the same key: the parent's index does not see it
    postgres.say("CREATE TABLE elder (id int)")
    postgres.say("CREATE TABLE stranger () INHERITS (elder)")
    problem = the_problem(postgres)
    assert "stranger" not in problem
    assert "inherit from pastes (INHERITS)" in problem
    assert 'ALTER TABLE heir NO INHERIT "public"."pastes"' in problem
    for other in ("bystander", "heir"):
        assert inspected(postgres, table=other).problems == ()
    postgres.say("ALTER TABLE heir NO INHERIT pastes")
    assert inspected(postgres).problems == ()


def test_a_status_too_short_for_a_value(postgres: Ground) -> None:
    postgres.say("CREATE TABLE pastes (id int PRIMARY KEY, status varchar(3) NOT NULL, claimed_at timestamptz)")
    problems = inspected(postgres, where="true").problems
    assert len(problems) == 2
    assert "too short for 'BUSY': `ALTER TABLE" in problems[0]


@pytest.mark.parametrize(("kind", "is_fine"), [("timestamptz(5)", False), ("timestamp(0)", False), ("timestamptz(6)", True)])
def test_a_stamp_too_coarse_to_be_a_fence(postgres: Ground, kind: str, is_fine: bool) -> None:
    postgres.make(stamp=kind)
    problems = inspected(postgres).problems
    assert [("too coarse" in problem, "owner='claimed_by'" in problem) for problem in problems] == [(True, True)] * (not is_fine)
    assert inspected(postgres, **OWNED).problems == ()


@pytest.mark.parametrize("kind", ["date", "text", "bigint"])
def test_a_stamp_that_is_not_a_time(postgres: Ground, kind: str) -> None:
    postgres.make(stamp=kind)
    assert f'claimed_at: column "claimed_at" is {kind}: name one of a time' in the_problem(postgres, **OWNED)


def test_a_stamp_without_zone_is_a_warning_where_clocks_are_changed(postgres: Ground) -> None:
    postgres.make(stamp="timestamp")
    assert inspected(postgres).warnings == ()
    postgres.say(f"ALTER DATABASE {postgres.place.rpartition('/')[2]} SET timezone = 'Europe/Berlin'")
    (warning,) = inspected(postgres).warnings
    assert "sessions here have Europe/Berlin" in warning


def test_an_owner_too_short_for_a_name(postgres: Ground) -> None:
    postgres.make(more=", who varchar(63)")
    assert "it needs 64 characters" in the_problem(postgres, owner="who")


def as_another(postgres: Ground, *grants: str) -> Ground:
    """Return the same database for a user who may do only this."""
    postgres.say("DROP ROLE IF EXISTS watcher")
    postgres.say("CREATE ROLE watcher LOGIN")
    for grant in grants:
        postgres.say(f"GRANT {grant} TO watcher")
    return Ground("postgres", postgres.place.replace("postgres@", "watcher@"))


def without(postgres: Ground) -> None:
    """Remove that user again."""
    postgres.say("DROP OWNED BY watcher")
    postgres.say("DROP ROLE watcher")


@pytest.mark.parametrize(
    ("grants", "says"),
    [
        (("UPDATE ON pastes",), "may not SELECT in pastes: `GRANT SELECT ON"),
        (("SELECT ON pastes", "UPDATE (status) ON pastes"), 'may not UPDATE ("claimed_at", "owner")'),
        (("SELECT, UPDATE ON pastes",), "may not DELETE in pastes"),
        (("SELECT (id, status, claimed_at, owner, resets, reason, is_due) ON pastes",), 'may not SELECT ("ctid") in pastes'),
    ],
)
def test_permissions_that_are_missing(postgres: Ground, grants: tuple[str, ...], says: str) -> None:
    postgres.make()
    (problem,) = [
        problem for problem in inspected(as_another(postgres, *grants), deletes=True, **OWNED).problems if says in problem
    ]
    assert "name another user" in problem
    without(postgres)


def test_few_permissions_are_enough(postgres: Ground) -> None:
    postgres.make(1)
    other = as_another(
        postgres, "SELECT (id, status, claimed_at, is_due, ctid) ON pastes", "UPDATE (status, claimed_at) ON pastes"
    )

    async def act(table: Table) -> None:
        assert (await table.inspect()).problems == ()
        assert len((await table.claim("", 9)).rows) == 1

    other.play(act, columns=("id",))
    without(postgres)


def test_a_permission_that_is_revoked_in_between(postgres: Ground) -> None:
    postgres.make(1)
    other = as_another(postgres, "SELECT, UPDATE ON pastes")

    async def act(table: Table) -> None:
        mark = (await table.claim("", 9)).fence
        postgres.say("REVOKE UPDATE ON pastes FROM watcher")
        with pytest.raises(ConfigurationError, match="permission denied for table pastes: `GRANT SELECT, INSERT"):
            await table.move(mark, [(1,)], RowOutcome.DONE)

    other.play(act)
    without(postgres)


def test_a_schema_that_may_not_be_looked_into(postgres: Ground) -> None:
    postgres.say("CREATE SCHEMA shop")
    postgres.say("CREATE TABLE shop.pastes (id int)")
    problem = the_problem(as_another(postgres), table="shop.pastes")
    assert "permission denied for schema shop: `GRANT USAGE ON SCHEMA" in problem
    without(postgres)


def test_rows_that_are_hidden_from_this_user(postgres: Ground) -> None:
    postgres.make()
    postgres.say("ALTER TABLE pastes ENABLE ROW LEVEL SECURITY")
    other = as_another(postgres, "SELECT, UPDATE ON pastes")
    assert "BYPASSRLS" in the_problem(other)
    assert inspected(postgres).problems == ()
    without(postgres)


def test_a_table_of_another_schema(postgres: Ground) -> None:
    postgres.say("CREATE SCHEMA shop")
    postgres.say("CREATE TABLE shop.pastes (id int PRIMARY KEY, status text NOT NULL, claimed_at timestamptz)")
    postgres.say("INSERT INTO shop.pastes VALUES (1, 'NEW')")

    async def act(table: Table) -> None:
        assert (await table.inspect()).problems == ()
        assert len(await table.create_indexes()) == 2
        assert len((await table.claim("", 9)).rows) == 1

    postgres.play(act, table="shop.pastes", where="pastes.id > 0")
    assert 'did you mean "shop.pastes"?' in the_problem(postgres, table="shop.paste")


def test_indexes_that_were_begun_and_never_finished_are_made_again(postgres: Ground) -> None:
    postgres.make(2)
    name = "holdfast_pastes_due"
    with pytest.raises(psycopg.errors.UniqueViolation):
        postgres.say(f"CREATE UNIQUE INDEX CONCURRENTLY {name} ON pastes (status)")

    async def act(table: Table) -> None:
        assert len((await table.inspect()).indexes) == 2
        await table.create_indexes()
        assert (await table.inspect()).indexes == ()

    postgres.play(act)
    assert postgres.say("SELECT indisvalid, indisunique FROM pg_index WHERE indexrelid = %s::regclass", name) == [(True, False)]


def test_indexes_of_a_table_with_partitions_are_the_users_to_make(postgres: Ground) -> None:
    postgres.say(
        "CREATE TABLE pastes (id int PRIMARY KEY, status text, claimed_at timestamptz, is_due bool) PARTITION BY HASH (id)"
    )

    async def act(table: Table) -> None:
        with pytest.raises(Unsupported, match="on each partition CONCURRENTLY"):
            await table.create_indexes()

    postgres.play(act)


def test_no_writer_waits_for_an_index(postgres: Ground) -> None:
    postgres.make()
    assert all(index.startswith("CREATE INDEX CONCURRENTLY IF NOT EXISTS") for index in inspected(postgres).indexes)


def test_a_check_that_is_not_enforced_forbids_nothing(postgres: Ground) -> None:
    postgres.make(more=", CHECK (status IN ('NEW', 'GONE')) NOT ENFORCED")
    assert inspected(postgres).problems == ()


def test_sql_that_fails_for_some_rows_is_not_an_outage(postgres: Ground) -> None:
    postgres.make(1)

    async def act(table: Table) -> None:
        with pytest.raises(HoldfastError, match="division by zero") as caught:
            await table.claim("", 1)
        assert not isinstance(caught.value, StoreUnavailable)

    postgres.play(act, where="1 / (id - id) > 0")


def test_what_a_trigger_raises_is_not_an_outage(postgres: Ground) -> None:
    postgres.make(1)
    postgres.say("CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''not today''; END'")
    postgres.say("CREATE TRIGGER no BEFORE UPDATE ON pastes FOR EACH ROW EXECUTE FUNCTION no()")

    async def act(table: Table) -> None:
        with pytest.raises(HoldfastError, match=r"rows pastes: claim: .*not today") as caught:
            await table.claim("", 1)
        assert not isinstance(caught.value, StoreUnavailable)

    postgres.play(act)


def test_a_database_that_cannot_be_written_to_at_the_moment_is_an_outage(postgres: Ground) -> None:
    postgres.make(1)
    postgres.say(f"ALTER DATABASE {postgres.place.rpartition('/')[2]} SET default_transaction_read_only = on")

    async def act(table: Table) -> None:
        with pytest.raises(StoreUnavailable, match="is read-only"):
            await table.inspect()
        with pytest.raises(StoreUnavailable, match="is read-only"):
            await table.claim("", 1)

    postgres.play(act)


def test_a_database_that_is_away_is_an_outage(postgres: Ground) -> None:
    async def act() -> None:
        table = Ground("postgres", "postgresql://postgres@127.0.0.1:1/none").open(watch())
        for ask in (table.inspect, table.has_due, table.states):
            with pytest.raises(StoreUnavailable, match="cannot be reached"):
                await ask()

    postgres.run(act)


def test_a_reason_is_cut_to_what_its_column_holds(postgres: Ground) -> None:
    postgres.make(1, more=", why varchar(5)")

    async def act(table: Table) -> None:
        mark = (await table.claim("", 9)).fence
        assert await table.move(mark, [(1,)], RowOutcome.FAIL, "a long story") == [(1,)]
        assert postgres.say("SELECT why FROM pastes") == [("a lon",)]

    postgres.play(act, **{**ENDING, "reason": "why"})


def test_a_table_that_is_altered_at_run_time_stays_watched(postgres: Ground) -> None:
    postgres.make(3)

    async def act(table: Table) -> None:
        await table.claim("", 1)
        postgres.say("ALTER TABLE pastes ADD COLUMN more int")
        assert "more" in (await table.claim("", 1)).rows[0]
        postgres.say("DROP TABLE pastes")
        with pytest.raises(ConfigurationError, match="has changed since it was inspected"):
            await table.has_due()

    postgres.play(act)


def test_no_watch_is_opened_on_what_has_no_tables() -> None:
    with pytest.raises(ConfigurationError, match="memory:// has no tables"):
        Ground("memory", "memory://").open(watch())


@pytest.mark.parametrize(
    ("actions", "deletes", "is_fine"), [("update", False, False), ("delete", False, True), ("delete", True, False)]
)
def test_a_published_table_without_identity_is_refused(postgres: Ground, actions: str, deletes: bool, is_fine: bool) -> None:
    postgres.make(1, key="id int NOT NULL UNIQUE")
    assert inspected(postgres, deletes=deletes).problems == ()
    postgres.say(f"CREATE PUBLICATION of_all FOR ALL TABLES WITH (publish = '{actions}')")
    problems = inspected(postgres, deletes=deletes).problems
    assert [("of_all" in problem, "ALTER TABLE pastes REPLICA IDENTITY FULL" in problem) for problem in problems] == (
        [] if is_fine else [(True, True)]
    )
    for identity in ("FULL", "USING INDEX pastes_id_key"):
        postgres.say(f"ALTER TABLE pastes REPLICA IDENTITY {identity}")
        assert inspected(postgres, deletes=deletes).problems == ()
    postgres.say("ALTER TABLE pastes REPLICA IDENTITY NOTHING")
    assert len(inspected(postgres, deletes=deletes).problems) == (not is_fine)


def test_a_publication_of_inserts_refuses_nothing(postgres: Ground) -> None:
    postgres.make(key="id int NOT NULL UNIQUE")
    postgres.say("CREATE PUBLICATION of_all FOR ALL TABLES WITH (publish = 'insert')")
    assert inspected(postgres, deletes=True).problems == ()


def test_a_publication_of_a_namesake_refuses_nothing(postgres: Ground) -> None:
    postgres.make(key="id int NOT NULL UNIQUE")
    postgres.say("CREATE SCHEMA namesakes")
    postgres.say("CREATE TABLE namesakes.pastes (id int PRIMARY KEY)")
    postgres.say("CREATE PUBLICATION of_it FOR TABLE namesakes.pastes")
    assert inspected(postgres).problems == ()


def test_a_primary_key_that_is_deferrable_is_not_an_identity(postgres: Ground) -> None:
    postgres.make(key="id int PRIMARY KEY DEFERRABLE, other int UNIQUE")
    postgres.say("CREATE PUBLICATION of_it FOR TABLE pastes")
    assert "of_it" in next(problem for problem in inspected(postgres).problems if "identity" in problem)


def test_a_partition_of_a_published_table_needs_an_identity(postgres: Ground) -> None:
    postgres.say(
        "CREATE TABLE pastes (id int NOT NULL, status text NOT NULL, claimed_at timestamptz, is_due bool NOT NULL) PARTITION BY LIST (id)"
    )
    postgres.say("CREATE TABLE first_pastes PARTITION OF pastes FOR VALUES IN (1)")
    postgres.say("CREATE UNIQUE INDEX named ON pastes (id)")
    postgres.say("CREATE TABLE bystander (id int)")
    for root in ("true", "false"):
        postgres.say(f"CREATE PUBLICATION of_it FOR TABLE pastes, bystander WITH (publish_via_partition_root = {root})")
        assert "first_pastes belongs to publication of_it" in the_problem(postgres)
        postgres.say("DROP PUBLICATION of_it")
    postgres.say("CREATE PUBLICATION of_it FOR TABLE bystander")
    assert inspected(postgres).problems == ()


def test_a_publication_that_comes_later_is_not_an_outage(postgres: Ground) -> None:
    postgres.make(1, key="id int NOT NULL UNIQUE")

    async def act(table: Table) -> None:
        assert (await table.inspect()).problems == ()
        postgres.say("CREATE PUBLICATION of_all FOR ALL TABLES")
        with pytest.raises(ConfigurationError, match=r"replica identity.*`holdfast check`"):
            await table.claim("", 9)

    postgres.play(act)
