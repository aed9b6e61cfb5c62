"""Transactions whose process has ended are ended by others, and those of your code are left alone."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from uuid import UUID

import pytest
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from holdfast.errors import StoreUnavailable
from holdfast.stores.mongo.store import MongoStore
from holdfast.testing.clock import FakeClock
from holdfast.testing.servers import MongoSet
from tests.stores.mongo_homes import MongoHome
from tests.stores.test_mongo_guards import Sent

ROW = {"_id": "row"}


@contextmanager
def locked_by(application: str, home: MongoHome) -> Iterator[Any]:
    """Leave a transaction open that has locked a document, as a process does that was killed; yields the database of another user."""
    with closing(MongoClient[Any](home.url, appname=application)) as client, closing(MongoClient[Any](home.url)) as other:
        rows = client.get_default_database()["rows"]
        rows.insert_one(ROW)
        with client.start_session() as session:
            session.start_transaction()
            rows.update_one(ROW, {"$set": {"by": application}}, session=session)
            yield other.get_default_database()


def is_locked(database: Any) -> bool:
    """Return whether a write waits."""
    change = {"update": "rows", "updates": [{"q": ROW, "u": {"$set": {"by": "another"}}}], "maxTimeMS": 50}
    try:
        database.command(change)
    except PyMongoError:
        return True
    return False


def test_l1_an_abandoned_transaction_is_ended_by_the_search_for_expired_leases(mongo_home: MongoHome) -> None:
    store = mongo_home.own_store(FakeClock())

    async def search() -> None:
        looks = 0
        while is_locked(others):
            await store.expired(10)
            looks += 1
        assert looks > 1  # it was not abandoned at once
        await store.close()

    with locked_by("holdfast killed-1", mongo_home) as others:
        mongo_home.run(search())


@pytest.mark.parametrize("application", ["holdfast alive-1 job.transaction()", "shop", ""])
def test_a_transaction_of_your_code_is_left_alone(
    mongo_home: MongoHome, application: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.databases.mongo.abandoned.ABANDONED", 0.0)
    store = mongo_home.own_store(FakeClock())
    assert isinstance(store, MongoStore)
    with locked_by(application, mongo_home) as others:
        mongo_home.run(store.expired(10))
        mongo_home.run(store.close())
        assert is_locked(others)


def test_a_transaction_that_was_given_up_interrupts_no_later_one(mongo_home: MongoHome, mongo_set: MongoSet) -> None:
    store = mongo_home.own_store(FakeClock())
    assert isinstance(store, MongoStore)
    sent = Sent(store)

    async def delete_again() -> None:
        with pytest.raises(StoreUnavailable):
            await store.delete([UUID(int=1)])
        for number in range(3):
            await store.delete([UUID(int=number)])
        await store.close()

    failure = {"failCommands": ["commitTransaction"], "errorCode": 11601}
    mongo_set.primary().set_fail_point("failCommand", {"times": 1}, failure)
    mongo_home.run(delete_again())
    refused, *later = (each["lsid"]["id"] for each in sent.commands if "commitTransaction" in each)
    assert refused not in later
    assert len(later) == 3
