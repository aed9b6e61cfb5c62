"""Transactions that no process continues: it was killed, stopped or cut off between two commands.

A server keeps the locks of such a transaction for a minute. Until then each claim, settle and rescue of these documents would wait.
"""

from holdfast.databases.mongo.database import APPLICATION, MongoDatabase

ABANDONED = 2.0
"""Seconds without a command. Those of a verb follow each other at once; a process that was only slow begins its transaction again."""


async def end_abandoned(database: MongoDatabase) -> int:
    """End transactions of Holdfast that have been without a command for 2 s; return how many. Those of your code are left alone."""
    which = {
        "appName": {"$regex": f"^{APPLICATION} \\S+$"},
        "active": False,
        "transaction.timeInactiveMicros": {"$gte": int(ABANDONED * 1e6)},
    }
    pipeline = [{"$currentOp": {"idleSessions": True, "allUsers": False}}, {"$match": which}]
    reply = await database.command({"aggregate": 1, "pipeline": pipeline, "cursor": {}}, on="admin")
    left = [{"id": each["lsid"]["id"]} for each in reply["cursor"]["firstBatch"]]
    if left:
        await database.command({"killSessions": left}, on="admin")
    return len(left)
