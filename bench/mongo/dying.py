"""``python -m bench.mongo.dying URL COUNT``: claim jobs, and end without a word to the store."""

from __future__ import annotations

import asyncio
import os
import sys

from bench.mongo.acts import claim_all, open_lease
from holdfast.opening import open_store
from holdfast.settings import Settings


async def die(url: str, count: int) -> None:
    """Claim the jobs under a lease of this process, then exit."""
    store = open_store(Settings.of(url))
    await claim_all(store, await open_lease(store, count, os.getpid()), count)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(die(sys.argv[1], int(sys.argv[2])))
