"""MongoDB databases: clients of event loops, commands whose replies are read in full, and transactions."""

from holdfast.databases.mongo.database import MongoDatabase, Session

__all__ = ["MongoDatabase", "Session"]
