"""One process of a contestant: ``python -m bench.peers_torture.run PEER SETTING prepare|enqueue|work [COUNT]``."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from bench.peers_torture import journal
from bench.peers_torture.contestants import Contestant, Order

URL = "PEERS_URL"


def main(arguments: Sequence[str]) -> None:
    """Run one verb of one peer: only this process imports it, so that none disturbs another."""
    peer, setting, verb, *count = arguments
    contestant = cast(Contestant, importlib.import_module(f"bench.peers_torture.contestants.{peer.replace('-', '_')}"))
    order = Order(os.environ[URL], setting, os.environ[journal.WORKER], Path(os.environ[journal.FILE]))
    if verb == "prepare":
        contestant.prepare(order)
    elif verb == "enqueue":
        contestant.enqueue(order, int(count[0]))
    else:
        contestant.work(order)


if __name__ == "__main__":
    main(sys.argv[1:])
