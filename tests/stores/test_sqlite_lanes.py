"""Claims of many lanes on SQLite: where the store looks in steps, and where others take jobs between its look and its write."""

import asyncio
import random
from pathlib import Path

import pytest

from holdfast._core.answers import ExchangeAnswer
from holdfast._core.lanes import Cursor, Turn
from holdfast._core.requests import QueueSettings
from holdfast._engine.store_defaults import lanes as offered
from holdfast._ports.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite import lanes
from holdfast.stores.sqlite.lanes import Look, View
from holdfast.testing.contracts.scene import Scene, play
from tests.stores.support import OnFile


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a claim pass few lanes in which nothing is due."""
    for name, number in (("STEPS", 1), ("MORE_STEPS", 2), ("LOOKS", 3)):
        monkeypatch.setattr(lanes, name, number)


async def answers_until_whole(at: Scene, room: int) -> list[ExchangeAnswer]:
    lease, found = await at.lease(), list[ExchangeAnswer]()
    while not found or not found[-1].is_whole:
        found.append(await at.store.exchange((), at.request(lease, room, cursor=found[-1].cursor if found else ())))
        assert len(found) < 100
    return found


@pytest.mark.usefixtures("small_steps")
def test_l14_a_round_goes_on_where_the_claim_before_it_came_to_its_end(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        later = [at.new(priority=-1, queue=f"q{n:02}", lane=key, delay=100.0) for n in range(20) for key in "xy"]
        (job,) = await at.enqueue(at.new(queue="z"))
        await at.enqueue(*later)
        found = await answers_until_whole(at, 1)
        assert [claim.job.id for answer in found for claim in answer.claims] == [job]
        assert 5 < len(found) < 20
        assert all(not answer.claims for answer in await answers_until_whole(at, 1))

    play(OnFile(tmp_path / "jobs.db"), act)


@pytest.mark.usefixtures("small_steps")
def test_a_claim_that_ends_before_it_is_round_serves_what_it_saw(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(*(at.new(queue=f"q{n:02}", delay=100.0 * (n % 5 > 0)) for n in range(60) for _ in range(3)))
        taken = [claim.job.queue for answer in await answers_until_whole(at, 36) for claim in answer.claims]
        assert sorted(set(taken)) == [f"q{n:02}" for n in range(0, 60, 5)]
        assert len(taken) == 36

    play(OnFile(tmp_path / "jobs.db"), act)


def test_jobs_that_others_take_between_look_and_write_are_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(*(at.new(lane=key) for key in "abc" for _ in range(10)))
        thief, lease = await at.lease(), await at.lease()
        other, view = at.another(), Look.view
        stolen = list[int]()

        def look(self: Look) -> View:
            seen = view(self)
            if not stolen:
                stolen.append(1)
                asyncio.run(other.exchange((), at.request(thief, 12)))
            return seen

        monkeypatch.setattr(Look, "view", look)
        assert len(await at.claim(lease, 18)) == 18
        assert len(await at.claim(lease, 18)) == 0

    play(OnFile(tmp_path / "jobs.db"), act)


@pytest.mark.parametrize("seed", range(20))
def test_claims_of_many_lanes_are_those_of_the_reference_store(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)

    async def act(at: Scene) -> None:
        stores: list[Store] = [at.store, MemoryStore(at.clock)]
        queues, keys = [f"q{n}" for n in range(draw.randint(1, 8))], ["", "k", "l"][: draw.randint(1, 3)]
        depths = [(queue, key, draw.choice([0, 1, 2, 9, 30])) for queue in queues for key in keys]
        jobs = [
            at.new(
                task=draw.choice("ab"),
                queue=queue,
                lane=key,
                priority=draw.choice([0, 0, 0, 1]),
                delay=draw.choice([0.0, 0.001, 9.0]),
                expires_in=draw.choice([None, None, 0.5]),
            )
            for queue, key, depth in depths
            for _ in range(depth)
        ]
        draw.shuffle(jobs)
        lease, settings, call = at.new_lease(), QueueSettings(priority=1, weight=3, key_weights={"k": 2}), at.chance.uuid4()
        chosen = queues[: draw.choice([0, 0, 1])]
        for store in stores:
            for queue in chosen:
                await offered(store).set_queue(queue, settings)
            await store.enqueue(call, jobs)
            await store.open_lease(lease)
        at.advance(1.0)
        cursor: Cursor = ()
        for room in [draw.choice([1, 2, 5, 16, 17, 40]) for _ in range(20)]:
            wish = at.request(lease.id, room, prefetch=draw.choice([0, 0, 3]), tasks=draw.choice(["a", "ab"]), cursor=cursor)
            found, expected = [await store.exchange((), wish) for store in stores]
            assert found == expected
            cursor = found.cursor

    play(OnFile(tmp_path / "jobs.db"), act)


@pytest.mark.parametrize("others", ["ac", "a", "c", "abc"])
def test_a_turn_that_is_not_over_is_left_when_its_lane_runs_dry(tmp_path: Path, others: str) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(*(at.new(queue=queue, lane=key) for queue in others for key in "xy" for _ in range(2)))
        memory, cursor = MemoryStore(at.clock), (Turn(0, "b", "x", 1),)
        lease = at.new_lease()
        for store in (at.store, memory):
            await store.open_lease(lease)
        await memory.enqueue(
            at.chance.uuid4(), [at.new(queue=queue, lane=key) for queue in others for key in "xy" for _ in range(2)]
        )
        for room in (1, 3, 9):
            wish = at.request(lease.id, room, cursor=cursor)
            found, expected = [await store.exchange((), wish) for store in (at.store, memory)]
            lanes_of = [[(claim.job.queue, claim.key) for claim in answer.claims] for answer in (found, expected)]
            assert (lanes_of[0], found.cursor) == (lanes_of[1], expected.cursor)

    play(OnFile(tmp_path / "jobs.db"), act)
