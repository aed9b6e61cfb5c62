"""The setting of a round of torture: what all stores have, and the times of faults."""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from uuid import UUID

from holdfast import App
from proof.checker import history_sqlite
from tests.e2e.machines import Machine
from tests.e2e.torture.runner import AMNESTY, RECOVERY, TTL, Torturer

OUTAGE = 4.5
"""The most seconds that a server, or a machine's way to it, is away: longer than a lease."""
MOMENT = 1.0
LOCKED = 1.5
"""The most seconds for which a foreign process locks a file."""
SLACK = 3.0
"""Seconds by which a loaded machine may be late."""
RUBBISH = (b"", b"\xff\xfe", b'{"seconds": ', b"[1]", b'{"seconds": "soon"}', b"{}", b'{"seconds": 1e999}')


class Grounds(ABC):
    """The setting of one round. ``bound``: seconds within which a dead owner's jobs are back in their queues. ``tolerated``: errors that
    this process may get too, because the store is away for longer than a call lasts."""

    url, transport, stamp, ttl = "", "", "text", TTL
    tolerated: tuple[type[Exception], ...] = ()
    bound = 1.001 * TTL + RECOVERY + AMNESTY + SLACK

    @property
    def peace(self) -> float:
        """Seconds in which each lease is watched and judged once."""
        return self.ttl + AMNESTY * self.ttl / TTL + RECOVERY + 2.0

    def machines(self, many: int) -> list[Machine]:
        """Return the machines of the first crews."""
        return [self.machine(f"web-{number + 1}") for number in range(many)]

    @abstractmethod
    def machine(self, name: str) -> Machine:
        """Make another machine for the round."""

    @abstractmethod
    def hurt(self, torturer: Torturer, chance: random.Random) -> float:
        """Inject one of its faults; return the seconds until the next."""

    @abstractmethod
    def say(self, *statements: str) -> list[str]:
        """Run statements as another user; return the lines that the last one answers."""

    @abstractmethod
    def spoil(self, jobs: Sequence[UUID]) -> None:
        """Make the payloads of these jobs invalid."""

    def lanes(self, torturer: Torturer, chance: random.Random) -> list[Callable[[], float]]:
        """Return the faults that are injected all the time."""

        def hurt_the_grounds() -> float:
            return self.hurt(torturer, chance)

        return [hurt_the_grounds]

    def watched(self, app: App) -> AbstractContextManager[None]:
        """Let other users work on the database while the round lasts; the schema must exist."""
        return nullcontext()

    def keep(self, folder: Path) -> None:
        """Keep the database in this folder after the round."""

    def wrong(self) -> list[str]:
        """Return what is wrong with the store after the round, and not visible in its history."""
        return []


def outage_length(chance: random.Random) -> float:
    """Return the most seconds of an outage: as often a moment as a time that leases may not outlast."""
    return chance.choice([MOMENT, OUTAGE])


def run_in_file(database: Path, *statements: str) -> list[str]:
    """Run statements on a SQLite file; return the lines that the last one answers."""
    with history_sqlite.opened(database) as connection:
        answers = [connection.execute(statement).fetchall() for statement in statements]
    return [str(value) for (value,) in answers[-1]]
