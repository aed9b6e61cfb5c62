"""A library of Node.js on MongoDB; what it does is in ``bench/mongo/node``."""

from __future__ import annotations

import os
import subprocess

from bench.mongo.npm import FOLDER
from bench.peers_torture.contestants import CONCURRENCY, Order

LOCK_LIFETIMES = {"lock of 30 s": 30_000}


def enqueue(module: str, order: Order, count: int) -> None:
    """Enqueue in a process of Node.js."""
    subprocess.run([*_words(module, "enqueue", order), str(count)], check=True)


def work(module: str, order: Order) -> None:
    """Become a worker of Node.js."""
    words = [*_words(module, "work", order), str(CONCURRENCY), str(LOCK_LIFETIMES.get(order.setting, 0))]
    os.execvp(words[0], words)


def _words(module: str, verb: str, order: Order) -> list[str]:
    return ["node", str(FOLDER / "torture.js"), module, verb, order.url]
