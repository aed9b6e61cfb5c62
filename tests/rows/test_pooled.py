"""Behind a pooler, and in databases whose users want other defaults."""

from collections.abc import Iterator

import pytest

from holdfast._core.table_spec import RowOutcome
from holdfast._ports.table import Table
from holdfast.testing.servers import PgBouncer, PostgresServer
from holdfast.testing.servers.pgbouncer import has_pgbouncer
from tests.rows.databases import OWNED, Ground
from tests.rows.test_types import through_everything, through_threads


@pytest.fixture(params=["serializable", *["pooled"] * has_pgbouncer()])
def other(request: pytest.FixtureRequest, postgres: Ground, postgres_server: PostgresServer) -> Iterator[Ground]:
    """Return the same database behind PgBouncer, where it is installed."""
    name = postgres.place.rpartition("/")[2]
    postgres.say(f"ALTER DATABASE {name} SET default_transaction_isolation = serializable")
    postgres.say(f"ALTER DATABASE {name} SET timezone = 'America/St_Johns'")
    if request.param == "serializable":
        yield postgres
        return
    with PgBouncer(postgres_server) as pooler:
        yield Ground("postgres", f"{pooler.through(postgres.place)}?pooler=transaction")


def test_every_verb_works(other: Ground, postgres: Ground) -> None:
    postgres.make(3, stamp="timestamp")

    async def act(table: Table) -> None:
        findings = await table.inspect()
        assert (findings.problems, len(findings.warnings)) == ((), 1)
        assert len(await table.create_indexes()) == 2
        await through_threads(table, ("id",))
        await through_everything(table, ("id",), count=3)
        postgres.say("UPDATE pastes SET status = 'NEW'")
        mark = (await table.claim("me", 9)).fence
        assert await table.renew(mark)
        assert await table.reset(9) == []
        ((age,),) = postgres.say("SELECT abs(extract(epoch FROM localtimestamp - max(claimed_at)))::float8 FROM pastes")
        assert age < 60
        postgres.age(where="id < 3")
        assert len(await table.reset(9)) == 2
        assert await table.move(mark, [(1,), (2,), (3,)], RowOutcome.DONE) == [(3,)]
        assert (await table.states()).rows == {"NEW": 2, "GONE": 1}

    other.play(act, order_by="id", **OWNED)
