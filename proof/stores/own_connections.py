"""The users' own table in a file of jobs, and the connections by which handlers write to it.

A trigger logs each row in the transaction that writes it, beside the changes of jobs: the log has the order of the commits.
"""

from pathlib import Path
from typing import Any
from uuid import UUID

from holdfast._core.job import Token
from holdfast._ports.host import Exit
from holdfast.databases.sqlite import driver
from proof.simulator.loop import Process

TABLE = (
    "CREATE TABLE bookings (job BLOB NOT NULL, attempt INTEGER NOT NULL, claim_id BLOB NOT NULL, claim_number INTEGER NOT NULL)",
    """
    CREATE TRIGGER history_bookings AFTER INSERT ON bookings
    BEGIN
        INSERT INTO history (time, what, id, after) VALUES (0, 'own_row', NEW.job, hex(NEW.claim_id) || ' ' || NEW.claim_number);
    END
    """,
)
_INSERT = "INSERT INTO bookings (job, attempt, claim_id, claim_number) VALUES (?, ?, ?, ?)"


class OwnConnections:
    """The handlers' own connections to one file. The library is that of the store: two in one process would damage the file."""

    def __init__(self, path: Path) -> None:
        self._path, self._opened = path, list[driver.Connection]()

    def open(self, process: Process) -> Any:
        """Open a connection of a process. The end of the process rolls back what it has not committed, as the system does."""
        connection = driver.connect(self._path, use_apsw=driver.is_apsw())
        self._opened.append(connection)
        process.on_exit.append(lambda how: _abandon(connection, how))
        return driver.owned(connection)

    def close(self) -> None:
        """Close all of them."""
        for connection in self._opened:
            connection.close()


def insert(connection: Any, job: UUID, attempt: int, token: Token) -> None:
    """Write the row of an attempt."""
    assert token.claim is not None
    connection.execute(_INSERT, (job.bytes, attempt, token.claim.bytes, token.number))


def token_of(text: str) -> Token:
    """Return the token of a row, as its trigger has logged it."""
    claim, _, number = text.partition(" ")
    return Token(UUID(claim), int(number))


def _abandon(connection: driver.Connection, how: Exit) -> None:
    del how
    if connection.in_transaction:
        connection.execute("ROLLBACK")
