"""``--until-empty`` waits for jobs that are kept by a limit whose slots other workers hold."""

from uuid import UUID

import pytest

from holdfast._core.book.verbs import BookVerbs
from holdfast._core.job import NewJob
from holdfast._core.limits import Limit, Scope, ScopeKind
from holdfast._core.origin import Origin
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimKind, ClaimRequest
from holdfast._engine.supervisor.until_empty import has_limited_jobs
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance, FakeClock
from tests.engine.support import OTHER

SCOPES = [Scope(ScopeKind.ALL), Scope(ScopeKind.TASK, "t"), Scope(ScopeKind.QUEUE, "q")]


async def store_with(scope: Scope, limit: Limit, *, jobs: int) -> MemoryStore:
    """Return a store in which another worker has claimed what the limit allows."""
    store, chance = MemoryStore(FakeClock()), FakeChance()
    await store.set_limit(scope, limit, Origin())
    made = [NewJob(id=chance.uuid7(), task="t", payload=b"{}", policy=Policy(), queue="q") for _ in range(jobs)]
    await store.enqueue(chance.uuid4(), made)
    await store.open_lease(OTHER)
    request = ClaimRequest(lease=OTHER.id, claim=UUID(int=5), tasks={"t": Policy()}, limit=9, kind=ClaimKind.LIMITED)
    await store.exchange((), request)
    return store


async def needs(store: MemoryStore, tasks: tuple[str, ...] = ("t",), queues: tuple[str, ...] | None = None) -> bool:
    return await has_limited_jobs(store, lambda: tasks, lambda: queues)


@pytest.mark.parametrize("scope", SCOPES, ids=str)
async def test_jobs_that_wait_for_slots_of_other_workers_are_needed(scope: Scope) -> None:
    store = await store_with(scope, Limit(concurrency=1), jobs=2)
    assert await needs(store)
    assert await needs(store, queues=("q",))
    assert not await needs(store, queues=("other",))
    assert not await needs(store, tasks=("other",))
    await store.pause(["q"], is_paused=True)
    assert not await needs(store)


@pytest.mark.parametrize(("limit", "jobs"), [(Limit(concurrency=1), 1), (Limit(concurrency=0), 2), (Limit(concurrency=5), 3)])
async def test_nothing_is_needed_without_jobs_that_wait_or_slots_that_will_be_free(limit: Limit, jobs: int) -> None:
    assert not await needs(await store_with(SCOPES[2], limit, jobs=jobs))


async def test_a_store_without_limits_keeps_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(BookVerbs, "set_limit")
    assert not await needs(MemoryStore(FakeClock()))
