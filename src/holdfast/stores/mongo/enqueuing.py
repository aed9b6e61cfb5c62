"""The enqueue of plain jobs: documents inserted as they are, of which the first carries the receipt of the call."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import structs

from holdfast._core.job import NewJob
from holdfast._core.record import new_record
from holdfast._core.requests import QueueSettings
from holdfast.databases.mongo.database import Document
from holdfast.stores.mongo.documents import job_document


def documents_of(call: UUID, jobs: Sequence[NewJob], now: datetime, settings: dict[str, QueueSettings]) -> list[Document]:
    """Return the documents of new jobs."""
    found = list[Document]()
    for job in jobs:
        row, more = new_record(job, now), settings.get(job.queue, QueueSettings()).priority
        found.append(job_document(structs.replace(row, priority=row.priority + more) if more else row, None, None))
    found[0]["call"] = call
    return found
