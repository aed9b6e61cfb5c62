"""asyncpg itself: the same row, on disk, with nothing around it. What the driver of a queue costs is measured against this."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Self

import asyncpg

from bench.peers import Place
from bench.peers.pgqueuer_tasks import payload_of
from holdfast import App
from holdfast._system.clock import SystemRandomness

WARM_UP = 50
INSERT = """
INSERT INTO holdfast.pending (id, task, queue, priority, available_at, created_at, policy, payload)
VALUES ($1, 'noop', 'default', 0, clock_timestamp(), clock_timestamp(), '{}', $2)
"""


class RawPostgres:
    """One prepared INSERT after the other on one connection, each awaited."""

    name = "raw"

    def __init__(self, place: Place, connection: asyncpg.Connection, insert: Any) -> None:
        self.place = place
        self._connection = connection
        self._insert = insert
        self._chance = SystemRandomness()

    @classmethod
    def settings(cls) -> str:
        return f"asyncpg {version('asyncpg')}; one prepared INSERT per commit into Holdfast's table, and no receipt"

    @classmethod
    async def on(cls, place: Place) -> Self:
        app = App(place.url)
        await app.amigrate()
        await app.aclose()
        connection = await asyncpg.connect(place.url)
        peer = cls(place, connection, await connection.prepare(INSERT))
        await peer.enqueue_one_by_one(WARM_UP)
        return peer

    async def enqueue_one_by_one(self, count: int) -> None:
        for n in range(count):
            await self._insert.fetch(self._chance.uuid7(), payload_of(n))

    async def close(self) -> None:
        await self._connection.close()
