"""A look at a peer's own rows, on a separate connection."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from typing import Any, Protocol

import psycopg

from bench.peers_torture.catalogue import Documents


class Sight(Protocol):
    """Of one trial's store."""

    def completed(self) -> set[int]:
        """Return the jobs that its rows call completed."""
        ...

    def close(self) -> None:
        """Close the connection, if it is open."""
        ...


class TableSight:
    """Of a database of PostgreSQL."""

    def __init__(self, url: str, query: str, count: int) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._query = query.encode()
        self._count = count

    def completed(self) -> set[int]:
        return {row[0] for row in self._connection.execute(self._query, {"count": self._count})}

    def close(self) -> None:
        self._connection.close()


class MongoSight:
    """Of a database of MongoDB."""

    def __init__(self, url: str, documents: Documents) -> None:
        self._client: Any = importlib.import_module("pymongo").MongoClient(url, uuidRepresentation="standard")
        self._collection = self._client.get_default_database()[documents.collection]
        self._documents = documents

    def completed(self) -> set[int]:
        return {_at(self._documents.job.split("."), each) for each in self._collection.find(self._documents.which)}

    def close(self) -> None:
        self._client.close()


class RedisSight:
    """Of Celery's results in Redis."""

    def __init__(self, url: str, count: int) -> None:
        self._redis: Any = importlib.import_module("redis").Redis.from_url(url)
        self._keys = {job: f"celery-task-meta-job-{job}" for job in range(1, count + 1)}

    def completed(self) -> set[int]:
        found = zip(self._keys, self._redis.mget(list(self._keys.values())), strict=True)
        return {job for job, value in found if value and json.loads(value)["status"] == "SUCCESS"}

    def close(self) -> None:
        self._redis.close()


def _at(path: Sequence[str], value: Any) -> int:
    """Return the number at a path."""
    for name in path:
        value = (json.loads(value) if isinstance(value, str) else value)[name]
    return int(value)
