"""MongoDB and the memory store return the same answers to any calls in any order at any time."""

import asyncio
from collections.abc import Iterator
from datetime import datetime

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from msgspec import Struct, structs

from holdfast._ports.store import Store
from holdfast.stores.mongo.claim_numbers import KeptNumbers
from holdfast.stores.mongo.claiming import Claiming
from holdfast.stores.mongo.documents import date
from holdfast.testing.clock import FakeClock
from tests.contract.test_model import EXAMPLES, TINY, Model, new_jobs
from tests.stores.mongo_homes import MongoHome


def in_milliseconds(new: dict[str, object]) -> dict[str, object]:
    """Return the values of a job with a delay that a date can express."""
    return {**new, "delay": 0.001 if new["delay"] == TINY else new["delay"]}


def in_dates(value: object) -> object:
    """Return a value in which all instants are rounded as those of the store."""
    match value:
        case datetime():
            return date(value)
        case Struct():
            return structs.replace(value, **{name: in_dates(getattr(value, name)) for name in value.__struct_fields__})
        case tuple() | list():
            return [in_dates(each) for each in value]
        case dict():
            return {key: in_dates(each) for key, each in value.items()}
        case _:
            return value


class MongoModel(Model):
    """The set's clock is that of the memory store; a change of the client's wall clock has no effect. Its dates have milliseconds."""

    home: MongoHome
    tenant: tuple[asyncio.Runner, Store]

    def make_store(self) -> tuple[asyncio.Runner, Store]:
        self.store_clock = FakeClock()
        self.home.empty().follow(self.store_clock)
        return self.tenant

    def seen(self, answer: object) -> object:
        return in_dates(super().seen(answer))

    @rule(new=st.lists(new_jobs.map(in_milliseconds), max_size=4))
    def enqueue(self, new: list[dict[str, object]]) -> None:
        super().enqueue(new)

    @rule(seconds=st.sampled_from([0.001, 1.0, 2.0, 10.0, 10.001, 29.0, 31.0, 900.0]))
    def advance(self, seconds: float) -> None:
        super().advance(seconds)


MongoModel.TestCase.settings = settings(max_examples=max(EXAMPLES // 6, 1), stateful_step_count=25, deadline=None)


@pytest.mark.timeout(3600 if EXAMPLES > 40 else 120)
class TestModel(MongoModel.TestCase):
    """Hypothesis' own test case."""

    @pytest.fixture(autouse=True)
    def tenant(self, mongo_homes: MongoHome, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        # Claim numbers without gaps, as the memory store counts: no number is reserved before it is known how many are needed.
        monkeypatch.setattr(KeptNumbers, "AMOUNT", 1)
        monkeypatch.setattr(Claiming, "_is_busy", property(lambda _: False, lambda _, value: None), raising=False)
        MongoModel.home = mongo_homes.empty()
        with asyncio.Runner() as runner:
            store = MongoModel.home.own_store(FakeClock())
            MongoModel.tenant = runner, store
            yield
            runner.run(store.close())


@pytest.mark.prove
@pytest.mark.timeout(3600)
class TestLong(TestModel):
    """The same with many more examples."""

    settings = settings(TestModel.settings, max_examples=5 * EXAMPLES, stateful_step_count=50)
