"""The statements that look for jobs: each finds exactly the jobs it asks for, beside jobs of every other kind."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.answers import Answer
from holdfast._core.job import NewJob
from holdfast._core.requests import ClaimRequest, IsolatedJobs
from holdfast.stores.postgres import claim_cursor as trail
from holdfast.stores.postgres import parameters as packing
from holdfast.stores.postgres.claim_cursor import FAST, FRESH
from holdfast.testing.contracts.scene import Scene, play, released
from tests.stores.postgres_concurrent_sessions import Stage, locked
from tests.stores.postgres_databases import Home

KNOWN = ("a", "b")
LEAVE, ONLY, ALSO = IsolatedJobs
MANY = 100


class World:
    """Ranges of every kind. ``plain`` and ``last`` are the jobs that can be claimed, normal and isolated, in the order of claims."""

    def __init__(self, at: Scene) -> None:
        self.at = at
        self.plain: list[NewJob] = []
        self.last: list[NewJob] = []

    async def build(self, home: Home) -> None:
        """Enqueue ranges of each kind before, between and after those that count."""
        enqueued: list[NewJob] = []
        kinds: dict[str, list[UUID]] = {"state = 'held'": [], "claimable_until = '-infinity'": []}
        for task, queue in product(("0", *KNOWN, "z"), ("1", "m", "n", "paused", "x")):
            new = partial(self.at.new, task=task, queue=queue)
            held = [new(priority=priority) for priority in (-3, 0, 4)]
            last = [new(priority=priority) for priority in (-2, 2, 4)]
            ends = {0.0: 600.0, 1.0: None}
            plain = [new(priority=priority, delay=delay, expires_in=ends[delay]) for priority in (0, 1, 4) for delay in ends]
            late = [new(priority=priority, delay=60.0) for priority in (-1, 0, 3, 4)]
            over = [new(priority=priority, expires_in=1.0) for priority in (-1, 1, 4, 5)]
            # The first range of all: for one task its jobs are due later here and at once elsewhere; for the other they are due at once.
            if queue == "1" and task in ("a", "0"):
                late.append(new(priority=-5, delay=60.0))
                over.append(new(priority=-5, expires_in=1.0))
            elif queue in ("1", "x"):
                plain += [new(priority=-5, expires_in=600.0) for _ in range(2)]
            enqueued += [*held, *last, *plain, *late, *over]
            for ids, jobs in zip(kinds.values(), (held, last), strict=True):
                ids += [job.id for job in jobs]
            if task in KNOWN and queue != "paused":
                self.plain += plain
                self.last += last
        await self.at.enqueue(*enqueued)
        for change, ids in kinds.items():
            home.sql(f"UPDATE holdfast.pending SET {change} WHERE id = ANY(%s)", ids)
        self.at.advance(2.0)
        await self.at.store.pause(["paused"], is_paused=True)

    def chosen(self, request: ClaimRequest) -> list[NewJob]:
        """Return the jobs that may be claimed, in the order of claims."""
        jobs = [] if request.isolated is ONLY else self.plain
        jobs = jobs if request.isolated is LEAVE else jobs + self.last
        jobs = [job for job in jobs if request.queues is None or job.queue in request.queues]
        return sorted(jobs, key=lambda job: (job.priority, job.delay, job.id))


ASKED = [(("n", "1", "none", "paused"), LEAVE), (("m",), ALSO), (None, ONLY), (None, LEAVE), (None, ALSO)]


async def request_in(world: World, queues: tuple[str, ...] | None, isolated: IsolatedJobs, limit: int) -> ClaimRequest:
    at = world.at
    return at.request(await at.lease(), limit, tasks=KNOWN, queues=queues, isolated=isolated)


def range_of(job: NewJob) -> tuple[str, str, int]:
    return job.task, job.queue, job.priority


@pytest.mark.parametrize("most", [1, 3, MANY])
def test_ranges_are_those_with_due_jobs_the_most_urgent_first(home: Home, most: int) -> None:
    async def act(at: Scene) -> None:
        world = World(at)
        await world.build(home)
        for queues, isolated in ASKED:
            request = await request_in(world, queues, isolated, MANY)
            found = await at.store._fetch("ranges", *packing.ranges(request, most))  # type: ignore[attr-defined]
            expected = list(dict.fromkeys(map(range_of, world.chosen(request))))[:most]
            assert [(row["task"], row["queue"], row["priority"]) for row in found] == expected
            assert not any(row["is_isolated"] for row in found)

    play(Stage(home), act)


def test_ranges_state_whether_the_lease_is_isolated(home: Home) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(at.new())
        for is_isolated in (True, False):
            lease = structs.replace(at.new_lease(), is_isolated=is_isolated)
            await at.store.open_lease(lease)
            (row,) = await at.store._fetch("ranges", *packing.ranges(at.request(lease.id), 1))  # type: ignore[attr-defined]
            assert row["is_isolated"] is is_isolated

    play(Stage(home), act)


async def taken(world: World, name: str, request: ClaimRequest, where: Sequence[Any]) -> list[UUID]:
    """Return the ids of the jobs that this statement claims."""
    values = (*packing.settling(()), *packing.claiming(request), *where)
    return [row["id"] for row in await world.at.store._fetch(f"claim {name}", *values)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("limit", [1, 3, MANY])
@pytest.mark.parametrize("way", ["due_all_ranges", "due_ranges", "due_range", "due_ids"])
def test_each_way_to_claim_takes_the_first_that_can_be_claimed(home: Home, way: str, limit: int) -> None:
    async def act(at: Scene) -> None:
        world = World(at)
        await world.build(home)
        for queues, isolated in ASKED:
            request = await request_in(world, queues, isolated, limit)
            if not (jobs := world.chosen(request)):
                continue
            all_ranges = list(dict.fromkeys(map(range_of, jobs)))
            where: Sequence[Any]
            match way:
                case "due_all_ranges":
                    where = packing.walking(request, limit)
                case "due_ranges":
                    where = (*zip(*all_ranges, strict=True), None, None, None, 0)
                case "due_range":
                    jobs = [job for job in jobs if range_of(job) == all_ranges[-1]]
                    where = (*all_ranges[-1], datetime.min, UUID(int=0))
                case _:
                    where = ([row.id for row in await at.store.list(at.everything)], queues)
            ids = [job.id for job in jobs[:limit]]
            assert await taken(world, way, request, where) == ids
            world.plain = [job for job in world.plain if job.id not in ids]
            world.last = [job for job in world.last if job.id not in ids]
            assert await taken(world, way, structs.replace(request, lease=at.chance.uuid4()), where) == []

    play(Stage(home), act)


@pytest.mark.parametrize("way", ["due_range", "due_ranges"])
def test_claims_along_ranges_continue_after_the_last_claimed_job(home: Home, way: str) -> None:
    async def act(at: Scene) -> None:
        world, (first, second, third) = World(at), await at.enqueue(*(at.new(task="a", priority=1) for _ in range(3)))
        at.advance(1.0)
        urgent = await at.enqueue(*(at.new(task="a") for _ in range(3)))
        request = await request_in(world, None, LEAVE, 2)
        if way == "due_range":
            assert await taken(world, way, request, ("a", "default", 0, at.now, urgent[0])) == list(urgent[1:])
        else:
            where = (["a", "a"], ["default"] * 2, [0, 1])
            assert await taken(world, way, request, (*where, 0, at.now, urgent[0], 0)) == list(urgent[1:])
            assert await taken(world, way, request, (*where, 0, at.now, urgent[2], 0)) == [first, second]
            assert await taken(world, way, request, (*where, -1, at.now, third, 0)) == [urgent[0], third]

    play(Stage(home), act)


@pytest.mark.parametrize("way", ["due_all_ranges", "due_ranges", "due_range", "due_ids"])
def test_no_way_to_claim_takes_from_a_queue_that_is_paused_in_the_meantime(home: Home, way: str) -> None:
    async def act(at: Scene) -> None:
        world, job = World(at), at.new(task="a")
        await at.enqueue(job)
        request = await request_in(world, None, LEAVE, 1)
        where: Sequence[Any] = {
            "due_all_ranges": packing.walking(request, 1),
            "due_ranges": (["a"], ["default"], [0], None, None, None, 0),
            "due_range": ("a", "default", 0, datetime.min, UUID(int=0)),
            "due_ids": ([job.id], None),
        }[way]
        for is_paused in (True, False):
            await at.store.pause(["default"], is_paused=is_paused)
            assert await taken(world, way, request, where) == ([] if is_paused else [job.id])

    play(Stage(home), act)


def test_l10_claims_of_another_process_find_a_job_that_came_back_within_a_fifth_of_a_second(home: Home) -> None:
    async def act(at: Scene) -> None:
        jobs = await at.enqueue(*(at.new() for _ in range(2 * FAST)))
        at.advance(1.0)
        lease, rescuer = await at.lease(), at.another()
        claims = [claim for _ in range(FAST // 20 + 1) for claim in await at.claim(lease, 20)]
        assert tuple(claim.job.id for claim in claims) == jobs[: FAST + 20], "claims go on where the last one stopped"
        answer = await rescuer.exchange([released(claims[0].job)])
        assert answer.answers == (Answer.APPLIED,)
        before = await at.claim(lease, 20)
        at.advance(FRESH)
        after = await at.claim(lease, 20)
        assert {claim.job.id for claim in (*before, *after)} == {jobs[0], *jobs[FAST + 20 : FAST + 59]}
        assert FRESH <= 0.2

    play(Stage(home), act)


@pytest.mark.parametrize("fast", [0, 200])
def test_l10_a_claim_beside_another_takes_the_next_jobs_of_all_ranges(
    home: Home, monkeypatch: pytest.MonkeyPatch, fast: int
) -> None:
    monkeypatch.setattr(trail, "FAST", fast)

    async def act(at: Scene) -> None:
        tasks = ("a", "b", "c")
        ids = [(await at.enqueue(at.new(task=task)))[0] for task in ("a", "b", "c", "a", "b")]
        with locked(home, "pending", f"id IN ('{ids[0]}', '{ids[1]}')"):
            claims = await at.claim(await at.lease(), 2, tasks=tasks)
        assert [claim.job.id for claim in claims] == ids[2:4]

    play(Stage(home), act)
