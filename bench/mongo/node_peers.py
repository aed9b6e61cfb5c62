"""Queues of Node.js on MongoDB: their packages, a process that calls them, and their workers."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any, Self

from msgspec import Struct

from bench.mongo.npm import FOLDER, versions
from bench.mongo.site import Site
from bench.peers import Command, Place


class Kind(Struct, frozen=True):
    """A library. ``pending``: what the documents have of which no worker has reported the end; ``untouched``: those it has not begun."""

    name: str
    module: str
    packages: tuple[str, ...]
    collection: str
    pending: dict[str, Any]
    untouched: dict[str, Any]
    listens: bool = False
    """It learns of new jobs by a change stream."""


_LIKE_AGENDA: dict[str, Any] = {"pending": {"lastFinishedAt": None}, "untouched": {"lastFinishedAt": None, "lockedAt": None}}
_AGENDA = ("agenda", "@agendajs/mongo-backend", "mongodb")
KINDS = (
    Kind("agenda", "agenda", _AGENDA, "agendaJobs", **_LIKE_AGENDA),
    Kind("agenda, changes", "agenda", _AGENDA, "agendaJobs", **_LIKE_AGENDA, listens=True),
    Kind("mongodb-queue", "mongodb-queue", ("mongodb-queue", "mongodb3"), "queue", {"deleted": None}, {"ack": None}),
)


class NodePeer:
    """A library in a fresh database."""

    def __init__(self, site: Site, kind: Kind, place: Place, slots: int) -> None:
        self.kind, self.name, self.place, self._slots = kind, kind.name, place, slots
        self._documents = site.database(place)[kind.collection]
        self._caller: asyncio.subprocess.Process | None = None

    @classmethod
    async def at(cls, site: Site, kind: Kind, *, slots: int = 100) -> Self:
        """Open it in a fresh database."""
        peer = cls(site, kind, site.place(kind.module), slots)
        words = ("node", "peer.js", kind.module, "call", peer.place.url)
        pipe = asyncio.subprocess.PIPE
        peer._caller = await asyncio.create_subprocess_exec(*words, cwd=FOLDER, stdin=pipe, stdout=pipe)
        await peer._answer()
        await peer._call(act="enqueue", count=50, callers=1)  # warm
        return peer

    @classmethod
    def settings_of(cls, kind: Kind) -> str:
        """Return versions and settings."""
        words = ["node", "peer.js", kind.module, "settings"]
        found = subprocess.run(words, cwd=FOLDER, capture_output=True, text=True, check=True).stdout.strip()
        return f"{versions(kind.packages)}; {found}"

    async def enqueue_rate(self, count: int, callers: int) -> float:
        """Return the jobs a second that callers enqueue, each one by one."""
        return float(count / (await self._call(act="enqueue", count=count, callers=callers))["seconds"])

    async def ping(self) -> None:
        await self._call(act="ping")

    def worker(self, reports: Path | None = None) -> Command:
        words = ["node", str(FOLDER / "peer.js"), self.kind.module, "work", self.place.url, str(self._slots), str(reports)]
        return Command(words, {"BENCH_CHANGES": "1" if self.kind.listens else ""})

    def waiting(self) -> int:
        return int(self._documents.count_documents(self.kind.pending))

    def first(self) -> object:
        """Return the number of jobs that no worker has begun, because their order is not known."""
        return self._documents.count_documents(self.kind.untouched)

    def has_begun(self, first: object) -> bool:
        return bool(self._documents.count_documents(self.kind.untouched) != first)

    def is_drained(self) -> bool:
        return self._documents.find_one(self.kind.pending, sort=[("$natural", -1)]) is None  # the last ones end last

    async def close(self) -> None:
        if self._caller is not None and self._caller.stdin is not None:
            self._caller.stdin.close()
            await self._caller.wait()

    async def _call(self, **order: object) -> dict[str, Any]:
        assert self._caller is not None
        assert self._caller.stdin is not None
        self._caller.stdin.write(json.dumps(order).encode() + b"\n")
        return await self._answer()

    async def _answer(self) -> dict[str, Any]:
        assert self._caller is not None
        assert self._caller.stdout is not None
        line = await asyncio.wait_for(self._caller.stdout.readline(), 120)
        found: dict[str, Any] = json.loads(line)
        return found
