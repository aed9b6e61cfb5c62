"""What the contract cannot see of jobs that a verb is not about: their keys, payloads and partitions of attempts."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from msgspec import structs

from holdfast._core.answers import Answer
from holdfast._core.job import ActiveJob, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.outcome import Fail, Snooze
from holdfast._core.policy import RETENTION_FLOOR, Policy
from holdfast._core.requests import AttemptNote, JobFilter
from holdfast.testing.contracts.bystanding import Crowd, expired, operated, owned, settled
from holdfast.testing.contracts.scene import Scene, answered, done, play, raised, released
from tests.stores.postgres_concurrent_sessions import Stage
from tests.stores.postgres_databases import Home
from tests.stores.test_postgres_adversary import _WRONG
from tests.stores.test_postgres_partitions import DAY, partitions_of_rows

_PICTURE = {
    "attempts": "SELECT job, claim_number, delete_day::text, requested_state FROM holdfast.attempts WHERE job = ANY(%s) ORDER BY 1, 2",
    "payloads": "SELECT job, length(payload) FROM holdfast.payloads WHERE job = ANY(%s) ORDER BY 1",
    "unique_keys": "SELECT task, key, job FROM holdfast.unique_keys WHERE job = ANY(%s) ORDER BY 1, 2",
    "finished": "SELECT id, delete_day::text, delete_after FROM holdfast.finished WHERE id = ANY(%s) ORDER BY 1",
}


def test_verbs_on_some_jobs_leave_keys_payloads_and_records_of_others(home: Home) -> None:
    async def act(at: Scene) -> None:
        crowd = Crowd(at)
        await crowd.gather()
        before = [home.sql(question, crowd.jobs) for question in _PICTURE.values()]
        assert all(before)
        for change in (settled, owned, operated, expired):
            await change(at)
            assert [home.sql(question, crowd.jobs) for question in _PICTURE.values()] == before, change.__name__

    play(Stage(home), act)


async def by_success(at: Scene, policy: Policy) -> None:
    for _ in range(2):
        await at.settle(done(await retried(at, policy)))


async def together(at: Scene, policy: Policy) -> None:
    await at.settle(*[answered(await retried(at, policy), Fail("no")) for _ in range(2)])


async def with_a_claim(at: Scene, policy: Policy) -> None:
    active = await at.running(policy=policy)  # a first-try success
    await at.enqueue(at.new(queue="next"))
    assert len((await at.exchange(done(active), at.request(active.lease, queues=("next",)))).claims) == 1


async def by_cancelling(at: Scene, policy: Policy) -> None:
    jobs = []
    for _ in range(2):
        active = await retried(at, policy)
        await at.settle(raised(active))
        jobs.append(active.id)
    await at.store.request_cancel(jobs)


async def by_expiring(at: Scene, policy: Policy) -> None:
    await at.enqueue(at.new(policy=policy, expires_in=1.0))
    at.advance(1.0)
    assert len(await at.store.expire(10)) == 1


async def retried(at: Scene, policy: Policy) -> ActiveJob:
    """Return a job in its second attempt."""
    job = at.new(queue=str(at.chance.uuid4()))
    await at.enqueue(job)
    (claim,) = await at.claim(await at.lease(), queues=(job.queue,), policy=policy)
    await at.settle(structs.replace(raised(claim.job), delay=0.0))
    (claim,) = await at.claim(await at.lease(), queues=(job.queue,), policy=policy)
    return claim.job


WAYS: dict[str, Callable[[Scene, Policy], Awaitable[None]]] = {
    way.__name__: way for way in (by_success, together, with_a_claim, by_cancelling, by_expiring)
}


@pytest.mark.parametrize("way", WAYS)
def test_a_finished_job_and_its_attempts_get_their_partition_by_any_way_to_end(home: Home, way: str) -> None:
    async def act(at: Scene) -> None:
        for retention in (DAY - 1.0, 3 * DAY, 30 * DAY):
            await WAYS[way](at, Policy(retention=retention))
            day = f"{at.now + timedelta(seconds=retention):%Y%m%d}" if retention == 3 * DAY else "other"
            assert set(partitions_of_rows(home)) == {f"finished_{day}"}
            assert set(partitions_of_rows(home, "attempts")) <= {f"attempts_{day}"}
            for problem, query in _WRONG.items():
                assert home.sql(query) == [], problem
            for table in ("finished", "attempts"):
                home.sql(f"DELETE FROM holdfast.{table}")

    play(Stage(home), act)


def test_jobs_that_end_together_may_go_to_different_partitions(home: Home) -> None:
    async def act(at: Scene) -> None:
        active_jobs = [await retried(at, Policy(retention=days * DAY)) for days in (2, 3)]
        await at.settle(*(structs.replace(raised(active), delay=0.0) for active in active_jobs))
        await at.store.request_cancel([active.id for active in active_jobs])
        both = [await retried(at, Policy(retention=days * DAY)) for days in (2, 3)]
        await at.settle(*(answered(active, Fail("no")) for active in both))
        question = "SELECT DISTINCT delete_day FROM holdfast.{} WHERE {} = %s"
        for active, days in zip([*active_jobs, *both], (2, 3, 2, 3), strict=True):
            day = (at.now + timedelta(days=days)).date()
            assert home.sql(question.format("finished", "id"), active.id) == [(day,)]
            assert home.sql(question.format("attempts", "job"), active.id) == [(day,)]

    play(Stage(home), act)


def test_a_snooze_that_is_deleted_with_its_job_is_not_counted_separately(home: Home) -> None:
    async def act(at: Scene) -> None:
        active = await at.running(policy=Policy(retention=0.0))
        await at.settle(answered(active, Snooze(for_="1s")))
        at.advance(1.0)
        (claim,) = await at.claim(active.lease, policy=Policy(retention=0.0))
        await at.settle(done(claim.job))
        at.advance(RETENTION_FLOOR)
        pruned = await at.store.prune(10)
        assert (pruned.jobs, pruned.attempts, home.sql("SELECT job FROM holdfast.attempts")) == (1, 0, [])

    play(Stage(home), act)


def test_a_second_job_of_the_same_id_blocks_no_owner_and_no_operator(home: Home) -> None:
    async def act(at: Scene) -> None:
        active, over = await at.running(), await at.running()
        await at.settle(done(over))
        for job in (active.id, over.id):
            await at.another().enqueue(at.chance.uuid4(), [structs.replace(at.new(), id=job)])
        assert await at.settle(raised(active)) == (Answer.APPLIED,)
        assert (await at.store.reopen([over.id])).states == {over.id: State.AVAILABLE}
        assert len(home.sql("SELECT id FROM holdfast.jobs")) == 2

    play(Stage(home), act)


def test_a_note_on_a_claim_whose_code_never_ran_is_kept_nowhere(home: Home) -> None:
    async def act(at: Scene) -> None:
        active = await at.prefetched()
        await at.settle(released(active))
        await at.store.annotate([AttemptNote(job=active.id, token=active.token, late_result=b"1", stacks="…")])
        assert home.sql("SELECT outcome, late_result, stacks FROM holdfast.attempts") == [(None, None, None)]

    play(Stage(home), act)


@pytest.mark.parametrize("retention", ["1e300", "1e999", "-", "-1.0", "99999999999.0"])
def test_l11_a_retention_that_cannot_be_read_keeps_no_job_from_expiring(home: Home, retention: str) -> None:
    async def act(at: Scene) -> None:
        spoiled, *_ = jobs = await at.enqueue(at.new(expires_in=1.0), at.new(expires_in=2.0), at.new())
        home.sql("UPDATE holdfast.pending SET policy = %s WHERE id = ANY(%s)", f'{{"retention":{retention}}}', [spoiled, jobs[2]])
        at.advance(3.0)
        assert [each.job for each in await at.store.expire(10)] == [*jobs[:2]]
        assert await at.store.request_cancel([jobs[2]]) == {jobs[2]: State.CANCELLED}
        kept = home.sql("SELECT DISTINCT delete_after - finished_at FROM holdfast.finished WHERE id <> %s", jobs[1])
        assert kept == [(timedelta(days=7),)]

    play(Stage(home), act)


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1e-7, 3600.0, 123456.789, 30 * 86400.0, 3_155_760_000.0])
def test_a_job_that_expires_or_is_cancelled_is_kept_for_the_retention_on_its_row(home: Home, seconds: float) -> None:
    async def act(at: Scene) -> None:
        policy = Policy(retention=seconds, max_attempts=7)
        _, early = await at.enqueue(at.new(expires_in=1.0, policy=policy), at.new(policy=policy))
        at.advance(2.0)
        assert len(await at.store.expire(10)) == 1
        await at.store.request_cancel([early])
        kept = home.sql("SELECT extract(epoch FROM delete_after - finished_at)::float FROM holdfast.finished")
        assert [each for (each,) in kept] == pytest.approx([seconds] * 2, abs=1e-6)

    play(Stage(home), act)


def test_unreadable_tags_fail_no_list(home: Home) -> None:
    async def act(at: Scene) -> None:
        spoiled, sound = await at.enqueue(at.new(), at.new(tags=("a", "b")))
        home.sql("UPDATE holdfast.pending SET tags = '[spoiled' WHERE id = %s", spoiled)
        assert [row.id for row in await at.store.list(JobFilter(tag="a"))] == [sound]

    play(Stage(home), act)


def collect_statements(at: Scene, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that collects the statements which the store sends from now on."""
    asked: list[str] = []
    fetch = at.store._fetch  # type: ignore[attr-defined]
    monkeypatch.setattr(at.store, "_fetch", lambda name, *values: asked.append(name) or fetch(name, *values))
    return asked


