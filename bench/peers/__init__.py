"""The libraries that are measured: one file each, all with the verbs of ``Peer``."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, Self

from msgspec import Struct

BULK = 1000
"""Jobs in one call of a bulk enqueue, where there is such a call."""


class Place(Struct, frozen=True):
    """Where a peer's jobs are: files of that name in the folder, or the database at ``url``, which is its own."""

    folder: Path
    name: str
    url: str = ""

    def file(self, suffix: str) -> Path:
        """Return the path of one of its files."""
        return self.folder / f"{self.name}{suffix}"

    def clear(self) -> None:
        """Delete all of its files."""
        for each in self.folder.glob(f"{self.name}.*"):
            each.unlink()


class Command(Struct, frozen=True):
    """How a worker process is started; it runs with the repository's root as its folder."""

    arguments: list[str]
    environment: dict[str, str]


class Peer(Protocol):
    """One library at its best settings that lose nothing, in a separate database.

    Payloads are ``{"n": i}``. A job counts as enqueued when its store has it on disk, and as run when its store knows.
    """

    name: str
    place: Place

    @classmethod
    def settings(cls) -> str:
        """Version and settings, for the reader."""
        ...

    @classmethod
    async def on(cls, place: Place) -> Self:
        """Ready to be timed: what it keeps jobs in is open and warm."""
        ...

    async def enqueue_one_by_one(self, count: int) -> None:
        """Enqueue from one caller; each call returns before the next begins."""
        ...

    async def close(self) -> None:
        """Close its connections and files."""
        ...


class Runner(Protocol):
    """What runs jobs that are enqueued elsewhere."""

    name: str
    place: Place

    def worker(self, reports: Path | None = None) -> Command:
        """Start one worker process; ``ping`` handlers append their latencies, in seconds, to the lines of ``reports``."""
        ...

    async def ping(self) -> None:
        """Enqueue a job whose handler reports how long ago this was."""
        ...

    def waiting(self) -> int:
        """Return how many jobs a worker will run."""
        ...

    def first(self) -> object:
        """Return which job a worker will run first."""
        ...

    def has_begun(self, first: object) -> bool:
        """Return whether that job waits no more."""
        ...

    def is_drained(self) -> bool:
        """Return whether all jobs have run, and the store knows."""
        ...


class Queue(Peer, Runner, Protocol):
    """A peer that runs jobs, too. ``share``: of the jobs the others get, for one that would take minutes."""

    share: float

    async def enqueue_together(self, count: int, callers: int) -> None:
        """Enqueue from ``callers`` callers at once, each one by one."""
        ...

    async def enqueue_in_bulk(self, count: int) -> None:
        """Enqueue as fast as the library takes many jobs of one caller."""
        ...
