"""The evidence of a round that broke a promise: its database, and what the database does not record."""

from pathlib import Path
from uuid import UUID

import msgspec
from msgspec import Struct

from holdfast.testing.servers import PostgresServer
from proof.checker.checker import check
from proof.checker.history import History
from proof.checker.verdicts import Rules
from tests.e2e.random_operators import amend
from tests.e2e.records import record_of

NAME, DATA = "kept.json", "data"
STEP = 0.1
"""Seconds by which a server's clock may step."""
WAKING = 1.0
"""Seconds in which a process that wakes, or its guard, gets the CPU on a machine with more work than cores."""


class Kept(Struct, frozen=True):
    """``url``: the address of the database during the round. ``retried`` and ``deleted``: jobs that an operator moved."""

    store: str
    seed: int
    url: str
    bound: float
    retried: set[UUID]
    deleted: set[UUID]

    def save(self, folder: Path) -> None:
        """Save the evidence for a later look."""
        (folder / NAME).write_bytes(msgspec.json.format(msgspec.json.encode(self)))

    def history(self, folder: Path, url: str = "") -> History:
        """Return the history; ``url``: where the database is now."""
        return amend(record_of(url or f"sqlite:///{folder}/jobs.db", folder).read(), retried=self.retried, deleted=self.deleted)

    @property
    def rules(self) -> Rules:
        """The rules for this history."""
        return Rules(
            bound=self.bound,
            step=STEP,
            waking=WAKING,
            has_lease_clock=not self.url.startswith("s3:"),
            confirms_claims=self.url.startswith("mongodb:"),
        )


def look(folder: Path) -> str:
    """Judge the round again, and return the stories of its violations."""
    kept = msgspec.json.decode((folder / NAME).read_bytes(), type=Kept)
    if not kept.url.startswith("postgres"):
        return _explain(kept, kept.history(folder, kept.url))
    with PostgresServer(data=folder / DATA, settings={"wal_level": "logical"}) as server:
        return _explain(kept, kept.history(folder, server.dsn(kept.url.rpartition("/")[2])))


def _explain(kept: Kept, history: History) -> str:
    return f"{len(history)} events: {check(history, kept.rules).explain(history) or 'nothing is wrong'}"
