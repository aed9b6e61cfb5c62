"""Ten million rows of a user's table, most of them done; and which of them are due, in progress, stuck, or old enough to delete.

Of a hundred rows five are due and one is later; of a thousand one is in progress, every second of those for too long. What is due
in the first eight tenths of the table became so in the order in which it lies there; in the rest, in no order: each of a batch's
rows is on a separate page.
"""

from __future__ import annotations

from bench.rows.site import Site
from bench.rows.tasks import WATCH
from holdfast._core.table_spec import TableSpec
from holdfast._ports.table import Table
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast._system.host import SystemHost
from holdfast.rows import open_table

BATCH = 1000
DUE_OF_ALL, ORDERED_OF_DUE = 0.05, 0.8

_TABLE = """
CREATE TABLE pastes (
    id {int} PRIMARY KEY, status text NOT NULL, claimed_at {stamp}, claimed_by text, resets int, content bigint NOT NULL,
    expires_at {stamp} NOT NULL
)
"""
_STATUS = "CASE WHEN n % 20 = 0 THEN 'LIVE' WHEN n % 100 = 1 THEN 'LIVE' WHEN n % 1000 = 3 THEN 'DELETING' ELSE 'DELETED' END"
# In seconds before now. Of what is done one in ten thousand is past its retention of thirty days.
_HELD = "CASE WHEN n % 20 = 0 OR n % 100 = 1 THEN NULL WHEN n % 2000 = 3 THEN 10000 WHEN n % 1000 = 3 THEN 60 "
_HELD += "WHEN n % 10000 = 7 THEN 3000000 ELSE 86400 + n % 1000000 END"
_DUE_FOR = "CASE WHEN n % 100 = 1 THEN -86400 - n % 86400 WHEN n <= {ordered} THEN 2000000 - n / 10.0 "
_DUE_FOR += "ELSE 10 + n * 7919 % 86399 END"
_FILL = {
    "postgres": """
        INSERT INTO pastes
        SELECT n, {status}, now() - ({held}) * interval '1 second', NULL, 0, n * 7919, now() - ({due_for}) * interval '1 second'
        FROM generate_series(1::bigint, ?) AS n
    """,
    "sqlite": """
        WITH RECURSIVE ns (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM ns WHERE n < ?)
        INSERT INTO pastes
        SELECT n, {status}, strftime('%Y-%m-%d %H:%M:%f', unixepoch() - ({held}), 'unixepoch') || '000', NULL, 0, n * 7919,
            strftime('%Y-%m-%d %H:%M:%f', unixepoch() - ({due_for}), 'unixepoch')
        FROM ns
    """,
}


def open_on(site: Site, *, owner: str | None = None) -> Table:
    """Open the table as a worker does, with everything for which there is an index."""
    watch = TableSpec.of("pastes", **WATCH, owner=owner, batch=BATCH, stale_after="2h", resets="resets", retention="30d")
    return open_table(site.url, watch, clock=SystemClock(), chance=SystemRandomness(), process=SystemHost().process())


def fill(site: Site, count: int) -> None:
    """Fill the table; autovacuum is off, and only the benchmark vacuums."""
    site.say(_TABLE)
    if site.kind == "postgres":
        site.say("ALTER TABLE pastes SET (autovacuum_enabled = false)")
    else:
        site.say("PRAGMA synchronous = OFF")
    ordered = round(count * ORDERED_OF_DUE)
    site.say(
        _FILL[site.kind]
        .replace("{status}", _STATUS)
        .replace("{held}", _HELD)
        .replace("{due_for}", _DUE_FOR.format(ordered=ordered)),
        count,
    )


def due_again(site: Site) -> None:
    """Make due again what was due at the beginning, and is done by now."""
    site.say("UPDATE pastes SET status = 'LIVE', claimed_at = NULL WHERE id % 20 = 0 AND status = 'DELETED'")