def test_a_job_that_does_not_exist_is_queried_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(at: Scene) -> None:
        asked = collect_statements(at, monkeypatch)
        waiting, unknown = (await at.enqueue(at.new()))[0], at.chance.uuid7()
        asked.clear()
        assert await at.store.delete([waiting, unknown]) == {}
        assert asked == ["delete"]

    play(Stage(home), act)


def test_a_reopened_job_is_queried_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(at: Scene) -> None:
        over, scheduled = await at.enqueue(at.new(), at.new(delay=60.0))
        await at.store.request_cancel([over])
        asked = collect_statements(at, monkeypatch)
        for job in (over, scheduled):
            assert (await at.store.reopen([job])).states == {job: State.AVAILABLE}
        assert asked == ["reopen"] * 2

    play(Stage(home), act)


def test_a_claim_without_settles_is_one_statement(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(at: Scene) -> None:
        asked = collect_statements(at, monkeypatch)
        await at.enqueue(at.new())
        lease = await at.lease()
        asked.clear()
        assert len(await at.claim(lease)) == 1
        assert asked == ["claim lanes results"]

    play(Stage(home), act)


def test_an_owner_without_a_right_is_listed_once_also_without_a_row(home: Home) -> None:
    async def act(at: Scene) -> None:
        active_jobs = [await at.running() for _ in range(4)]
        leases = [active.lease for active in active_jobs]
        for lease in leases[:2]:
            await at.store.end_lease(lease, LeaseEnd(RescueReason.CRASHED))
        home.sql("DELETE FROM holdfast.leases WHERE id = %s", leases[2])
        found = home.sql("SELECT DISTINCT lease FROM holdfast.active")
        assert len(found) == 4
        rows = await at.store._fetch("expired", 10)  # type: ignore[attr-defined]
        assert sorted(row["id"] for row in rows) == sorted(leases[:3])

    play(Stage(home), act)
