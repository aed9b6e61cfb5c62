"""One member of a replica set, asked by itself."""

from typing import Any, Final

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from holdfast.databases.mongo.errors import first_line
from holdfast.errors import StoreUnavailable

LIMIT_MS: Final = 2000


def greet(url: str, host: str) -> dict[str, Any]:
    """Return what the server of a URL reports of itself. ``host``: its name in an error.

    It blocks: a client for event loops that ends at once may leave a connection open that its monitor was just making.
    """
    limits: dict[str, Any] = dict.fromkeys(("connectTimeoutMS", "serverSelectionTimeoutMS", "socketTimeoutMS"), LIMIT_MS)
    try:
        with MongoClient[dict[str, Any]](url, maxPoolSize=1, serverMonitoringMode="poll", tz_aware=True, **limits) as client:
            return client["admin"].command("hello")
    except PyMongoError as error:
        raise StoreUnavailable(f"{host}: {first_line(error)}") from error
