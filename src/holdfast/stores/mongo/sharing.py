"""A handler's own documents, committed together with the check of its token.

The check must not touch the document of the job: each report, mark or checkpoint since the snapshot would be a conflict. So there is a
*fence*: a document that nothing changes but a supervisor that takes the job away. That move and the commit both write the fence, so one of
them comes wholly before the other.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import structs
from pymongo import errors as driver

from holdfast._core.job import Token
from holdfast.databases.mongo.caller import CallerDatabase
from holdfast.databases.mongo.database import Document
from holdfast.errors import HoldfastError, JobLost
from holdfast.stores.mongo.documents import job_document, record_of
from holdfast.stores.mongo.loading import attempt_id
from holdfast.stores.mongo.names import Names

_MARKS = ("hook_due_at", "owed")


class Guard:
    """The checks at the beginning and at the end of a job's transaction. ``now``: the expression by which the server knows the time."""

    def __init__(self, names: Names, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None, now: Any) -> None:
        self._names, self._job, self._token, self._now = names, job, token, now
        self._idle, self._hook_due_at = idle, hook_due_at
        self._fence = attempt_id(job, token)
        claim = {"$exists": False} if token.claim is None else token.claim
        self._ours: Document = {"_id": job, "claim": claim, "number": token.number}
        if hook_due_at is None:
            self._ours["active"] = {"$exists": True}
        else:
            self._ours["hook_due_at"] = hook_due_at
        self._after: Document = {}

    async def prepare(self, database: CallerDatabase, session: Any) -> None:
        """Put up the fence, before the transaction begins in this session. ``JobLost``: the job has another owner."""
        if self._hook_due_at is not None:
            return
        raised = {"$set": {"at": self._now, "uses": {"$ifNull": ["$uses", 0]}, "session": session.session_id["id"]}}
        await database.write(
            {"update": self._names.fences, "updates": [{"q": {"_id": self._fence}, "u": [raised], "upsert": True}]}
        )
        fenced = [{"q": self._ours, "u": {"$set": {"fence": True}}}]
        self._require((await database.write({"update": self._names.jobs, "updates": fenced}))["n"] == 1)

    async def begin(self, database: CallerDatabase) -> None:
        """Check the token in the snapshot of the transaction."""
        found = await database.find(self._names.jobs, self._ours)
        self._require(len(found) == 1)
        if self._hook_due_at is None:
            self._require(bool(await database.find(self._names.fences, {"_id": self._fence, "broken": {"$exists": False}})))
        else:
            row = structs.replace(record_of(found[0]), hook_due_at=None)
            self._after = job_document(row, None, None)

    async def end(self, database: CallerDatabase) -> None:
        """Check the token in the last statement, with which the transaction conflicts with each move of the job by others."""
        if self._hook_due_at is None:
            name, which = self._names.fences, {"_id": self._fence, "broken": {"$exists": False}}
            change: Document = {"$inc": {"uses": 1}, "$unset": {"session": ""}}
        else:
            name, which = self._names.jobs, self._ours
            change = {"$unset": dict.fromkeys(_MARKS, "")}
            if "prune_at" in self._after:
                change["$set"] = {"prune_at": self._after["prune_at"]}
        try:
            reply = await database.write({"update": name, "updates": [{"q": which, "u": change}]})
        except driver.OperationFailure as error:
            if self._hook_due_at is None and error.has_error_label("TransientTransactionError"):
                self._require(await self._is_ours(database.outside()))  # a server also reports conflicts when its cache is full
            raise
        self._require(reply["n"] == 1)

    async def _is_ours(self, database: CallerDatabase) -> bool:
        return bool(await database.find(self._names.jobs, self._ours))

    def cut_off(self) -> HoldfastError:
        """Return the error of a transaction that was open for too long."""
        return HoldfastError(
            f"job.transaction() was open for longer than {self._idle:g} s and was rolled back, because it may hold locks: do what "
            "takes time before the block"
        )

    def ended_by_user(self) -> HoldfastError:
        """Return the error of a block that has ended its transaction itself."""
        return HoldfastError(
            "job.transaction() commits when its block ends, together with the check that the job is still yours, and rolls back when the "
            "block raises: leave out commit_transaction() and abort_transaction(). What was committed inside was not checked"
        )

    def _require(self, is_ours: bool) -> None:
        if not is_ours:
            raise JobLost(f"job {self._job} is no longer active under token {self._token}; nothing of this transaction is kept")
