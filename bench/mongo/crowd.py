"""What a drain may not be slowed down by: jobs that are not to be run now, and processes that only listen."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from pymongo import WriteConcern

from bench.figures import ROOT
from bench.mongo.ours import HoldfastOnMongo
from bench.mongo.raw import document_of
from bench.mongo.site import Document
from holdfast._core.job import NewJob
from holdfast._core.policy import Policy

BATCH = 5_000
PER_PROCESS = 8


async def add_others(ours: HoldfastOnMongo, count: int) -> None:
    """Write jobs in the proportions 3 : 1 : 1 : 3: waiting in another queue, due tomorrow, of an unknown task, finished."""
    kinds = [_waiting("elsewhere")] * 3 + [_later(), _waiting("default", task="unknown")] + [_finished()] * 3
    jobs = ours.jobs.with_options(write_concern=WriteConcern(1))
    for start in range(0, count, BATCH):
        some = range(start, min(start + BATCH, count))
        documents = [{**kinds[n % len(kinds)], "_id": uuid4(), "call": uuid4()} for n in some]
        await asyncio.to_thread(jobs.insert_many, documents, ordered=False)
    await asyncio.to_thread(ours.jobs.database.client.admin.command, "fsync")


def _waiting(queue: str, *, task: str = "other", at: datetime | None = None) -> Document:
    now = datetime.now(UTC)
    job = NewJob(id=uuid4(), payload=b'{"n":0}', task=task, queue=queue, policy=Policy())
    document = document_of(job, now)
    return document if at is None else {**document, "available_at": at}


def _later() -> Document:
    return _waiting("default", task="noop", at=datetime.now(UTC) + timedelta(days=1))


def _finished() -> Document:
    document: dict[str, Any] = _waiting("default", task="noop")
    del document["line"]
    now = datetime.now(UTC)
    done = {"state": "completed", "result": "null", "finished_at": now, "prune_at": now + timedelta(days=7), "attempt": 1}
    return {**document, **done, "claim": uuid4(), "claimed_at": now, "started_at": now, "worker": "host-1234-abcdef"}


@asynccontextmanager
async def listeners(url: str, count: int) -> AsyncIterator[None]:
    """Let as many transports listen, in processes of eight each, as idle workers do."""
    words = [sys.executable, "-m", "bench.mongo.listening", url]
    pipe = asyncio.subprocess.PIPE
    shares = [min(PER_PROCESS, count - start) for start in range(0, count, PER_PROCESS)]
    processes = [await asyncio.create_subprocess_exec(*words, str(each), cwd=ROOT, stdout=pipe) for each in shares]
    try:
        for each in processes:
            assert each.stdout is not None
            await asyncio.wait_for(each.stdout.readline(), 60)
        yield
    finally:
        for each in processes:
            each.kill()
            await each.wait()
