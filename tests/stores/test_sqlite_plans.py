"""The cost of a query, counted in steps of SQLite's virtual machine: unlike time, the count is always the same."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.job import ActiveJob, NewJob, State
from holdfast._core.lifecycle import Transition
from holdfast._core.outcome import Fail, Snooze
from holdfast._core.policy import RETENTION_FLOOR, Policy
from holdfast._core.requests import ClaimRequest, JobFilter
from holdfast._ports.store import Store
from holdfast.databases.sqlite.sql import statements
from holdfast.stores.sqlite.database import QUERIES, StoreDatabase
from holdfast.testing.contracts.scene import Scene, answered, done, play, raised
from tests.stores.support import OnFile, inside

GRAIN = 20
CROWD = 4000


async def steps(store: Store, name: str, act: object) -> int:
    """Return how many steps of the virtual machine a coroutine costs, in units of the grain."""
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1

    await inside(store, lambda database: watch(database, tick))
    await act  # type: ignore[misc]
    await inside(store, lambda database: watch(database, None))
    assert count > 0, name
    return count


def watch(database: StoreDatabase, tick: object) -> None:
    connection = database._open("watch")
    connection.set_progress_handler(tick, GRAIN)  # type: ignore[arg-type]


async def cost_of_claim(at: Scene, request: ClaimRequest) -> int:
    return await steps(at.store, "claim", at.store.exchange((), request))


CROWDS = {
    "unknown task": lambda at, n: at.new(task="unknown", priority=-9),
    "unknown tasks": lambda at, n: at.new(task=f"unknown{n}", priority=-9),
    "due later": lambda at, n: at.new(delay=1000.0, priority=-9),
    "due later in the same range": lambda at, n: at.new(delay=1000.0),
    "due, less urgent": lambda at, n: at.new(priority=9),
    "due, behind in the same range": lambda at, n: at.new(),
    "due, behind in a more urgent range": lambda at, n: at.new(priority=-1),
    "due, each with a different priority": lambda at, n: at.new(priority=10 + n),
    "due, each in a different queue": lambda at, n: at.new(priority=10, queue=f"r{n:04}"),
    "due, each with a different key": lambda at, n: at.new(priority=10, queue="r", lane=f"{n:04}"),
    "due later, each in a different queue": lambda at, n: at.new(priority=10, queue=f"r{n:04}", delay=1000.0),
}


@pytest.mark.parametrize("crowd", CROWDS)
def test_a_claim_costs_the_same_beside_any_crowd_of_jobs(tmp_path: Path, crowd: str) -> None:
    async def act(at: Scene) -> None:
        lease = await at.lease()
        # In two ranges: the first claim takes from both. It looks at 16 lanes of that depth; here there are more.
        await at.enqueue(*(at.new(priority=-1) for _ in range(5)), *(at.new() for _ in range(30)))
        await at.enqueue(*(at.new(priority=10, queue=f"q{n:02}") for n in range(20)))
        at.advance(1.0)
        baseline = await cost_of_claim(at, at.request(lease, 10))
        await at.enqueue(*(at.new(priority=-1) for _ in range(5)))
        others: list[NewJob] = [CROWDS[crowd](at, n) for n in range(CROWD)]
        await at.enqueue(*others)
        at.advance(1.0)
        crowded = await cost_of_claim(at, at.request(lease, 10))
        assert crowded <= baseline * 1.5 + 10, (baseline, crowded)

    play(OnFile(tmp_path / "jobs.db"), act)


def test_a_claim_walks_only_as_many_ranges_as_it_takes_jobs(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        lease = await at.lease()
        await at.enqueue(*(at.new(priority=n) for n in range(30)))
        baseline = await cost_of_claim(at, at.request(lease, 10))
        await at.enqueue(*(at.new(priority=n) for n in range(30, CROWD)))
        assert await cost_of_claim(at, at.request(lease, 10)) <= baseline * 1.5 + 10

    play(OnFile(tmp_path / "jobs.db"), act)


def test_a_claim_that_finds_nothing_costs_the_same_beside_any_crowd_of_jobs(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        lease = await at.lease()
        await at.enqueue(at.new(delay=1.0))
        baseline = await cost_of_claim(at, at.request(lease, 10))
        await at.enqueue(*(at.new(task="unknown") for _ in range(CROWD)), *(at.new(delay=1.0) for _ in range(CROWD)))
        assert await cost_of_claim(at, at.request(lease, 10)) <= baseline * 1.5 + 10
        due = await steps(at.store, "next_due", at.store.next_due(["task"]))
        assert due < 100

    play(OnFile(tmp_path / "jobs.db"), act)


@pytest.mark.parametrize("crowd", CROWDS)
def test_a_claim_by_ids_costs_the_same_beside_any_crowd_of_jobs(tmp_path: Path, crowd: str) -> None:
    async def act(at: Scene) -> None:
        lease, ids = await at.lease(), await at.enqueue(*(at.new() for _ in range(20)))
        at.advance(1.0)
        baseline = await cost_of_claim(at, at.request(lease, 10, ids=ids[:10]))
        await at.enqueue(*(CROWDS[crowd](at, n) for n in range(CROWD)))
        at.advance(1.0)
        assert await cost_of_claim(at, at.request(lease, 10, ids=ids[10:])) <= baseline * 1.2 + 10

    play(OnFile(tmp_path / "jobs.db"), act)


def test_a_search_for_due_jobs_reads_no_more_of_a_range_than_it_answers(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(*(at.new() for _ in range(20)))
        baseline = await steps(at.store, "due", at.store.due(["task"], 10))
        await at.enqueue(*(at.new(task="unknown", priority=-1) for _ in range(CROWD)), *(at.new() for _ in range(CROWD)))
        assert await steps(at.store, "due", at.store.due(["task"], 10)) <= baseline * 1.2 + 10

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
            active_jobs = await at.store.held(lease)
            moves = [raised(active) if index % 2 else done(active) for index, active in enumerate(active_jobs)]
            settle = await steps(at.store, "settle", at.store.exchange(moves))
            again = await steps(at.store, "settle again", at.store.exchange(moves))
            beat = await steps(at.store, "beat", at.store.beat([lease]))
            await at.store.request_cancel([move.job for move in moves])
            return claim, settle, again, beat

        baseline = await round_of(20)
        await round_of(CROWD)
        crowded = await round_of(20)
        assert all(late <= early * 1.5 + 10 for early, late in zip(baseline, crowded, strict=True)), (baseline, crowded)

    play(OnFile(tmp_path / "jobs.db"), act)


def test_beats_and_audits_do_not_grow_with_the_jobs_of_other_leases(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        few, many = await at.lease(), await at.lease()
        await at.enqueue(*(at.new() for _ in range(CROWD + 5)))
        await at.claim(few, 5)

        async def costs() -> list[int]:
            return [
                await steps(at.store, "beat", at.store.beat([few])),
                await steps(at.store, "held", at.store.held(few)),
                await steps(at.store, "claim", at.store.exchange((), at.request(few, 1, tasks=()))),
                await steps(at.store, "claim by ids", at.store.exchange((), at.request(few, 1, ids=()))),
            ]

        baseline = await costs()
        await at.claim(many, CROWD)
        assert [late <= early * 1.5 + 10 for early, late in zip(baseline, await costs(), strict=True)] == [True] * 4
        assert await steps(at.store, "beat", at.store.beat([many])) <= baseline[0] * 1.5 + 10

    play(OnFile(tmp_path / "jobs.db"), act)


@pytest.mark.parametrize("ids", [None, ()])
def test_a_claim_of_an_isolated_lease_reads_only_the_jobs_of_that_lease(tmp_path: Path, ids: tuple[UUID, ...] | None) -> None:
    async def act(at: Scene) -> None:
        lease = structs.replace(at.new_lease(), is_isolated=True)
        await at.store.open_lease(lease)
        baseline = await cost_of_claim(at, at.request(lease.id, ids=ids))
        await at.enqueue(*(at.new(task="unknown") for _ in range(CROWD)))
        await at.claim(await at.lease(), CROWD // 2, tasks=["unknown"])
        assert await cost_of_claim(at, at.request(lease.id, ids=ids)) <= baseline * 1.5 + 10

    play(OnFile(tmp_path / "jobs.db"), act)


@pytest.mark.parametrize("is_by_ids", [False, True])
def test_an_owner_of_thousands_claims_as_cheaply_as_one_of_none(tmp_path: Path, is_by_ids: bool) -> None:
    async def act(at: Scene) -> None:
        lease = await at.lease()
        jobs = await at.enqueue(*(at.new() for _ in range(CROWD + 20)))
        baseline = await cost_of_claim(at, at.request(lease, 10, ids=jobs[:10] if is_by_ids else None))
        await at.claim(lease, CROWD)
        assert await cost_of_claim(at, at.request(lease, 10, ids=jobs[-10:] if is_by_ids else None)) <= baseline * 1.5 + 10
        assert len(await at.store.held(lease)) == CROWD + 20

    play(OnFile(tmp_path / "jobs.db"), act)


# Reads for operators scan the whole table, and facts read its end; no other query does.
INDEXED = set(QUERIES) - {"counts", "list", "list_all", "list_waiting", "queues", "facts", "is_crowded"}


def test_no_query_of_the_engine_walks_the_jobs(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(at.new())
        for name in sorted(INDEXED):
            plan = await inside(at.store, lambda database, name=name: plan_of(database, name))
            walks = [line for line in plan if re.match(r"SCAN (holdfast_)?(jobs?|attempts|payloads)\b", line)]
            # Only the active rows, the held ones, and the newest failed ones, by their indexes.
            assert [line for line in walks if not re.search("INDEX holdfast_(active_lease|held|failed)$", line)] == [], (
                name,
                plan,
            )

    play(OnFile(tmp_path / "jobs.db"), act)


SEARCHES = {
    "enqueue": "holding USING INDEX holdfast_unique_keys (task=? AND unique_key=?)",
    "expire": "holdfast_jobs USING INDEX holdfast_expiring (claimable_until>? AND claimable_until<?)",
    "forget_pause": "holdfast_members USING INDEX holdfast_members_paused (flow=?)",
    "list": "holdfast_jobs USING INDEX sqlite_autoindex_holdfast_jobs_1 (id>? AND id<?)",
    "list_all": "holdfast_jobs USING INDEX sqlite_autoindex_holdfast_jobs_1 (id>? AND id<?)",
    "list_ended_badly": "holdfast_jobs USING INDEX holdfast_ended_badly (state=? AND id>? AND id<?)",
    "list_of_error": "holdfast_jobs USING INDEX holdfast_error_keys (error_key=? AND id>? AND id<?)",
    "next_due": "job USING INDEX holdfast_waiting (task=? AND priority=? AND queue=? AND key=?)",
    "prune": "holdfast_jobs USING INDEX holdfast_prunable (delete_after>? AND delete_after<?)",
    "purge": "job USING INDEX holdfast_waiting (task=? AND priority=? AND queue=?)",
    "reopen": "holding USING INDEX holdfast_unique_keys (task=? AND unique_key=?)",
    "taken": "holding USING INDEX holdfast_unique_keys (task=? AND unique_key=?)",
    "unfinished_flows": "holdfast_jobs USING INDEX holdfast_unfinished_roots (id>?)",
    "waiting_tasks": "holdfast_jobs USING INDEX holdfast_waiting (task>?)",
}


def test_errors_cost_the_same_beside_any_crowd_of_jobs_and_of_older_failures(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        async def fail(count: int) -> None:
            await at.enqueue(*(at.new() for _ in range(count)))
            claims = await at.claim(await at.lease(), count)
            await at.settle(*(answered(claim.job, Fail("no")) for claim in claims))

        await fail(50)
        baseline = await steps(at.store, "errors", at.store.errors(20, 5))  # type: ignore[attr-defined]
        await fail(CROWD // 2)
        await at.enqueue(*(at.new(task="unknown") for _ in range(CROWD)))
        assert await steps(at.store, "errors", at.store.errors(20, 5)) <= baseline * 1.2 + 10  # type: ignore[attr-defined]

    play(OnFile(tmp_path / "jobs.db"), act)


def test_a_look_costs_the_same_beside_any_crowd_of_finished_jobs(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        async def end(count: int) -> None:
            await at.enqueue(*(at.new() for _ in range(3 * count)))
            jobs = [claim.job for claim in await at.claim(await at.lease(), 2 * count)]
            await at.settle(*(answered(job, Fail("no")) for job in jobs[:count]), *map(done, jobs[count:]))
            await at.store.request_cancel([row.id for row in await at.store.list(JobFilter(state=State.AVAILABLE, limit=CROWD))])

        looks: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: at.store.counts(None, 20),
            lambda: at.store.queues(20),
            lambda: at.store.list(JobFilter(state=State.FAILED, limit=10)),
            lambda: at.store.list(JobFilter(state=State.CANCELLED, limit=10)),
            lambda: at.store.list(JobFilter(state=(State.SCHEDULED, State.BLOCKED))),
        )
        await at.enqueue(*(at.new(delay=1e6) for _ in range(20)))
        await end(30)
        baseline = [await steps(at.store, "look", look()) for look in looks]
        await end(CROWD // 4)
        after = [await steps(at.store, "look", look()) for look in looks]
        assert all(now <= before * 1.2 + 10 for before, now in zip(baseline, after, strict=True)), (baseline, after)

    play(OnFile(tmp_path / "jobs.db"), act)


@pytest.mark.parametrize("name", SEARCHES)
def test_a_query_uses_the_index_made_for_it(tmp_path: Path, name: str) -> None:
    async def act(at: Scene) -> None:
        plan = await inside(at.store, lambda database: plan_of(database, name))
        assert any(line.replace("COVERING INDEX", "INDEX").startswith(f"SEARCH {SEARCHES[name]}") for line in plan), plan

    play(OnFile(tmp_path / "jobs.db"), act)


def plan_of(database: StoreDatabase, name: str) -> list[str]:
    """Return the plans of a statement and of its trigger's statements, which SQLite does not explain with it."""
    connection, query = database._open("plan"), QUERIES[name]
    bodies = [program.partition("\nBEGIN\n")[2].rpartition("END;")[0] for program in query.programs if "TRIGGER" in program]
    inner = [re.sub(r"\bNEW\.", ":", each) for body in bodies for each in statements(body)]
    lines = []
    for statement in (query.statement, *inner):
        values = dict.fromkeys(re.findall(r":(\w+)", statement))
        lines += [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    return lines


@pytest.mark.parametrize(
    ("name", "search"),
    [("prune", "holdfast_beats_prunable (delete_after<?)"), ("worker_history", "holdfast_beats_worker (worker=?)")],
)
def test_the_history_of_workers_is_read_by_its_indexes(tmp_path: Path, name: str, search: str) -> None:
    async def act(at: Scene) -> None:
        plan = await inside(at.store, lambda database: plan_of(database, name))
        assert f"SEARCH holdfast_beats USING INDEX {search}" in [line.replace("COVERING INDEX", "INDEX") for line in plan]
        assert not [line for line in plan if line.startswith("SCAN holdfast_beats")]

    play(OnFile(tmp_path / "jobs.db"), act)


KEEPERS = {
    "expire": (lambda at: at.new(expires_in=1.0), lambda at: at.store.expire(10)),
    "purge": (lambda at: at.new(queue="purged"), lambda at: at.store.purge("purged", 10)),
}


@pytest.mark.parametrize("verb", KEEPERS)
def test_a_bounded_verb_costs_the_same_for_any_amount_of_work_that_is_left(tmp_path: Path, verb: str) -> None:
    make, keep = KEEPERS[verb]

    async def act(at: Scene) -> None:
        await at.enqueue(*(make(at) for _ in range(20)))
        at.advance(2.0)
        baseline = await steps(at.store, verb, keep(at))
        await at.enqueue(*(make(at) for _ in range(CROWD)), *(at.new(task=f"t{n % 3}") for n in range(CROWD)))
        at.advance(2.0)
        assert await steps(at.store, verb, keep(at)) <= baseline * 1.5 + 10

    play(OnFile(tmp_path / "jobs.db"), act)


def test_pruning_reads_the_rows_it_deletes_and_not_the_history(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        async def finish(count: int, retention: float) -> None:
            news = [at.new(policy=Policy(retention=retention)) for _ in range(count)]
            for job in news[:20]:
                await at.enqueue(job)  # a receipt each
            await at.enqueue(*news[20:])
            await at.store.request_cancel([job.id for job in news])

        await finish(20, 0.0)
        at.advance(RETENTION_FLOOR)
        baseline = await steps(at.store, "prune", at.store.prune(10))
        assert (await at.store.prune(100)).jobs == 10
        await finish(CROWD, 1e6)
        await finish(CROWD, 0.0)
        at.advance(RETENTION_FLOOR)
        assert await steps(at.store, "prune", at.store.prune(10)) <= baseline * 1.5 + 10

    play(OnFile(tmp_path / "jobs.db"), act)


def test_pruning_of_snoozes_reads_the_rows_it_deletes_and_not_the_history(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        async def attempt(count: int, end: Callable[[ActiveJob], Transition]) -> None:
            await at.enqueue(*(at.new() for _ in range(count)))
            claims = await at.claim(await at.lease(), count)
            assert len(claims) == count
            await at.settle(*(end(claim.job) for claim in claims))
            await at.store.request_cancel([job.id for job in await at.store.list(at.everything)])

        await attempt(20, lambda active: answered(active, Snooze(1.0)))
        at.advance(RETENTION_FLOOR)
        baseline = await steps(at.store, "prune", at.store.prune(10))
        assert (await at.store.prune(100)).attempts == 10
        await attempt(CROWD, raised)
        await attempt(CROWD, lambda active: answered(active, Snooze(1.0)))
        at.advance(RETENTION_FLOOR)
        assert await steps(at.store, "prune", at.store.prune(10)) <= baseline * 1.5 + 10

    play(OnFile(tmp_path / "jobs.db"), act)


def test_jobs_without_a_key_cost_the_same_beside_jobs_with_one(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        lease = await at.lease()

        async def costs() -> list[int]:
            add = await steps(at.store, "enqueue", at.enqueue(*(at.new() for _ in range(20))))
            claim = await cost_of_claim(at, at.request(lease, 20))
            settle = await steps(at.store, "settle", at.store.exchange([done(active) for active in await at.store.held(lease)]))
            return [add, claim, settle]

        baseline = await costs()
        await at.enqueue(*(at.new(key=str(number), task="other") for number in range(CROWD)))
        assert all(late <= early * 1.1 + 5 for early, late in zip(baseline, await costs(), strict=True))

    play(OnFile(tmp_path / "jobs.db"), act)


def test_a_claim_passes_over_jobs_by_their_index_only(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        lease = await at.lease()
        await at.enqueue(*(at.new(expires_in=1.0) for _ in range(CROWD)), at.new())
        at.advance(2.0)
        # Four scans of the expired jobs, about ten steps of the virtual machine for each job.
        assert await cost_of_claim(at, at.request(lease, 10)) * GRAIN < CROWD * 4 * 20
        assert len(await at.store.held(lease)) == 1

    play(OnFile(tmp_path / "jobs.db"), act)
