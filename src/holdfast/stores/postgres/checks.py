"""The checks of a PostgreSQL store: server, load, clock, schema, tables."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from asyncpg import Connection

from holdfast._core.answers import Check
from holdfast._core.policy import RETENTION_FLOOR
from holdfast._core.release import UPGRADE
from holdfast.databases.postgres.errors import MIGRATE
from holdfast.errors import SchemaMissing, SchemaTooNew
from holdfast.stores.postgres import objects, schema
from holdfast.stores.postgres.records import Row

LONG: Final = 300.0
LATE: Final = 3600.0
BEHIND: Final = 60.0
STEP: Final = 60.0
APART: Final = 5.0
SPARE: Final = 10
MOST: Final = 10_001
DAYS_AHEAD: Final = 8

_BREAKS: Final = "without it a crash of the machine damages the database"
_RELOAD: Final = "`SELECT pg_reload_conf()`"


async def check(link: Connection, name: str, public: str, sql: Callable[[str], str], wall: Callable[[], float]) -> list[Check]:
    """Return all findings; a missing schema is one of them, and is not created. ``wall``: the clock of this machine."""
    sent = wall()
    (server,) = await link.fetch(sql("server_facts"), name)
    found = [*_of_server(server), *_of_load(server, name), _of_clock(server["now"] / 1e6 - (sent + wall()) / 2)]
    version = await schema.version_of(link, name)
    try:
        schema.require(version, name, public)
    except SchemaMissing as error:
        return [*found, Check("error", "schema", str(error).removesuffix(f": {MIGRATE}"), MIGRATE)]
    except SchemaTooNew as error:
        return [*found, Check("error", "schema", str(error), UPGRADE)]
    found.append(Check("ok", "schema", f"version {version} of {schema.VERSION}"))
    relations = await link.fetch(sql("relations"), name)
    found += objects.judge(name, relations, await link.fetch(sql("functions"), name), user=server["user"])
    if any(each.level == "error" and each.name in ("schema", "rights") for each in found):
        return found
    (tables,) = await link.fetch(sql("store_facts"), round(RETENTION_FLOOR * 1e6), round(LATE * 1e6), MOST)
    return [*found, *_of_tables(tables)]


def may_be_written(found: Sequence[Check]) -> bool:
    """Return whether a job can be tried out: the schema exists, and neither the server nor the user is read-only."""
    return {"schema", "read-only"}.isdisjoint(each.name for each in found if each.level == "error") and not any(
        each.name == "rights" and each.level == "warning" for each in found
    )


def _of_server(server: Row) -> Iterator[Check]:
    yield Check("ok", "postgres", f"PostgreSQL {server['version']}")
    if server["is_standby"]:
        remedy = "name the primary, or all servers: postgresql://user@one,two/database"
        yield Check("error", "read-only", "this server is a standby, and nothing can be written", remedy)
    elif server["is_read_only"]:
        message = f"transactions are read-only by default ({server['read_only_by']}), and nothing can be written"
        yield Check("error", "read-only", message, _writable(server))
    for name, is_on in (("fsync", server["has_fsync"]), ("full_page_writes", server["has_full_pages"])):
        if not is_on:
            remedy = f"`ALTER SYSTEM SET {name} = on`, then {_RELOAD}: {_BREAKS}"
            yield Check("warning", "durability", f"{name} is off", remedy)
    if server["synchronous_commit"] == "off":
        message = "synchronous_commit is off by default; holdfast raises it for its own commits"
        yield Check("warning", "durability", message, "turn it on where your own rows belong to a job")
    elif server["has_fsync"] and server["has_full_pages"]:
        yield Check("ok", "durability", f"synchronous_commit {server['synchronous_commit']}: a commit survives a power failure")
    if server["is_standby_missing"]:
        message = "synchronous_standby_names is set, and no such standby is connected: commits wait for one"
        yield Check("warning", "replication", message, "start the standby, or remove it from synchronous_standby_names")
    if (server["lag"] or 0.0) > BEHIND:
        message = f"a standby is {server['lag']:.0f} s behind: a fail-over to it would forget as much"
        yield Check("warning", "replication", message, "see what keeps it: its disk, the network, a long query on it")


def _writable(server: Row) -> str:
    """Return what makes transactions writable again, by where the setting comes from. A session that is read-only may run it too."""
    user, database = server["user"], server["database"]
    of = {"database": f"DATABASE {database}", "user": f"ROLE {user}", "database user": f"ROLE {user} IN DATABASE {database}"}
    if (what := of.get(server["read_only_by"])) is not None:
        return f"`BEGIN READ WRITE; ALTER {what} RESET default_transaction_read_only; COMMIT`"
    if server["read_only_by"] in ("client", "session"):
        return "leave default_transaction_read_only out of the options of the URL"
    return "`ALTER SYSTEM SET default_transaction_read_only = off`, then " + _RELOAD


def _of_load(server: Row, name: str) -> Iterator[Check]:
    if (server["oldest"] or 0.0) > LONG:
        message = f"a transaction is open for {server['oldest'] / 60:.0f} min ({server['whose']}): dead rows pile up behind it"
        remedy = f"`SELECT pg_terminate_backend({server['pid']})` ends it; set idle_in_transaction_session_timeout for its role"
        yield Check("warning", "transactions", message, remedy)
    if (server["oldest_prepared"] or 0.0) > LONG:
        message = f"a prepared transaction is {server['oldest_prepared'] / 60:.0f} min old: dead rows pile up behind it"
        yield Check("warning", "transactions", message, "COMMIT PREPARED or ROLLBACK PREPARED it: see pg_prepared_xacts")
    if not server["has_autovacuum"]:
        remedy = f"`ALTER SYSTEM SET autovacuum = on`, `ALTER SYSTEM SET track_counts = on`, then {_RELOAD}"
        yield Check("error", "autovacuum", "autovacuum is off: the tables grow without limit", remedy)
    if server["unvacuumed"]:
        tables = server["unvacuumed"]
        remedy = f"`{'; '.join(f'ALTER TABLE {name}.{table} RESET (autovacuum_enabled)' for table in tables)}`"
        yield Check("error", "autovacuum", f"autovacuum is off for {', '.join(tables)}", remedy)
    if server["dead"]:
        remedy = "see what keeps autovacuum from it: a long transaction, a replication slot, too few autovacuum workers"
        yield Check("warning", "dead rows", f"more dead rows than living ones: {server['dead']}", remedy)
    if server["connections"] > server["most"] - SPARE:
        message = f"{server['connections']} of {server['most']} connections are taken"
        yield Check("warning", "connections", message, "raise max_connections, or put a pooler in between (?pooler=transaction)")


def _of_clock(ahead: float) -> Check:
    if abs(ahead) <= APART:
        return Check("ok", "clock", "the server's clock agrees with ours")
    message = f"the server's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} ours"
    return Check("warning", "clock", message, "keep both in step (NTP); jobs go by the server's")


def _of_tables(tables: Row) -> Iterator[Check]:
    if (tables["ahead"] or 0.0) > STEP:
        message = f"the tables speak of a time {tables['ahead']:.0f} s from now: the server's clock was set back, or was wrong"
        yield Check("warning", "clock", message, "keep it in step (NTP); leases, delays and retention go by it")
    if tables["forgettable"] or tables["has_old_receipts"] or tables["past_partitions"]:
        many = f"{MOST - 1:,} or more" if tables["forgettable"] == MOST else f"{tables['forgettable']}"
        what = f"{many} finished jobs" if tables["forgettable"] else "receipts of calls, or whole days of finished jobs,"
        message = f"{what} should have been forgotten for more than {LATE / 3600:.0f} h"
        yield Check("warning", "pruning", message, "keep a worker running, or run `holdfast prune`")
    if (tables["days_ahead"] or 0) < DAYS_AHEAD:
        message = f"there are partitions for the next {max(tables['days_ahead'] or 0, 0)} days only"
        yield Check("warning", "partitions", message, "keep a worker running, or run `holdfast prune`: it makes them ahead")
    else:
        yield Check("ok", "partitions", f"made for the next {tables['days_ahead']} days")
