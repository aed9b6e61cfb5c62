"""Attacks on the store's database, and the promises that hold under them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from itertools import product
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from holdfast._core.answers import Answer, Duplicate, EnqueueAnswer
from holdfast._core.job import ActiveJob, NewJob, RescueReason
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.requests import ProgressUpdate
from holdfast._ports.store import Store
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.databases import queries
from holdfast.errors import StoreBusy
from holdfast.stores.postgres import parameters as packing
from holdfast.stores.postgres import schema
from holdfast.stores.postgres.store import PostgresStore
from holdfast.testing.contracts.scene import EARLY, PROCESS, Scene, done, play, raised, rescued
from tests.e2e.waiting import STALL
from tests.stores.postgres_faulty_databases import Site

AS_OURS = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}
LONG = b'"' + b"x" * packing.INLINE + b'"'  # in bodies

Verb = Callable[[Store], Coroutine[Any, Any, object]]


@asynccontextmanager
async def connected(dsn: str, **settings: str) -> AsyncIterator[Any]:
    link = await asyncpg.connect(dsn, server_settings=settings)
    try:
        yield link
    finally:
        await link.close()


async def until_a_session_waits(link: Any) -> None:
    async with asyncio.timeout(STALL):
        while not await link.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            pass


# open transactions of callers


def test_l4_an_open_transaction_that_lost_a_key_does_not_block_the_holder_of_the_key(database: str) -> None:
    """Nor does it block the jobs that are settled in the same call."""

    async def act(at: Scene) -> None:
        async with connected(database) as first, connected(database) as second, connected(database) as watch:
            winner, loser, innocent = at.new(key="k"), at.new(key="k"), at.new()
            begun = first.transaction()
            await begun.start()
            await _within(at, first, winner)
            async with second.transaction():
                waiting = asyncio.create_task(_within(at, second, loser))
                await until_a_session_waits(watch)
                await begun.commit()
                assert await waiting == EnqueueAnswer({loser.id: Duplicate(winner.id, True)})
                await at.enqueue(innocent)
                claims = await at.claim(await at.lease(), 2)
                assert await at.settle(*(done(claim.job) for claim in claims)) == (Answer.APPLIED, Answer.APPLIED)

    play(Site(database), act)


async def _within(at: Scene, link: Any, job: NewJob) -> EnqueueAnswer:
    answer = at.store.enqueue_within(link, at.chance.uuid4(), [job])
    assert not isinstance(answer, EnqueueAnswer)
    return await answer


def test_s11_a_key_that_a_rolled_back_transaction_frees_goes_to_the_call_that_waited(database: str) -> None:
    async def act(at: Scene) -> None:
        async with connected(database) as first, connected(database) as watch:
            job = at.new(key="k")
            begun = first.transaction()
            await begun.start()
            await _within(at, first, at.new(key="k"))
            waiting = asyncio.create_task(at.send(job))
            await until_a_session_waits(watch)
            await begun.rollback()
            assert await waiting == EnqueueAnswer()
            assert await watch.fetch("SELECT job FROM holdfast.unique_keys") == [(job.id,)]

    play(Site(database), act)


# plans


def test_a_call_of_many_keyed_jobs_does_not_compare_them_with_each_other(database: str) -> None:
    async def act(at: Scene) -> None:
        jobs = [at.new(key=f"key {number}") for number in range(200)]
        _, parameter = packing.enqueue(at.chance.uuid4(), jobs)
        async with connected(database, **AS_OURS) as link:
            assert await _most_rows(link, await _planned(link, "enqueue", "json", [parameter])) <= 5 * len(jobs)

    play(Site(database), act)


_FULL = """
INSERT INTO holdfast.unique_keys SELECT 'task', n::text || ' of others', gen_random_uuid(), '' FROM generate_series(1, 2000) n;
INSERT INTO holdfast.payloads SELECT gen_random_uuid(), '' FROM generate_series(1, 2000);
INSERT INTO holdfast.attempts (job, claim_number, claim_id, delete_day, requested_state, attempt, worker)
    SELECT gen_random_uuid(), n, gen_random_uuid(), (SELECT last FROM holdfast.partition_days), 'completed', 2, ''
    FROM generate_series(1, 2000) n;
