"""What a query costs, counted in steps of SQLite's machine: no clock, so no luck."""

import re
from pathlib import Path

import pytest

from holdfast._core.job import NewJob
from holdfast._ports.store import ClaimRequest, Store
from holdfast.stores.sqlite.database import QUERIES, Database
from holdfast.testing.contracts.scene import Scene, done, play, raised
from tests.stores.support import OnFile, inside

GRAIN = 20
CROWD = 4000


async def steps(store: Store, name: str, act: object) -> int:
    """How many steps of the machine a coroutine costs, in units of the grain."""
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1

    await inside(store, lambda database: watch(database, tick))
    await act  # type: ignore[misc]
    await inside(store, lambda database: watch(database, None))
    assert count > 0, name
    return count


def watch(database: Database, tick: object) -> None:
    connection = database._open("watch")
    connection.set_progress_handler(tick, GRAIN)  # type: ignore[arg-type]


async def cost_of_claim(at: Scene, request: ClaimRequest) -> int:
    return await steps(at.store, "claim", at.store.exchange((), request))


CROWDS = {
    "unknown task": lambda at, n: at.new(task="unknown", priority=-9),
    "unknown tasks": lambda at, n: at.new(task=f"unknown{n}", priority=-9),
    "due later": lambda at, n: at.new(delay=1000.0, priority=-9),
    "due later in the same line": lambda at, n: at.new(delay=1000.0),
    "due, less urgent": lambda at, n: at.new(priority=9),
    "due, behind in the same line": lambda at, n: at.new(),
    "due, behind in a more urgent line": lambda at, n: at.new(priority=-1),
    "due, each with a priority of its own": lambda at, n: at.new(priority=10 + n),
}


@pytest.mark.parametrize("crowd", CROWDS)
def test_a_claim_costs_the_same_whoever_else_waits(tmp_path: Path, crowd: str) -> None:
    async def act(at: Scene) -> None:
        lease = await at.lease()
        # In two lines: the first claim takes from both.
        await at.enqueue(*(at.new(priority=-1) for _ in range(5)), *(at.new() for _ in range(30)))
        at.advance(1.0)
        alone = await cost_of_claim(at, at.request(lease, 10))
        await at.enqueue(*(at.new(priority=-1) for _ in range(5)))
        others: list[NewJob] = [CROWDS[crowd](at, n) for n in range(CROWD)]
        await at.enqueue(*others)
        at.advance(1.0)
        crowded = await cost_of_claim(at, at.request(lease, 10))
        assert crowded <= alone * 1.5 + 10, (alone, crowded)

    play(OnFile(tmp_path / "jobs.db"), act)


def test_a_claim_walks_only_as_many_lines_as_it_takes_jobs(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        lease = await at.lease()
        await at.enqueue(*(at.new(priority=n) for n in range(30)))
        alone = await cost_of_claim(at, at.request(lease, 10))
        await at.enqueue(*(at.new(priority=n) for n in range(30, CROWD)))
        assert await cost_of_claim(at, at.request(lease, 10)) <= alone * 1.5 + 10

    play(OnFile(tmp_path / "jobs.db"), act)


def test_a_claim_that_finds_nothing_costs_the_same_whoever_waits(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        lease = await at.lease()
        await at.enqueue(at.new(delay=1.0))
        alone = await cost_of_claim(at, at.request(lease, 10))
        await at.enqueue(*(at.new(task="unknown") for _ in range(CROWD)), *(at.new(delay=1.0) for _ in range(CROWD)))
        assert await cost_of_claim(at, at.request(lease, 10)) <= alone * 1.5 + 10
        due = await steps(at.store, "next_due", at.store.next_due(["task"]))
        assert due < 100

    play(OnFile(tmp_path / "jobs.db"), act)


def test_a_poll_that_finds_nothing_writes_nothing(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        lease = await at.lease()
        await at.enqueue(at.new(task="unknown"), at.new(delay=1.0), at.new())
        assert len(await at.claim(lease, 10)) == 1
        other = at.another()
        before = await inside(other, lambda database: database.pragma("data_version"))
        assert await at.claim(lease, 10) == ()
        assert await inside(other, lambda database: database.pragma("data_version")) == before
        await at.enqueue(at.new())
        assert await inside(other, lambda database: database.pragma("data_version")) != before

    play(OnFile(tmp_path / "jobs.db"), act)


def test_history_costs_nothing(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        lease = await at.lease()

        async def round_of(count: int) -> tuple[int, int, int, int]:
            await at.enqueue(*(at.new() for _ in range(count)))
            claim = await cost_of_claim(at, at.request(lease, count))
            holds = await at.store.held(lease)
            moves = [raised(hold) if place % 2 else done(hold) for place, hold in enumerate(holds)]
            settle = await steps(at.store, "settle", at.store.exchange(moves))
            again = await steps(at.store, "settle again", at.store.exchange(moves))
            beat = await steps(at.store, "beat", at.store.beat([lease]))
            await at.store.request_cancel([move.job for move in moves])
            return claim, settle, again, beat

        alone = await round_of(20)
        await round_of(CROWD)
        crowded = await round_of(20)
        assert all(late <= early * 1.5 + 10 for early, late in zip(alone, crowded, strict=True)), (alone, crowded)

    play(OnFile(tmp_path / "jobs.db"), act)


def test_beats_and_audits_do_not_grow_with_what_others_hold(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        few, many = await at.lease(), await at.lease()
        await at.enqueue(*(at.new() for _ in range(CROWD + 5)))
        await at.claim(few, 5)

        async def costs() -> list[int]:
            return [
                await steps(at.store, "beat", at.store.beat([few])),
                await steps(at.store, "held", at.store.held(few)),
                await steps(at.store, "claim", at.store.exchange((), at.request(few, 1, tasks=()))),
            ]

        alone = await costs()
        await at.claim(many, CROWD)
        assert [late <= early * 1.5 + 10 for early, late in zip(alone, await costs(), strict=True)] == [True] * 3
        assert await steps(at.store, "beat", at.store.beat([many])) <= alone[0] * 1.5 + 10

    play(OnFile(tmp_path / "jobs.db"), act)


def test_an_owner_of_thousands_claims_as_cheaply_as_one_of_none(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        lease = await at.lease()
        await at.enqueue(*(at.new() for _ in range(CROWD + 20)))
        alone = await cost_of_claim(at, at.request(lease, 10))
        await at.claim(lease, CROWD)
        assert await cost_of_claim(at, at.request(lease, 10)) <= alone * 1.5 + 10

    play(OnFile(tmp_path / "jobs.db"), act)


# Reads for people walk the whole table; these do not.
INDEXED = set(QUERIES) - {"counts", "list", "record", "exchange", "enqueue", "reopen"}


def test_no_query_of_the_engine_walks_the_jobs(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(at.new())
        for name in sorted(INDEXED):
            plan = await inside(at.store, lambda database, name=name: plan_of(database, name))
            walks = [line for line in plan if line.startswith("SCAN") and ("jobs" in line or "attempts" in line)]
            # The active rows alone, by their own index.
            assert [line for line in walks if "INDEX holdfast_active" not in line] == [], (name, plan)

    play(OnFile(tmp_path / "jobs.db"), act)


def plan_of(database: Database, name: str) -> list[str]:
    connection = database._open("plan")
    values = dict.fromkeys(re.findall(r":(\w+)", QUERIES[name].statement))
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {QUERIES[name].statement}", values)]
