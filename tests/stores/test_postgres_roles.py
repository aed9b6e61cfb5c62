"""Roles: what each may not do, and which users may create them. The contract tests what each role may do."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from holdfast._core.policy import Policy
from holdfast.cli.commands import root
from holdfast.errors import ConfigurationError
from holdfast.testing.contracts.scene import Scene, done, play, raised
from holdfast.testing.servers import PostgresServer
from tests.stores.postgres_databases import Home, Homes
from tests.stores.postgres_faulty_databases import store_at
from tests.stores.test_postgres_partitions import In, partitions

ROLES = ("enqueue", "work", "read", "own")
DAY = 86400.0


@pytest.fixture
def divided(homes: Homes) -> Home:
    """Return a database with roles, and with users ``a_enqueue`` and so on that have one role each."""
    return homes.empty("roles")


@pytest.fixture
def tenant(postgres_server: PostgresServer) -> Iterator[str]:
    """Return the address of a separate database for a user that is not a superuser but may create roles."""
    server = postgres_server
    dsn = server.create_database()
    name = f"{dsn.rpartition('/')[2]}_user"
    server.sql(f"CREATE ROLE {name} LOGIN CREATEROLE", f"ALTER DATABASE {dsn.rpartition('/')[2]} OWNER TO {name}")
    yield dsn.replace("//postgres@", f"//{name}@")
    server.drop_database(dsn)
    schema = schema_of(dsn)
    server.sql(*(f"DROP ROLE IF EXISTS {schema}_{role}" for role in ROLES), f"DROP ROLE {name}")


def schema_of(dsn: str) -> str:
    """Return a schema name that no other test uses, because roles belong to all databases of a server."""
    return dsn.rpartition("/")[2]


def asked(dsn: str, *verbs: str, schema: str | None = None) -> list[Any]:
    """Return the answers of a store to these verbs."""

    async def act() -> list[Any]:
        store = store_at(dsn, schema=schema or schema_of(dsn))
        try:
            return [await getattr(store, verb)() for verb in verbs]
        finally:
            await store.close()

    return asyncio.run(act())


def user(dsn: str) -> str:
    return dsn.split("//")[1].split("@")[0]


@pytest.mark.parametrize(
    ("role", "statement"),
    [
        ("enqueue", "SELECT payload FROM holdfast.pending"),
        ("enqueue", "SELECT payload FROM holdfast.payloads"),
        ("enqueue", "UPDATE holdfast.pending SET priority = 0"),
        ("enqueue", "DELETE FROM holdfast.pending"),
        ("enqueue", "SELECT holdfast.make_partitions(current_date)"),
        ("read", "INSERT INTO holdfast.queues VALUES ('q', now())"),
        ("read", "UPDATE holdfast.leases SET ended_at = now()"),
        ("read", "SELECT nextval('holdfast.claim_numbers')"),
        ("work", "DROP TABLE holdfast.pending"),
        ("work", "UPDATE holdfast.versions SET version = 0"),
        ("work", "UPDATE holdfast.partition_days SET last = first"),
        ("work", "CREATE TABLE holdfast.mine ()"),
    ],
)
def test_no_role_has_more_rights_than_it_needs(divided: Home, role: str, statement: str) -> None:
    with (
        psycopg.connect(divided.dsn.replace("//postgres@", f"//a_{role}@")) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(statement)


def test_a_missing_right_is_an_error_that_names_the_remedy(divided: Home) -> None:
    with pytest.raises(ConfigurationError, match="migrate --roles"):
        asked(divided.dsn.replace("//postgres@", "//a_enqueue@"), "counts", schema="holdfast")


def test_a_user_who_may_not_use_the_schema_is_an_error_that_names_the_remedy(divided: Home) -> None:
    divided.sql("REVOKE USAGE ON SCHEMA holdfast FROM holdfast_enqueue")
    try:
        with pytest.raises(ConfigurationError, match="permission denied for schema holdfast: use a role that may"):
            asked(divided.dsn.replace("//postgres@", "//a_enqueue@"), "counts", schema="holdfast")
    finally:
        divided.sql("GRANT USAGE ON SCHEMA holdfast TO holdfast_enqueue")


def test_every_role_may_use_partitions_made_later(divided: Home) -> None:
    async def act(at: Scene) -> None:
        at.advance(3 * DAY)
        await at.store.prune(10)
        job = at.new(queue="q")
        await at.enqueue(job)
        (claim,) = await at.claim(await at.lease(), policy=Policy(retention=8 * DAY))
        await at.settle(done(claim.job))
        (name,) = divided.sql("SELECT tableoid::regclass::text FROM holdfast.finished")[0]
        for role in ("read", "work"):
            with psycopg.connect(divided.dsn.replace("//postgres@", f"//a_{role}@")) as connection:
                assert connection.execute(f"SELECT count(*) FROM {name}").fetchone() == (1,)
                assert connection.execute("SELECT count(*) FROM holdfast.finished").fetchone() == (1,)

    play(In(divided), act)


def test_a_user_who_may_not_drop_a_partition_deletes_its_jobs(divided: Home) -> None:
    async def act(at: Scene) -> None:
        jobs = [at.new(queue="q", payload=payload) for payload in (b"{}", b"x" * 5000, b"{}")]
        await at.enqueue(*jobs)
        claims = await at.claim(await at.lease(), 3, policy=Policy(retention=2 * DAY))
        await at.settle(*(done(claim.job) for claim in claims))
        at.advance(4 * DAY)
        days = len(partitions(divided))
        assert [(await at.store.prune(2)).jobs for _ in range(3)] == [2, 1, 0]
        assert divided.sql("SELECT count(*) FROM holdfast.jobs UNION ALL SELECT count(*) FROM holdfast.payloads") == [(0,), (0,)]
        assert len(partitions(divided)) == days + 4
        owner = store_at(divided.dsn.replace("//postgres@", "//a_own@"))
        await owner.prune(2)
        await owner.close()
        assert len(partitions(divided)) < days + 4

    play(In(divided), act)


def test_pruned_jobs_are_counted_without_their_attempts(divided: Home) -> None:
    async def act(at: Scene) -> None:
        job = at.new(queue="q")
        await at.enqueue(job)
        for _ in range(3):
            (claim,) = await at.claim(await at.lease(), policy=Policy(retention=2 * DAY, max_attempts=5))
            await at.settle(raised(claim.job))
            at.advance(60.0)
        (claim,) = await at.claim(await at.lease(), policy=Policy(retention=2 * DAY))
        await at.settle(done(claim.job))
        at.advance(4 * DAY)
        pruned = await at.store.prune(100)
        assert (pruned.jobs, pruned.attempts) == (1, 4)

    play(In(divided), act)


def test_a_user_who_may_create_roles_creates_them_and_can_still_migrate(tenant: str) -> None:
    schema = schema_of(tenant)
    (_, first, again, migrated, _) = asked(tenant, "migrate", "create_roles", "create_roles", "migrate", "counts")
    assert first == again == tuple(f"{schema}_{role}" for role in ROLES)
    assert migrated[0] == migrated[1]
    with psycopg.connect(tenant) as connection:
        owners = connection.execute(
            "SELECT DISTINCT relowner::regrole::text FROM pg_class WHERE relnamespace = %s::regnamespace", [schema]
        ).fetchall()
    assert owners == [(f"{schema}_own",)]


def test_the_command_lists_the_roles_to_grant(tenant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "granted.py").write_text(f"import holdfast\napp = holdfast.App({tenant!r}, schema={schema_of(tenant)!r})\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    done = CliRunner().invoke(root, ["migrate", "granted:app", "--roles"])
    assert (done.exit_code, done.stderr) == (0, "")
    names = [f"{schema_of(tenant)}_{role}" for role in ROLES]
    example = f'in psql: GRANT {schema_of(tenant)}_work TO "USER"'
    assert done.stdout.splitlines()[1] == f"roles to grant to your users: {', '.join(names)}; {example}"


def test_a_user_without_the_right_to_create_roles_learns_how_to_get_them(tenant: str, postgres_server: PostgresServer) -> None:
    schema = schema_of(tenant)
    server = postgres_server
    server.sql(f"ALTER ROLE {user(tenant)} NOCREATEROLE")
    with pytest.raises(ConfigurationError, match=f"CREATEROLE.*CREATE ROLE {schema}_enqueue"):
        asked(tenant, "migrate", "create_roles")
    server.sql(*(f"CREATE ROLE {schema}_{role}" for role in ROLES), f"GRANT {schema}_own TO {user(tenant)}")
    assert asked(tenant, "create_roles") == [tuple(f"{schema}_{role}" for role in ROLES)]


def test_names_that_would_be_cut_are_refused(tenant: str) -> None:
    with pytest.raises(ConfigurationError, match="too long"):
        asked(tenant, "create_roles", schema="s" * 60)