INSERT INTO holdfast.finished (
    id, delete_day, delete_after, state, claim_number, task, queue, priority, cancel_requested, attempt, failures, crashes,
    created_at, available_at, finished_at, policy, payload
) SELECT
    gen_random_uuid(), (SELECT last FROM holdfast.partition_days), now(), 'completed', n, 'task', 'default', 0, false, 1, 0, 0, now(),
    now(), now(), '{}', '' FROM generate_series(1, 2000) n
"""


def test_l4_plans_made_on_empty_tables_read_few_rows_after_the_tables_have_grown(database: str) -> None:
    async def act(at: Scene) -> None:
        cancelled, deleted, purged = (at.new(queue=name, key=name, payload=LONG) for name in ("cancelled", "deleted", "purged"))
        await at.enqueue(cancelled, deleted, purged, at.new(queue="expired", key="expired", payload=LONG, expires_in=EARLY))
        wanted = packing.enqueue(at.chance.uuid4(), [at.new(key="k", payload=LONG)])[1]
        ids, tokens = f"{{{at.new().id}}}", "uuid[], uuid[], bigint[]"
        asked = {
            "enqueue": ("json", [wanted]),
            "request_cancel": ("uuid[]", [f"{{{cancelled.id}}}"]),
            "reopen": ("uuid[], boolean, uuid[]", [ids, "false", "{}"]),
            "delete": ("uuid[], boolean", [f"{{{deleted.id}}}", "false"]),
            "purge": ("text, bigint, timestamptz", ["purged", "10", "infinity"]),
            "expire": ("bigint", ["10"]),
            "exchange_answers": (tokens, [ids, ids, "{1}"]),
            "annotate": (f"{tokens}, bytea[], text[], text[]", [ids, ids, "{1}", "{NULL}", "{NULL}", "{NULL}"]),
        }
        async with connected(database, **AS_OURS) as link:
            plans = {name: await _planned(link, name, types, values) for name, (types, values) in asked.items()}
            await link.execute(_FULL)
            assert {name: rows for name, plan in plans.items() if (rows := await _most_rows(link, plan)) > 500} == {}

    play(Site(database), act)


async def _planned(link: Any, name: str, types: str, values: list[str]) -> str:
    """Prepare one of the store's statements; return how to execute it by the plan that is made now."""
    text = queries.numbered(queries.read(schema.MIGRATIONS[0].parent.parent / "queries" / f"{name}.sql")).rstrip("; \n")
    await link.execute(f"PREPARE {name} ({types}) AS {text}")
    quoted = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
    await link.execute(f"EXPLAIN EXECUTE {name} ({quoted})")
    return f"EXECUTE {name} ({quoted})"


async def _most_rows(link: Any, plan: str) -> int:
    """Return the most rows that any step of a plan read."""
    ((found,),) = await link.fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) {plan}")
    return max(_rows_of(json.loads(found)[0]["Plan"]))


def _rows_of(step: dict[str, Any]) -> Iterator[int]:
    looked_at = step["Actual Rows"] + sum(step.get(f"Rows Removed by {kind}", 0) for kind in ("Filter", "Join Filter"))
    yield round(looked_at * step["Actual Loops"])
    for inner in step.get("Plans", ()):
        yield from _rows_of(inner)


# two concurrent verbs


class Open(PostgresStore):
    """A store whose verbs are parts of one transaction."""

    link: Any

    async def _run(self, pool: Any, sql: str, arguments: tuple[Any, ...], limit: float) -> list[Any]:
        return await self.link.fetch(sql, *arguments)  # type: ignore[no-any-return]

    @asynccontextmanager
    async def _in_transaction(self, pool: Any, limit: float, settings: str = "") -> AsyncIterator[Any]:
        yield self.link


