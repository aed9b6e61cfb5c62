"""Progress and checkpoints: one statement for each job, under its token."""

from collections.abc import Sequence
from typing import Any

from holdfast._core.book.job_row import body_text
from holdfast._core.requests import ProgressUpdate
from holdfast._core.text import storable_text
from holdfast.databases.mongo.database import Document
from holdfast.stores.mongo.names import Names


def report(names: Names, now: Any, updates: Sequence[ProgressUpdate]) -> Document:
    """Return the command that writes these updates; one that is older than what the job has matches nothing."""
    return {"update": names.jobs, "updates": [_statement(now, each) for each in updates], "ordered": False}


def _statement(now: Any, update: ProgressUpdate) -> Document:
    which: Document = {
        "_id": update.job,
        "claim": update.token.claim,
        "number": update.token.number,
        "active": {"$exists": True},
    }
    reported = {
        "stage": storable_text(update.stage),
        "fraction": update.fraction,
        "message": storable_text(update.message),
        "checkpoint": None if update.checkpoint is None else body_text(update.checkpoint),
        "points": storable_text(update.points),
    }
    fields = {name: {"$literal": value} for name, value in reported.items() if value is not None}
    if update.order is not None:
        which["$or"] = [{"said": {"$exists": False}}, {"said": {"$lte": update.order}}]
        fields["said"] = {"$literal": update.order}
    return {"q": which, "u": [{"$set": {**fields, "progress_at": now}}]}
