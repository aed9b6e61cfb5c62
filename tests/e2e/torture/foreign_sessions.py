"""Other users of the same database: sessions that lock rows, administrators, subscribers, and copies of the file."""

import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg

from holdfast.testing.servers import PostgresServer
from proof.checker import history_sqlite
from tests.e2e.torture.runner import Torturer

LOCKS = ("FOR KEY SHARE", "FOR SHARE", "FOR UPDATE")
TABLES = {"active": 3, "pending": 3, "leases": 1}
"""The tables in which a session locks rows, and the most rows in each."""
CANCELLATIONS = 5
PUBLICATION, SLOT = "everything", "torture"
WORKER = "torture_worker"
"""The PostgreSQL user of the workers: it may do what a worker needs and nothing else."""
COPIES_APART = 3


@contextmanager
def locked_rows(url: str, chance: random.Random, schema: str = "holdfast") -> Iterator[None]:
    """Hold locks on random rows of Holdfast in a transaction that does nothing else."""
    with closing(psycopg.connect(url)) as connection:
        for table, most in TABLES.items():
            how = chance.choice(LOCKS)
            asked = f"SELECT id FROM {schema}.{table} ORDER BY random() LIMIT {chance.randint(0, most)} {how} SKIP LOCKED"
            connection.execute(asked.encode())
        yield
        connection.rollback()


def cancel_statements(url: str, torturer: Torturer) -> None:
    """Cancel the statement of each session, a few times in a second, as an administrator may."""
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        for _ in range(CANCELLATIONS):
            connection.execute(
                b"SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
                b"WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active'"
            )
            torturer.pause(0.2)


@contextmanager
def subscribed(server: PostgresServer, url: str) -> Iterator[None]:
    """Publish all tables of the database to a logical subscriber that receives every change."""
    plugin = ("-o", "proto_version=1", "-o", f"publication_names={PUBLICATION}")
    words = [str(server.binaries / "pg_recvlogical"), "-d", url, "--slot", SLOT, "--start", *plugin, "-f", "/dev/null"]
    server.sql(
        f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES",
        f"SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput')",
        dsn=url,
    )
    subscriber = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
        assert subscriber.poll() is None, "the logical subscriber has ended"
    finally:
        subscriber.kill()
        subscriber.wait()


def copy_in_this_process(database: Path) -> None:
    """Copy the file in a process that has it open; the process loses its locks on it."""
    copy = database.with_suffix(".copy")
    shutil.copyfile(database, copy)
    copy.unlink()


def back_up(database: Path) -> None:
    """Copy the file as SQLite does, while others write, and check that the copy is complete."""
    copy = database.with_suffix(".backup")
    with history_sqlite.opened(database) as source:
        source.execute("VACUUM INTO ?", (str(copy),))
    with history_sqlite.opened(copy) as made:
        (answer,) = made.execute("PRAGMA integrity_check").fetchone()
    copy.unlink()
    assert answer == "ok", f"a copy of the file is not whole: {answer}"