_WRONG = {
    "in two places": "SELECT id FROM holdfast.jobs GROUP BY id HAVING count(*) > 1",
    "a key that nobody or somebody else has": """
        SELECT id FROM (SELECT id, unique_key FROM holdfast.pending UNION ALL SELECT id, unique_key FROM holdfast.active) AS unfinished
        FULL JOIN holdfast.unique_keys ON job = id AND key = unique_key
        WHERE id IS NULL OR unique_key IS NOT NULL AND job IS NULL
    """,
    "an attempt twice": "SELECT job FROM holdfast.attempts GROUP BY job, claim_number, claim_id HAVING count(*) > 1",
    "an attempt of nobody, or that is kept for longer or shorter than its job": """
        SELECT job FROM holdfast.attempts LEFT JOIN holdfast.jobs ON jobs.id = job LEFT JOIN holdfast.finished ON finished.id = job
        WHERE jobs.id IS NULL OR attempts.delete_day <> coalesce(finished.delete_day, '-infinity')
    """,
    "a payload without a job": "SELECT job FROM holdfast.payloads WHERE job NOT IN (SELECT id FROM holdfast.jobs)",
    "a job without its payload": "SELECT id FROM holdfast.jobs WHERE payload IS NULL",
}
_EMPTY = "DELETE FROM holdfast.{}"
_TABLES = ("pending", "active", "finished", "attempts", "payloads", "receipts", "unique_keys", "leases")


def _verbs(at: Scene, job: NewJob, active: ActiveJob) -> dict[str, Verb]:
    """Return the verbs that may act on a job that was claimed once."""
    again = structs.replace(raised(active), delay=0.0)
    return {
        "done": lambda store: store.exchange([done(active)]),
        "tried again": lambda store: store.exchange([again]),
        "rescued": lambda store: store.exchange([rescued(active, LeaseEnd(RescueReason.CRASHED))]),
        "reported": lambda store: store.report([ProgressUpdate(job=job.id, token=active.token, stage="half")]),
        "cancelled": lambda store: store.request_cancel([job.id]),
        "reopened": lambda store: store.reopen([job.id]),
        "deleted": lambda store: store.delete([job.id]),
        "asked for by another": lambda store: store.enqueue(at.chance.uuid4(), [structs.replace(job, id=at.chance.uuid7())]),
    }


@pytest.mark.parametrize("state", ["running", "rescued", "finished"])
def test_s1_any_two_concurrent_verbs_leave_each_job_in_one_place_with_its_key_and_payload(database: str, state: str) -> None:
    """The second verb begins, and takes its snapshot, after the first has changed rows and before it commits."""

    async def act(at: Scene) -> None:
        at.chance = SystemRandomness()  # type: ignore[assignment]
        async with connected(database) as link, connected(database) as watch:
            first = Open(database, clock=SystemClock(), chance=SystemRandomness(), process=PROCESS)
            first.link = link
            names = list(_verbs(at, *await _fresh(at, watch, state)))
            for one, two in product(names, names):
                job, active = await _fresh(at, watch, state)
                verbs = _verbs(at, job, active)
                async with link.transaction():
                    await verbs[one](first)
                    second = asyncio.create_task(verbs[two](at.store))
                    await _until_it_waits_or_ends(second, watch)
                await _insist(second, verbs[two], at.store)
                for problem, query in _WRONG.items():
                    assert not await watch.fetch(query), f"{one}, then {two}: {problem}"

    play(Site(database), act)


async def _insist(first: "asyncio.Task[Any]", verb: Verb, store: Store) -> None:
    """Repeat a verb, as the engine does, while another session has the job locked."""
    asking: Any = first
    while True:
        try:
            answer = await asking
        except StoreBusy:
            answer = None
        if answer is not None and Answer.BUSY not in getattr(answer, "answers", ()):
            return
        asking = verb(store)


async def _fresh(at: Scene, link: Any, state: str) -> tuple[NewJob, ActiveJob]:
    for table in _TABLES:
        await link.execute(_EMPTY.format(table))
    job = at.new(key="k", payload=LONG)
    await at.enqueue(job)
    lease = await at.lease()
    (claim,) = await at.claim(lease)
    if state != "running":
        await at.settle(structs.replace(raised(claim.job), delay=0.0))
        (claim,) = await at.claim(lease)
    if state == "rescued":
        await at.store.end_lease(lease, LeaseEnd(RescueReason.CRASHED))
    if state == "finished":
        await at.settle(done(claim.job))
    return job, claim.job


async def _until_it_waits_or_ends(task: asyncio.Task[Any], link: Any) -> None:
    async with asyncio.timeout(STALL):
        while not task.done() and not await link.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            pass
