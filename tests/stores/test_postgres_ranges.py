"""The statements that look for jobs: each finds exactly the jobs it asks for, beside jobs of every other kind."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import product
from typing import Any
from uuid import UUID

import msgspec
import pytest
from msgspec import structs

from holdfast._core.answers import Answer
from holdfast._core.job import NewJob
from holdfast._core.lanes import Cursor, LaneHead, Turn, deal, in_ring, looked_at
from holdfast._core.requests import ClaimRequest, IsolatedJobs, QueueSettings
from holdfast._engine import store_defaults
from holdfast.stores.postgres import claim_cursor as trail
from holdfast.stores.postgres import parameters as packing
from holdfast.stores.postgres.claim_cursor import FAST, FRESH, LastClaimed, Range
from holdfast.stores.postgres.lane_report import LaneReport, Position
from holdfast.stores.postgres.lane_walk import Walk
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


def range_of(job: NewJob) -> tuple[str, int, str, str]:
    return job.task, job.priority, job.queue, job.key or ""


def dealt(jobs: Sequence[NewJob], room: int, cursor: Cursor = ()) -> list[NewJob]:
    """Return the jobs that a claim deals out, by the rule that all stores keep; ``jobs``: those that may be claimed, in order."""
    lanes: dict[tuple[int, str, str], list[NewJob]] = {}
    for job in jobs:
        lanes.setdefault((job.priority, job.queue, job.key or ""), []).append(job)
    looked, is_cut = looked_at(in_ring((LaneHead(*lane, len(jobs)) for lane, jobs in lanes.items()), cursor), room)
    takes = deal(looked, room, cursor, is_cut=is_cut).takes
    found = [
        job for head, number in zip(looked, takes, strict=True) for job in lanes[head.priority, head.queue, head.key][:number]
    ]
    return sorted(found, key=lambda job: (job.priority, job.delay, job.id))


def walking(
    request: ClaimRequest,
    start: Cursor = (),
    *,
    look: int | None = None,
    misses: int = 64,
    at: Position | None = None,
    seen: Mapping[Range, LastClaimed] = {},
) -> tuple[Any, ...]:
    """Return the parameters of a walk."""
    return Walk(look=look or request.room, misses=misses, start=start, at=at, seen=seen).parameters(request)


async def taken(world: World, name: str, request: ClaimRequest, where: Sequence[Any]) -> list[UUID]:
    """Return the ids of the jobs that this statement claims."""
    values = (*packing.settling(()), *packing.claiming(request), *where)
    rows = await world.at.store._fetch(f"claim {name}", *values)  # type: ignore[attr-defined]
    return [row["id"] for row in rows if row["id"] is not None]


@pytest.mark.parametrize("limit", [1, 3, MANY])
@pytest.mark.parametrize("way", ["lanes", "due_range", "due_ids"])
def test_each_way_to_claim_takes_the_first_that_can_be_claimed(home: Home, way: str, limit: int) -> None:
    async def act(at: Scene) -> None:
        world = World(at)
        await world.build(home)
        for queues, isolated in ASKED:
            request = await request_in(world, queues, isolated, limit)
            if not (jobs := world.chosen(request)):
                continue
            where: Sequence[Any]
            match way:
                case "lanes":
                    jobs = dealt(jobs, limit)
                    where = walking(request)
                case "due_range":
                    last = range_of(jobs[-1])
                    jobs = [job for job in jobs if range_of(job) == last]
                    where = (*last, datetime.min, UUID(int=0))
                case _:
                    where = ([row.id for row in await at.store.list(at.everything)], queues)
            ids = [job.id for job in jobs[:limit]]
            assert await taken(world, way, request, where) == ids
            world.plain = [job for job in world.plain if job.id not in ids]
            world.last = [job for job in world.last if job.id not in ids]
            assert await taken(world, way, structs.replace(request, lease=at.chance.uuid4()), where) == []

    play(Stage(home), act)


@pytest.mark.parametrize("way", ["lanes", "due_range"])
def test_claims_along_ranges_continue_after_the_last_claimed_job(home: Home, way: str) -> None:
    async def act(at: Scene) -> None:
        world, later = World(at), await at.enqueue(*(at.new(task="a", priority=1) for _ in range(3)))
        at.advance(1.0)
        urgent = await at.enqueue(*(at.new(task="a") for _ in range(3)))
        request, which = await request_in(world, None, LEAVE, 2), ("a", 0, "default", "")
        where = (*which, at.now, urgent[0])
        if way == "lanes":
            where = walking(request, seen={which: LastClaimed(at.now, urgent[0])})
        assert await taken(world, way, request, where) == list(urgent[1:])
        assert await taken(world, way, request, where) == ([] if way == "due_range" else list(later[:2]))

    play(Stage(home), act)


def test_a_walk_sees_lanes_before_between_and_after_those_it_has_hints_of(home: Home) -> None:
    async def act(at: Scene) -> None:
        world, jobs = World(at), [at.new(task="a", queue=queue) for queue in "abcde" for _ in range(2)]
        await at.enqueue(*jobs)
        request = await request_in(world, None, LEAVE, MANY)
        seen = {("a", 0, queue, ""): LastClaimed(at.now, jobs[2 * "abcde".index(queue)].id) for queue in "bd"}
        expected = [job.id for n, job in enumerate(jobs) if n not in (2, 6)]
        assert await taken(world, "lanes", request, walking(request, (Turn(0, "c", ""),), seen=seen)) == expected

    play(Stage(home), act)


def test_a_walk_that_gives_up_reports_where_and_the_next_one_goes_on_there(home: Home) -> None:
    async def act(at: Scene) -> None:
        jobs = [at.new(task="a", queue=f"q{n}", delay=60.0 if n % 3 else 0.0) for n in range(9)]
        await at.enqueue(*jobs)
        world = World(at)
        request = await request_in(world, None, LEAVE, MANY)
        place, found = None, list[tuple[list[UUID], Position | None]]()
        for _ in range(4):
            values = (
                *packing.settling(()),
                *packing.claiming(request),
                *walking(request, (Turn(0, "q4", ""),), misses=2, at=place),
            )
            *rows, last = await at.store._fetch("claim lanes", *values)  # type: ignore[attr-defined]
            place = msgspec.json.decode(last["report"], type=LaneReport).given_up
            found.append(([row["id"] for row in rows], place))
        assert found == [
            ([jobs[6].id], (0, False, "q7", "")),
            ([jobs[0].id], (0, True, "q1", "")),
            ([jobs[3].id], (0, True, "q4", "")),
            ([], None),
        ]

    play(Stage(home), act)


@pytest.mark.parametrize("is_isolated", [True, False])
def test_a_walk_states_whether_the_lease_is_isolated(home: Home, is_isolated: bool) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(at.new())
        lease = structs.replace(at.new_lease(), is_isolated=is_isolated)
        await at.store.open_lease(lease)
        request = at.request(lease.id, 1)
        values = (*packing.settling(()), *packing.claiming(request), *walking(request))
        rows = await at.store._fetch("claim lanes", *values)  # type: ignore[attr-defined]
        report = msgspec.json.decode(rows[-1]["report"], type=LaneReport)
        assert (report.is_isolated, report.has_owner, len(rows)) == (is_isolated, not is_isolated, 1 if is_isolated else 2)

    play(Stage(home), act)


OTHERS = {
    "more urgent": ({"priority": -1, "queue": "z"}, True),
    "less urgent": ({"priority": 1}, False),
    "of a queue before": ({"queue": "l"}, True),
    "of a queue behind": ({"queue": "n"}, True),
    "of a key before": ({"lane": "j"}, True),
    "of a key behind": ({"lane": "l"}, True),
    "of another known task": ({"task": "b"}, True),
    "of a task that is not known": ({"task": "c"}, False),
    "less urgent, of another task": ({"task": "b", "priority": 1}, False),
}


@pytest.mark.parametrize("queues", [None, ("m",), ("m", "n")])
@pytest.mark.parametrize("which", OTHERS)
def test_a_claim_from_one_range_reports_whether_another_must_be_served(
    home: Home, which: str, queues: tuple[str, ...] | None
) -> None:
    async def act(at: Scene) -> None:
        values, expected = OTHERS[which]
        job = at.new(task="a", queue="m", lane="k")
        await at.enqueue(job, at.new(**{"task": "a", "queue": "m", "lane": "k", **values}))
        request = await request_in(World(at), queues, LEAVE, 1)
        way, wanted = ("due_range", ()) if queues is None else ("due_range_wanted", (queues,))
        where = ("a", 0, "m", "k", datetime.min, UUID(int=0), *wanted)
        columns = (*packing.settling(()), *packing.claiming(request), *where)
        (row,) = await at.store._fetch(f"claim {way}", *columns)  # type: ignore[attr-defined]
        is_wanted = queues is None or values.get("queue", "m") in (*queues, "z")
        assert (row["id"], row["has_others"]) == (job.id, expected and is_wanted)

    play(Stage(home), act)


@pytest.mark.parametrize("way", ["lanes", "due_range", "due_ids"])
def test_no_way_to_claim_takes_from_a_queue_that_is_paused_in_the_meantime(home: Home, way: str) -> None:
    async def act(at: Scene) -> None:
        world, job = World(at), at.new(task="a")
        await at.enqueue(job)
        await store_defaults.lanes(at.store).set_queue("default", QueueSettings(weight=2))
        request = await request_in(world, None, LEAVE, 1)
        where: Sequence[Any] = {
            "lanes": walking(request),
            "due_range": ("a", 0, "default", "", datetime.min, UUID(int=0)),
            "due_ids": ([job.id], None),
        }[way]
        for is_paused in (True, False):
            await at.store.pause(["default"], is_paused=is_paused)
            assert await taken(world, way, request, where) == ([] if is_paused else [job.id])

    play(Stage(home), act)


def test_each_way_to_enqueue_adds_the_priority_of_the_jobs_own_queue(home: Home) -> None:
    async def act(at: Scene) -> None:
        lanes = store_defaults.lanes(at.store)
        await lanes.set_queue("a", QueueSettings(priority=-10))
        await lanes.set_queue("z", QueueSettings(priority=5))
        for more in ({"key": "k"}, {}, {"payload": b"{}" * 1000}):
            jobs = [at.new(queue=queue, priority=1, **more) for queue in "abz"]  # type: ignore[arg-type]
            for group in ([jobs[0]], jobs[1:]) if more else ([jobs[0]], [jobs[1]], [jobs[2]]):
                await at.enqueue(*(structs.replace(job, unique_key=job.unique_key and str(job.id)) for job in group))
            assert [(await at.row(job.id)).priority for job in jobs] == [-9, 1, 6]

    play(Stage(home), act)


def test_jobs_of_a_queue_with_settings_are_due(home: Home) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(job := at.new())
        await store_defaults.lanes(at.store).set_queue("default", QueueSettings(weight=2))
        assert [each.job for each in await at.store.due(["task"], 5)] == [job.id]
        assert await at.store.next_due(["task"]) == 0.0

    play(Stage(home), act)


def test_a_new_lane_is_served_at_once_while_jobs_of_another_are_taken_fast(home: Home) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(*(at.new(lane="b") for _ in range(3 * FAST)))
        lease = await at.lease()
        for _ in range(FAST // 50 + 2):
            assert len(await at.claim(lease, 50)) == 50
        await at.another().enqueue(at.chance.uuid4(), [at.new(lane="a")])
        assert "a" in [claim.key for _ in range(2) for claim in await at.claim(lease, 50)]

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
