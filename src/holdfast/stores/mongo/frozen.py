"""Transactions of handlers whose lease has ended. A frozen handler would keep the locks of its job and its documents for a minute."""

from collections.abc import Sequence

from holdfast._core.lifecycle import Precondition, Transition
from holdfast.databases.mongo.database import MongoDatabase
from holdfast.stores.mongo.names import Names


async def end_frozen(database: MongoDatabase, names: Names, moves: Sequence[Transition]) -> None:
    """End the transactions of jobs that are taken from owners whose lease has ended: they may commit nothing any more."""
    jobs = [each.job for each in moves if each.precondition is Precondition.LEASE_ENDED]
    fenced = await database.find(names.jobs, {"_id": {"$in": jobs}, "fence": True}) if jobs else []
    if not fenced:
        return
    ended = {"_id": {"$in": [each["lease"] for each in fenced]}, "ended_at": {"$exists": True}}
    leases = {each["_id"] for each in await database.find(names.leases, ended)}
    fences = [
        {"job": each["_id"], "number": each["number"], "claim": each["claim"]} for each in fenced if each["lease"] in leases
    ]
    found = await database.find(names.fences, {"_id": {"$in": fences}, "session": {"$exists": True}})
    if found:
        await database.command({"killSessions": [{"id": each["session"]} for each in found]}, on="admin")
