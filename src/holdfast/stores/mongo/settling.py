"""The settle of first-try successes: one update of many jobs, each judged under its own token."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from bson import Binary

from holdfast._core.book.job_row import body_text
from holdfast._core.job import State
from holdfast._core.lifecycle import Precondition, Transition
from holdfast.databases.mongo.database import Document
from holdfast.stores.mongo.names import Names

MOST = 128
"""The jobs of one statement: the time to look up a job in a list of ids grows with the square of its length."""

_GONE = ("lease", "active", "fence", "alone", "marked", "timed", "reason", "error", "error_key", "hook_due_at")


def is_plain(moved: Transition) -> bool:
    """Return whether a transition moves one job alone, and leaves no record beside it."""
    return (
        moved.to is State.COMPLETED
        and moved.precondition is Precondition.TOKEN
        and (moved.record, moved.rescued, moved.error, moved.reason) == (None, None, None, None)
        and not (moved.has_flow or moved.forgets_steps)
        and moved.token.claim is not None
    )


def settle(names: Names, now: Any, plain: Sequence[Transition]) -> Document:
    """Return the command that completes these jobs. A job that belongs to a workflow, or is owed a hook, is left alone."""
    return {"update": names.jobs, "updates": [*_statements(now, plain)], "ordered": False}


def _statements(now: Any, plain: Sequence[Transition]) -> Iterable[Document]:
    groups = defaultdict[tuple[UUID | None, int, int, float], list[Transition]](list)
    for each in plain:
        groups[each.token.claim, each.failures, each.crashes, each.retention].append(each)
    for (claim, failures, crashes, retention), moved in groups.items():
        for start in range(0, len(moved), MOST):
            some = moved[start : start + MOST]
            ids = [Binary.from_uuid(each.job) for each in some]  # once for both places
            place = {"$indexOfArray": [{"$literal": ids}, "$_id"]}
            number = {"$arrayElemAt": [{"$literal": [each.token.number for each in some]}, place]}
            is_its_own = {"$eq": ["$number", number]}
            is_claimed = {"$eq": ["$state", "claimed"]}
            which: Document = {
                "_id": {"$in": ids},
                "claim": claim,
                "active": {"$exists": True},
                "flow": {"$exists": False},
                "hook_due_at": {"$exists": False},
                "$expr": is_its_own,
            }
            fields = {
                "state": "completed",
                "attempt": {"$cond": [is_claimed, {"$add": ["$attempt", 1]}, "$attempt"]},
                "started_at": {"$cond": [is_claimed, "$claimed_at", "$started_at"]},
                "failures": failures,
                "crashes": crashes,
                "finished_at": now,
                # a completed job is kept for as long as it holds its unique key
                "prune_at": {"$max": [{"$add": [now, int(retention * 1000)]}, "$locked_until"]},
                "lock": {"$cond": [{"$gt": ["$locked_until", now]}, "$lock", "$$REMOVE"]},
                **_result(some, place),
            }
            yield {"q": which, "u": [{"$set": fields}, {"$unset": [*_GONE]}], "multi": True}


def _result(some: Sequence[Transition], place: Document) -> Document:
    results = [None if each.result is None else body_text(each.result) for each in some]
    if len({*results}) > 1:
        return {"result": {"$ifNull": [{"$arrayElemAt": [{"$literal": results}, place]}, "$$REMOVE"]}}
    return {"result": "$$REMOVE" if results[0] is None else {"$literal": results[0]}}
