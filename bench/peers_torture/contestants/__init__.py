"""The libraries, one file each, each run in a process of its own: see ``bench.peers_torture.run``."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from msgspec import Struct

CONCURRENCY = 10
"""Jobs at once in one worker, for all."""


class Order(Struct, frozen=True):
    """What a process of a contestant is to know: where the jobs are, under which setting, and what the worker is called."""

    url: str
    setting: str
    worker: str
    journal: Path


class Contestant(Protocol):
    """The verbs that every file has; a worker works until it is killed."""

    def prepare(self, order: Order) -> None:
        """Make its tables."""
        ...

    def enqueue(self, order: Order, count: int) -> None:
        """Jobs numbered from 1, each of which does ``journal.work``."""
        ...

    def work(self, order: Order) -> None:
        """Be one worker."""
        ...
