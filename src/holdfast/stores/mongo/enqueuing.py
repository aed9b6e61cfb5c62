"""The enqueue of plain and keyed jobs: documents inserted as they are, of which the first carries the receipt of the call.

One job is one insert without a transaction. Several are a transaction of one insert: all or none of them must be there.
"""

import asyncio
from collections.abc import Sequence
from uuid import UUID

from holdfast._core.book.job_row import body_text
from holdfast._core.job import ALL_BUT_PAYLOAD, NewJob
from holdfast.databases.mongo.database import Document, MongoDatabase, Session
from holdfast.stores.mongo.documents import job_document
from holdfast.stores.mongo.names import Names
from holdfast.stores.mongo.primary import Interval, Primary, Shown
from holdfast.stores.mongo.writing import batches, weight_of


class _Outdated(Exception):
    """The clock of the primary, or the priority of a queue, has changed since it was read."""


class Enqueuing:
    """Inserts jobs. ``Duplicate``: nothing was inserted, because a copy of the call, a job of the id, or the holder of a key is there."""

    def __init__(self, database: MongoDatabase, names: Names, primary: Primary) -> None:
        self._database, self._names, self._primary = database, names, primary

    async def enqueue_one(self, call: UUID, job: NewJob) -> None:
        """Insert a job; correct it if the clock or the settings have changed."""
        shown, read, time = await self._look()
        (document,), _ = documents_of(call, [job], shown, time)
        await self._database.write({"insert": self._names.jobs, "documents": [document]})
        newer = await self._newer(shown, read)
        while newer.term != self._database.term:  # the insert was answered in a later term
            newer = await self._primary.read()
        if not newer.confirms(shown, time, [job]):
            if not newer.time(time.when).agrees(time):
                time = self._primary.stamp(newer)
            (wanted,), _ = documents_of(call, [job], newer, time)
            await self._correct(document, wanted)

    async def enqueue_many(self, call: UUID, jobs: Sequence[NewJob]) -> None:
        """Insert jobs of different ids, all or none."""
        while True:
            try:
                return await self._database.transaction(lambda session: self._insert(session, call, jobs))
            except _Outdated:
                pass  # there is a newer read now

    async def _insert(self, session: Session, call: UUID, jobs: Sequence[NewJob]) -> None:
        shown, read, time = await self._look()
        for some in batches(*documents_of(call, jobs, shown, time)):
            await self._database.write({"insert": self._names.jobs, "documents": some}, session=session)
        if not (await self._newer(shown, read)).confirms(shown, time, jobs):
            raise _Outdated

    async def _look(self) -> tuple[Shown, asyncio.Future[Shown] | None, Interval]:
        """Return what is known of the primary, a read that has begun if that is not current, and the time."""
        shown = await self._primary.recent()
        read = None if self._primary.is_current(shown) else self._primary.read()
        return shown, read, self._primary.stamp(shown)

    async def _newer(self, shown: Shown, read: asyncio.Future[Shown] | None) -> Shown:
        """Return what is known of the primary after an insert."""
        if read is not None:
            return await read
        return shown if self._primary.is_current(shown) else await self._primary.read()

    async def _correct(self, written: Document, wanted: Document) -> None:
        """Change a job, unless it was changed since it was written."""
        changed = {name: value for name, value in wanted.items() if value != written[name]}
        untouched = {"state": "available", "number": 0, **{name: written[name] for name in changed}}
        statement = {"q": {"_id": written["_id"], **untouched}, "u": {"$set": changed}}
        await self._database.write({"update": self._names.jobs, "updates": [statement]})


def documents_of(call: UUID, jobs: Sequence[NewJob], shown: Shown, time: Interval) -> tuple[list[Document], list[int]]:
    """Return the documents of new jobs, and how heavy each is. Jobs that follow each other often differ in ids and payloads alone."""
    found, weights, form, weight = list[Document](), list[int](), Document(), 0
    alike: tuple[object, ...] = ()
    for job in jobs:
        if (rest := ALL_BUT_PAYLOAD(job)) != alike:
            alike, form = rest, {**job_document(shown.new_row(job, time), None, None), "payload": ""}
            weight = weight_of(form)
        payload = body_text(job.payload)
        found.append({**form, "_id": job.id, "payload": payload})
        weights.append(weight + weight_of(payload))
    found[0]["call"] = call
    return found, weights
