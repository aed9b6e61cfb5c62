"""The driver: inserts of Holdfast's documents into its collection, and the commands of a claim and a settle without its code."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, Self
from uuid import UUID, uuid4

from pymongo import AsyncMongoClient, WriteConcern

from bench.figures import rate_of
from bench.mongo.ours import HoldfastOnMongo
from bench.mongo.site import Document, Site
from holdfast._core.job import NewJob
from holdfast._core.policy import Policy
from holdfast._core.record import new_record
from holdfast.stores.mongo.documents import job_document

DURABLE = {"w": "majority", "j": True}


def document_of(job: NewJob, now: datetime) -> Document:
    """Return the document of a job that is enqueued now, in a separate call."""
    return {**job_document(new_record(job, now), None, None), "call": uuid4()}


class Raw:
    """One client of a database that Holdfast has migrated."""

    def __init__(self, ours: HoldfastOnMongo, client: AsyncMongoClient[Document], name: str) -> None:
        self._ours, self._client, self._database = ours, client, client[name]
        self._jobs = self._database.get_collection("holdfast.jobs", write_concern=WriteConcern("majority", j=True))
        job = NewJob(id=uuid4(), payload=b'{"n":0}', task="noop", policy=Policy())
        self._template = document_of(job, datetime.now(UTC))

    @classmethod
    async def at(cls, site: Site) -> Self:
        """Open a fresh database with Holdfast's collections and indexes."""
        ours = await HoldfastOnMongo.at(site, "raw")
        client: AsyncMongoClient[Document] = AsyncMongoClient(ours.place.url, uuidRepresentation="standard", tz_aware=True)
        await client.admin.command("ping")
        return cls(ours, client, site.database(ours.place).name)

    async def close(self) -> None:
        await self._client.close()
        await self._ours.close()

    async def enqueue_rate(self, count: int, callers: int) -> float:
        """Return the ``insert_one`` a second."""

        async def call() -> None:
            for _ in range(count // callers):
                await self._jobs.insert_one(self._document(is_first=True))

        return await rate_of(count, _gather(callers, call))

    async def enqueue_batches(self, count: int, size: int) -> float:
        """Return the documents a second of ``insert_many``."""

        async def act() -> None:
            for start in range(0, count, size):
                await self._jobs.insert_many([self._document(is_first=not n) for n in range(min(size, count - start))])

        return await rate_of(count, act())

    async def drain_rate(self, count: int, limit: int) -> float:
        """Return the jobs a second that are claimed and settled by five commands for each ``limit`` of them."""
        return await rate_of(count, self._drain(limit))

    async def _drain(self, limit: int) -> None:
        lease, line = uuid4(), self._template["line"]
        await self._database["holdfast.leases"].insert_one({"_id": lease})
        while ids := await self._claim(lease, line, limit):
            await self._settle(lease, ids)

    async def _claim(self, lease: UUID, line: str, limit: int) -> list[UUID]:
        claim, jobs = uuid4(), self._database["holdfast.jobs"]
        due = {"line": line, "available_at": {"$lte": datetime.now(UTC)}}
        picked = jobs.find(due, {"_id": 1}, sort=[("available_at", 1), ("_id", 1)], limit=limit, hint="waiting")
        ids = [each["_id"] for each in await picked.to_list()]
        if not ids:
            return []
        base = (await self._reserve(len(ids)))["number"] - len(ids)
        fields = {
            "claim": claim,
            "lease": lease,
            "active": lease,
            "worker": "bare",
            "state": "running",
            "number": {"$add": [base, 1, {"$indexOfArray": [{"$literal": ids}, "$_id"]}]},
            "claimed_at": "$$NOW",
            "started_at": "$$NOW",
            "attempt": {"$add": ["$attempt", 1]},
        }
        await self._update({"_id": {"$in": ids}, "line": line}, [{"$set": fields}, {"$unset": ["line", "expiring"]}])
        mine = {"$unionWith": {"coll": "holdfast.jobs", "pipeline": [{"$match": {"active": lease, "claim": claim}}]}}
        found = await self._database["holdfast.leases"].aggregate([{"$match": {"_id": lease}}, mine])
        return [each["_id"] for each in await found.to_list() if "state" in each]

    async def _settle(self, lease: UUID, ids: list[UUID]) -> None:
        fields = {"state": "completed", "finished_at": "$$NOW", "prune_at": "$$NOW", "result": "null"}
        await self._update({"_id": {"$in": ids}, "active": lease}, [{"$set": fields}, {"$unset": ["lease", "active"]}])

    async def _reserve(self, number: int) -> Document:
        change = {"query": {"_id": "claims"}, "update": {"$inc": {"number": number}}, "new": True, "writeConcern": {"w": 1}}
        found: Document = (await self._database.command({"findAndModify": "holdfast.state", **change}))["value"]
        return found

    async def _update(self, which: Document, change: list[Document]) -> None:
        statement = {"q": which, "u": change, "multi": True}
        command = {"update": "holdfast.jobs", "updates": [statement], "writeConcern": DURABLE}
        await self._database.command(command, codec_options=self._database.codec_options)

    def _document(self, *, is_first: bool) -> Document:
        document = {**self._template, "_id": uuid4(), "call": uuid4()}
        if not is_first:
            del document["call"]
        return document


async def _gather(callers: int, call: Any) -> None:
    await asyncio.gather(*(call() for _ in range(callers)))
