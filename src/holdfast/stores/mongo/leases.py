"""The frequent verbs of leases: each is one write, judged document by document."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from holdfast._core.answers import BeatAnswer
from holdfast._core.requests import BeatNote
from holdfast.databases.mongo.database import Document, MongoDatabase
from holdfast.stores.mongo.documents import note_document
from holdfast.stores.mongo.loading import lease_of
from holdfast.stores.mongo.names import Names

_OPEN = {"ended_at": {"$exists": False}}


class Leases:
    """Beats, and the verbs of jobs that are claimed ahead. ``now``: the expression by which the server knows the time."""

    def __init__(self, database: MongoDatabase, names: Names) -> None:
        self._database, self._names = database, names

    async def beat(self, now: Any, leases: Sequence[UUID], *, draining: bool, notes: Sequence[BeatNote]) -> BeatAnswer:
        """Renew leases in one write, and read them after it."""
        ids = [*dict.fromkeys(leases)]
        expires = {"$add": [now, {"$toLong": {"$multiply": ["$ttl", 1000]}}]}
        renewed: Document = {
            "previous_at": "$renewed_at",
            "renewed_at": now,
            "expires_at": expires,
            "renewals": {"$add": ["$renewals", 1]},
            "term": self._database.term,
        }
        if draining:
            renewed["is_draining"] = True
        statement = {"q": {"_id": {"$in": ids}, **_OPEN}, "u": [{"$set": renewed}], "multi": True}
        reply = await self._database.write({"update": self._names.leases, "updates": [statement]}, for_beat=True)
        if not reply["n"]:
            await self.confirm(for_beat=True)
        which = {"_id": {"$in": ids}, **_OPEN}
        found = {each["_id"]: each for each in await self._database.find(self._names.leases, which, for_beat=True)}
        marked = defaultdict[UUID, list[UUID]](list)
        fields = {"marked": 1}
        for each in await self._database.find(
            self._names.jobs,
            {"marked": {"$in": [*found]}},
            for_beat=True,
            projection=fields,
            sort={"marked": 1, "number": 1},
        ):
            marked[each["marked"]].append(each["_id"])
        since = [(each["renewed_at"] - each["previous_at"]).total_seconds() for each in found.values()]
        await self._note(found, notes)
        return BeatAnswer(
            alive=frozenset(found),
            gone=frozenset(ids) - found.keys(),
            cancelled={lease: tuple(jobs) for lease, jobs in marked.items()},
            elapsed=max(since) if since else None,
            draining=frozenset(lease for lease, each in found.items() if each["is_draining"]),
        )

    async def start_through(self, lease: UUID, number: int, voids: int) -> bool:
        """Start the claimed jobs of a lease through this number."""
        which = {"_id": lease, "voids": voids, **_OPEN}
        return await self._change(which, {"$max": {"started": number}}) is not None

    async def void(self, lease: UUID, voids: int) -> int | None:
        """Take the right to start jobs from a lease; return the number through which it has started them."""
        found = await self._change({"_id": lease, **_OPEN}, {"$max": {"voids": voids}})
        return None if found is None else int(found["started"])

    async def confirm(self, *, for_beat: bool = False) -> None:
        """Write something that a majority keeps: what is read after it is what the primary knows, so "no" is true."""
        await self._database.write(
            {"update": self._names.state, "updates": [{"q": {"_id": "barrier"}, "u": {"$inc": {"number": 1}}, "upsert": True}]},
            for_beat=for_beat,
        )

    async def _change(self, which: Document, change: Document) -> Document | None:
        command = {"findAndModify": self._names.leases, "query": which, "update": change, "new": True}
        found: Document | None = (await self._database.write(command))["value"]
        if found is None:
            await self.confirm()
            found = (await self._database.write(command))["value"]
        return found

    async def _note(self, found: dict[UUID, Document], notes: Sequence[BeatNote]) -> None:
        documents = [
            note_document(note, lease_of(found[note.lease]).spec, found[note.lease]["renewed_at"])
            for note in notes
            if note.lease in found
        ]
        if documents:
            await self._database.write({"insert": self._names.beats, "documents": documents}, for_beat=True)
