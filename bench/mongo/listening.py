"""``python -m bench.mongo.listening URL COUNT``: that many transports that wait for hints, until the process is killed."""

from __future__ import annotations

import asyncio
import sys

from holdfast.opening import open_transport
from holdfast.settings import Settings

SETTLED = 1.0  # seconds until each has its cursor


async def listen(url: str, count: int) -> None:
    """Subscribe each on a separate connection, and wait."""
    for _ in range(count):
        await open_transport(Settings.of(url)).subscribe(lambda _: None)
    await asyncio.sleep(SETTLED)
    print("up", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(listen(sys.argv[1], int(sys.argv[2])))
