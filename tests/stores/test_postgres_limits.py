"""Limits among sessions that claim at the same time: never exceeded, and never locked for long."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import psycopg
import pytest
from msgspec import structs

from holdfast._core.answers import Answer, ExchangeAnswer
from holdfast._core.job import ActiveJob
from holdfast._core.lifecycle import Transition
from holdfast._core.limits import Limit
from holdfast._core.requests import ClaimKind
from holdfast._engine import store_defaults
from holdfast.stores.postgres import limited_claiming
from holdfast.testing.contracts.capacity import ALL, OPERATOR, ids, limit, limited, queue, task
from holdfast.testing.contracts.scene import Scene, done, in_threads, play, released
from tests.stores.postgres_concurrent_sessions import Stage, locked, rival, waits
from tests.stores.postgres_databases import Home

SESSIONS, MOST, ROUNDS = 8, 10, 12
WITHIN = {"kind": ClaimKind.LIMITED}


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let claims wait for a limit for as long as the machine needs."""
    monkeypatch.setattr(limited_claiming, "SHORT", limited_claiming.SHORT.replace("'1s'", "'15s'"))


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let claims wait for a limit for a moment only."""
    monkeypatch.setattr(limited_claiming, "SHORT", limited_claiming.SHORT.replace("'1s'", "'50ms'"))


def count(home: Home, condition: str = "true") -> int:
    """Return how many jobs are active."""
    ((number,),) = home.sql(f"SELECT count(*) FROM holdfast.active WHERE {condition}")
    return int(number)


async def asked(at: Scene, lease: UUID, most: int = 5, transitions: Sequence[Transition] = ()) -> ExchangeAnswer:
    """Settle and claim within limits."""
    return await at.store.exchange(transitions, at.request(lease, most, kind=ClaimKind.LIMITED))


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("keys", [1, 40])
def test_s12_eight_sessions_never_exceed_a_limit_and_use_it_up(home: Home, keys: int) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(*(at.new(lane=f"k{number % keys}") for number in range(600)))
        await limit(at, queue(), concurrency=MOST)
        leases = [await at.lease() for _ in range(SESSIONS)]
        requests = [[at.request(lease, 3, kind=ClaimKind.LIMITED) for _ in range(ROUNDS)] for lease in leases]

        async def work(mine: Sequence[object]) -> tuple[list[int], list[ActiveJob], int]:
            store, seen, active, taken = at.another(), list[int](), list[ActiveJob](), 0
            try:
                for request in mine:
                    answer = await store.exchange([done(job) for job in active], request)  # type: ignore[arg-type]
                    assert set(answer.answers) <= {Answer.APPLIED}
                    active = [claim.job for claim in answer.claims]
                    taken += len(active)
                    seen.append(count(home))
                return seen, active, taken
            finally:
                await store.close()

        found = in_threads(*(lambda mine=mine: work(mine) for mine in requests))
        assert max(number for seen, _, _ in found for number in seen) <= MOST
        assert count(home, "NOT is_counted") == 0
        assert sum(taken for _, _, taken in found) >= MOST
        left = count(home)
        more = await asked(at, leases[0], 100)
        assert left + len(more.claims) == MOST

    play(Stage(home), act)


@pytest.mark.usefixtures("patient")
def test_s12_a_claim_that_waited_for_another_one_counts_what_that_one_took(home: Home) -> None:
    async def act(at: Scene) -> None:
        jobs = await at.enqueue(*(at.new() for _ in range(9)))
        await limit(at, queue(), concurrency=5, rate="1/h", burst=4)
        first, second = at.request(await at.lease(), 3, **WITHIN), at.request(await at.lease(), 9, **WITHIN)
        async with rival(home) as other:
            assert ids((await other.exchange((), first)).claims) == [*jobs[:3]]
            claiming = asyncio.ensure_future(at.store.exchange((), second))
            assert await waits(home, claiming)
        assert ids((await claiming).claims) == [jobs[3]]

    play(Stage(home), act)


@pytest.mark.usefixtures("patient")
def test_s12_claims_within_other_limits_do_not_wait(home: Home) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(at.new(queue="a"), at.new(queue="b"))
        await limit(at, queue("a"), concurrency=5)
        await limit(at, queue("b"), concurrency=5)
        first, second = [at.request(await at.lease(), 1, queues=(line,), **WITHIN) for line in "ab"]
        async with rival(home) as other:
            assert len((await other.exchange((), first)).claims) == 1
            claiming = asyncio.ensure_future(at.store.exchange((), second))
            assert not await waits(home, claiming)
        assert len((await claiming).claims) == 1

    play(Stage(home), act)


@pytest.mark.usefixtures("patient")
def test_s12_of_two_claims_for_an_isolated_lease_the_second_sees_the_first(home: Home) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(at.new(), at.new())
        await limit(at, task(), concurrency=5)
        lease = structs.replace(at.new_lease(), is_isolated=True)
        assert await at.store.open_lease(lease)
        first, second = (at.request(lease.id, 1, **WITHIN) for _ in range(2))
        async with rival(home) as other:
            assert len((await other.exchange((), first)).claims) == 1
            claiming = asyncio.ensure_future(at.store.exchange((), second))
            assert await waits(home, claiming)
        answer = await claiming
        assert (answer.claims, answer.is_whole, answer.has_limited) == ((), True, True)

    play(Stage(home), act)


@pytest.mark.usefixtures("hurried")
def test_l11_a_locked_limit_delays_claims_but_no_outcome(home: Home) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(at.new(), at.new(), at.new())
        await limit(at, queue(), concurrency=5)
        lease = await at.lease()
        first, second = (await asked(at, lease, 2)).claims
        with locked(home, "limits"):
            answer = await asked(at, lease, 2, [done(first.job), released(second.job)])
            assert answer.answers == (Answer.APPLIED, Answer.APPLIED)
            assert (answer.claims, answer.is_whole, answer.has_limited) == ((), True, True)
            plain = at.request(lease, 2)
            assert (await at.store.exchange((), plain)).claims == ()
        assert len((await asked(at, lease)).claims) == 2

    play(Stage(home), act)


@pytest.mark.usefixtures("patient")
def test_l11_a_frozen_session_does_not_keep_a_limit(home: Home) -> None:
    async def act(at: Scene) -> None:
        (job,) = await at.enqueue(at.new())
        await limit(at, queue(), concurrency=5)
        lease = await at.lease()
        with psycopg.connect(home.dsn) as frozen:
            frozen.execute(limited_claiming.SHORT.replace("'3s'", "'100ms'"))  # type: ignore[arg-type]
            frozen.execute("SELECT FROM holdfast.limits FOR UPDATE")
            assert ids((await asked(at, lease)).claims) == [job]
            with pytest.raises(psycopg.Error):
                frozen.execute("SELECT")

    play(Stage(home), act)


def test_l11_a_job_that_another_session_has_locked_takes_no_start_of_a_rate(home: Home) -> None:
    async def act(at: Scene) -> None:
        first, second, third = await at.enqueue(at.new(), at.new(), at.new())
        await limit(at, ALL, rate="1/h", burst=2)
        lease = await at.lease()
        with locked(home, "pending", f"id = '{first}'"):
            answer = await asked(at, lease)
            assert (ids(answer.claims), answer.is_whole) == ([second], False)
        assert ids((await asked(at, lease)).claims) == [first]
        assert (await asked(at, lease)).claims == ()
        assert await at.state(third) == "available"

    play(Stage(home), act)


def test_s12_recovery_counts_the_jobs_that_were_claimed_while_a_limit_was_set(home: Home) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(*(at.new(queue=line) for line in "aaab"))
        stuck, *_ = await at.claim(await at.lease(), 3)
        home.sql("INSERT INTO holdfast.limits VALUES ('queue', 'a', '{\"concurrency\":3}', '{}')")
        with locked(home, "active", f"id = '{stuck.job.id}'"):
            await at.store.overdue(10)
            assert count(home, "is_counted") == 1
        await at.store.overdue(10)
        assert count(home, "is_counted AND queue = 'a'") == count(home, "is_counted") == 2
        assert len(await (await limited(at)).claim(5)) == 1

    play(Stage(home), act)


def test_s12_jobs_that_no_limit_counts_any_more_are_not_read_by_claims(home: Home) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(at.new(), at.new(queue="b"))
        await limit(at, ALL, concurrency=3)
        await limit(at, queue("b"), concurrency=3)
        assert len(await (await limited(at)).claim(5)) == 2
        await store_defaults.limits(at.store).set_limit(ALL, None, OPERATOR)
        assert count(home, "is_counted") == count(home, "is_counted AND queue = 'b'") == 1

    play(Stage(home), act)


def test_s24_claims_at_the_same_time_never_start_more_jobs_than_a_rate_allows(home: Home) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(*(at.new(lane=key) for key in "ab" for _ in range(50)))
        await store_defaults.limits(at.store).set_limit(queue(), Limit(rate_per_key="1/h", burst=7), OPERATOR)
        requests = [at.request(await at.lease(), 3, **WITHIN) for _ in range(SESSIONS)]

        async def claim(request: object) -> int:
            store = at.another()
            try:
                return len((await store.exchange((), request)).claims)  # type: ignore[arg-type]
            finally:
                await store.close()

        taken = sum(in_threads(*(lambda each=each: claim(each) for each in requests)))
        assert taken <= 14
        assert taken + len(await (await limited(at)).claim(20)) == 14

    play(Stage(home), act)
