"""The PostgreSQL store keeps the contract, whatever is between it and its server and whatever that server is used to."""

from collections.abc import Coroutine
from typing import Any

import pytest

from holdfast._ports.store import Store
from holdfast.stores.postgres.claim_cursor import ClaimCursor, LastClaimed
from holdfast.stores.postgres.store import PostgresStore
from holdfast.testing.clock import FakeClock
from holdfast.testing.contract import StoreContract
from holdfast.testing.contracts.claiming import ClaimContract
from holdfast.testing.contracts.delivering import DeliverContract
from holdfast.testing.contracts.expiring import ExpiryContract
from holdfast.testing.contracts.isolating import LastTryContract
from holdfast.testing.contracts.queues import QueueContract
from holdfast.testing.contracts.scene import Part
from holdfast.testing.contracts.settling import SettleContract
from tests.stores.postgres_databases import KINDS, Homes


class AtHome(Part):
    """The server's clock follows the test's. All stores share connections, because making those takes longer than a test."""

    kind = "18"

    @pytest.fixture(autouse=True)
    def empty_home(self, homes: Homes) -> None:
        self.home = homes.empty(self.kind)

    def make_store(self, clock: FakeClock) -> Store:
        return self.home.store(clock)

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        self.home.run(story)

    def step_wall(self, clock: FakeClock, seconds: float) -> None:
        self.home.clock.advance(seconds)


class OnPostgres(AtHome, StoreContract):
    """All of it."""


class TestPostgres(OnPostgres):
    """The newest release."""


@pytest.mark.prove
class TestSerializable(OnPostgres):
    """The user's own transactions are SERIALIZABLE if nothing else is said."""

    kind = "serializable"


class TestLinesFirst(AtHome, ClaimContract, LastTryContract, ExpiryContract, QueueContract, DeliverContract, SettleContract):
    """A worker that has much to do looks for the lines in which jobs are due, and claims along them then."""

    @pytest.fixture(autouse=True)
    def much_to_do(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(PostgresStore, "_is_slow", lambda store, request: False)


@pytest.mark.prove
class TestSeveralLines(TestLinesFirst):
    """The same by the statement that is for several lines, also when there is one."""

    @pytest.fixture(autouse=True)
    def as_if_there_were_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def due(trail: ClaimCursor) -> tuple[str, tuple[Any, ...]]:
            return "due_ranges", (*zip(*trail.ranges, strict=True), *_where(trail.seen), trail.slack)

        monkeypatch.setattr(ClaimCursor, "due", property(due))


def _where(seen: LastClaimed | None) -> tuple[Any, ...]:
    return (None,) * 3 if seen is None else (seen.priority, seen.at, seen.job)


@pytest.mark.prove
class TestRoles(OnPostgres):
    """Who enqueues, works, reads and migrates is somebody else each time, and may do no more than that."""

    kind = "roles"


if KINDS["15"]:

    @pytest.mark.prove
    class TestPostgres15(OnPostgres):
        """An old release, where texts have an order of their own."""

        kind = "15"


if KINDS["pooled"]:

    @pytest.mark.prove
    class TestPooled(OnPostgres):
        """Each transaction may be on another connection."""

        kind = "pooled"
