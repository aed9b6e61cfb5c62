"""The libraries, one file each, each run in a separate process: see ``bench.peers_torture.run``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from msgspec import Struct

CONCURRENCY = 10
"""Jobs at once in one worker, for all."""

SETTING = "PEERS_SETTING"
"""In the environment, for what is made before there is an order."""

_GAP = 0.3


def numbers(count: int) -> Iterator[int]:
    """Yield the jobs to enqueue, one after the other: of a heap, the worker that looks first would take everything."""
    for job in range(1, count + 1):
        yield job
        time.sleep(_GAP)


class Order(Struct, frozen=True):
    """What a process of a contestant is to know: where the jobs are, under which setting, and what the worker is called."""

    url: str
    setting: str
    worker: str
    journal: Path


class Contestant(Protocol):
    """The verbs that every file has; a worker works until it is killed."""

    def prepare(self, order: Order) -> None:
        """Make the tables of the library."""
        ...

    def enqueue(self, order: Order, count: int) -> None:
        """Enqueue jobs with these ``numbers``, each of which does ``journal.work``."""
        ...

    def work(self, order: Order) -> None:
        """Run as one worker."""
        ...
