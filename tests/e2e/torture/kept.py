"""What is kept of a round that went wrong: its database, and all that this does not say."""

from pathlib import Path
from uuid import UUID

import msgspec
from msgspec import Struct

from holdfast.testing.history import History
from holdfast.testing.servers import PostgresServer
from proof.checker.checker import check
from proof.checker.verdicts import Rules
from tests.e2e.random_operators import amend
from tests.e2e.records import record_of

NAME, DATA = "kept.json", "data"
STEP = 0.1
"""Seconds by which a server's clock may step."""
WAKING = 1.0
"""Seconds in which a process that wakes, or its guard, gets its turn on a machine with more to do than cores."""


class Kept(Struct, frozen=True):
    """``url``: of the database while it was in use. ``retried`` and ``deleted``: by an operator."""

    store: str
    seed: int
    url: str
    bound: float
    retried: set[UUID]
    deleted: set[UUID]

    def save(self, folder: Path) -> None:
        """Save it for a later look."""
        (folder / NAME).write_bytes(msgspec.json.format(msgspec.json.encode(self)))

    def history(self, folder: Path, url: str = "") -> History:
        """What happened; ``url``: where the database is now."""
        return amend(record_of(url or f"sqlite:///{folder}/jobs.db", folder).read(), retried=self.retried, deleted=self.deleted)

    @property
    def rules(self) -> Rules:
        """What its history promises."""
        return Rules(bound=self.bound, step=STEP, waking=WAKING)


def look(folder: Path) -> str:
    """Judge it again; the stories of what is wrong."""
    kept = msgspec.json.decode((folder / NAME).read_bytes(), type=Kept)
    if not kept.url:
        return _explain(kept, kept.history(folder))
    with PostgresServer(data=folder / DATA, settings={"wal_level": "logical"}) as server:
        return _explain(kept, kept.history(folder, server.dsn(kept.url.rpartition("/")[2])))


def _explain(kept: Kept, history: History) -> str:
    return f"{len(history)} events: {check(history, kept.rules).explain(history) or 'nothing is wrong'}"
