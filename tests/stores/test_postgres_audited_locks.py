"""A lock of another session delays none but its own job, also when an operator's action is recorded."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from holdfast._core.job import State
from holdfast._core.requests import JobFilter, Steer, SteerVerb
from holdfast._engine import store_defaults
from holdfast.errors import StoreBusy
from holdfast.testing.contracts.auditing import listed, note
from holdfast.testing.contracts.scene import Scene, play
from holdfast.testing.contracts.workflow_dependents import after
from holdfast.testing.contracts.workflow_scene import chain
from tests.stores.postgres_concurrent_sessions import Stage, locked
from tests.stores.postgres_databases import Home
from tests.stores.test_postgres_foreign_locks import hurried_home, states

__all__ = ("hurried_home",)


async def with_member(at: Scene, *, is_keyed: bool) -> tuple[Sequence[UUID], UUID, UUID]:
    """Store six jobs, and one that another session will lock; return all of them, that one, and its workflow."""
    if is_keyed:
        ids = await at.enqueue(*(at.new(key=str(number)) for number in range(7)))
        return ids, ids[3], ids[3]
    graph = await chain(at, "a").stored()
    member, others = graph.ids["a"], await at.enqueue(*(at.new() for _ in range(6)))
    return [*others[:3], member, *others[3:]], member, graph.ids["root"]


@pytest.mark.parametrize(
    ("verb", "table"), [(verb, table) for verb in ("request_cancel", "delete") for table in ("keys", "flows")]
)
def test_l11_a_recorded_verb_is_done_for_all_but_the_jobs_behind_a_lock_and_counted(
    hurried_home: Home, verb: str, table: str
) -> None:
    home = hurried_home

    async def act(at: Scene) -> None:
        by = note(at, verb)
        ids, stuck, flow = await with_member(at, is_keyed=table == "keys")
        lock = ("unique_keys", f"job = '{stuck}'") if table == "keys" else ("flows", f"id = '{flow}'")
        before = (await at.row(stuck)).state
        with locked(home, *lock):
            for _ in range(2):  # the answer of the first call was lost
                answer = await store_defaults.steer(at.store, Steer(SteerVerb(verb)), ids, JobFilter(), by=by)
                assert stuck in answer.left
                assert answer.states[stuck] is before
        now = await states(at)
        assert {now.get(job) for job in ids if job != stuck} == {State.CANCELLED if verb == "request_cancel" else None}
        (entry,) = await listed(at)
        assert (entry.action, entry.count) == (verb, 6)

    play(Stage(home), act)


def test_l11_a_locked_workflow_delays_the_recorded_purge_of_no_other_job(hurried_home: Home) -> None:
    home = hurried_home

    async def act(at: Scene) -> None:
        stuck, free, *plain = await at.enqueue(*(at.new() for _ in range(4)))
        for parent in (stuck, free):
            await after(at, parent, queue="other")
        with locked(home, "flows", f"id = '{stuck}'"):
            with pytest.raises(StoreBusy, match="pg_terminate_backend") as busy:
                await store_defaults.purge(at.store, "default", 100, by=note(at, "purge"))
            assert busy.value.jobs == {stuck}
            assert {free, *plain}.isdisjoint(await states(at))
        assert stuck in await states(at)
        (entry,) = await listed(at)
        assert entry.count == 3

    play(Stage(home), act)
