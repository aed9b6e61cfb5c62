"""The peers: versions, the store each works on, its settings, and where its waiting and unfinished jobs are seen."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Store(StrEnum):
    """What keeps the jobs."""

    POSTGRES = "PostgreSQL"
    SQLITE = "SQLite"
    REDIS = "Redis"


class Entry(Struct, frozen=True):
    """One row of the table: a peer under one setting with one kind of handler. ``jobs`` to drain: about two seconds of work."""

    setting: str
    kind: str
    jobs: int
    text: str


class Peer(Struct, frozen=True, kw_only=True):
    """One library. ``driver``: its file in ``drivers``, run by the interpreter of its environment."""

    name: str
    store: Store
    driver: str
    entries: tuple[Entry, ...]
    head: str
    """Asks for a value that changes when a worker takes the first of the waiting jobs."""
    left: str
    """Asks for a value that is there (and not 0) while a job is unfinished."""
    packages: tuple[str, ...] = ()
    environment: str = ""
    python: tuple[int, int] = (3, 11)
    scales: bool = False
    """One command starts all the worker processes it is asked for."""
    source: str = ""
    """Where its authors recommend the best setting."""
    share: float = 1.0
    """Of the jobs that the others enqueue, for a peer that would take long."""

    @property
    def is_node(self) -> bool:
        """Whether Node.js runs it."""
        return self.driver.endswith(".js")


_HOLDFAST = "holdfast worker --log-level warning"
_CELERY = "redis: jobs in memory; ignore_result"
_OURS_POSTGRES = Peer(
    name="holdfast, PostgreSQL",
    store=Store.POSTGRES,
    driver="run_holdfast.py",
    scales=True,
    entries=(
        Entry("defaults", "async", 100_000, _HOLDFAST),
        Entry("best", "async", 100_000, f"{_HOLDFAST} --concurrency 1000"),
        Entry("defaults", "def", 30_000, _HOLDFAST),
        Entry("defaults", "process", 5_000, _HOLDFAST),
    ),
    head="SELECT id FROM holdfast.pending ORDER BY queue, priority, available_at, id LIMIT 1",
    left="SELECT EXISTS (SELECT FROM holdfast.pending ORDER BY id DESC LIMIT 1) OR EXISTS (SELECT FROM holdfast.active)",
)
_OURS_SQLITE = Peer(
    name="holdfast, SQLite",
    store=Store.SQLITE,
    driver="run_holdfast.py",
    scales=True,
    entries=(
        Entry("defaults", "async", 60_000, _HOLDFAST),
        Entry("defaults", "def", 30_000, _HOLDFAST),
        Entry("defaults", "process", 5_000, _HOLDFAST),
    ),
    head="SELECT id FROM holdfast_jobs WHERE state = 'available' ORDER BY queue, priority, available_at, id LIMIT 1",
    left="SELECT 1 FROM holdfast_jobs WHERE state IN ('available', 'claimed', 'running') LIMIT 1",
)
OURS = (_OURS_POSTGRES, _OURS_SQLITE)
_RAW = "one INSERT into Holdfast's table after the other, each its own commit"


def _raw(name: str, store: Store, kind: str) -> Peer:
    return Peer(name=name, store=store, driver="run_raw.py", entries=(Entry("raw", kind, 0, _RAW),), head="", left="")


RAW = (
    _raw("asyncpg", Store.POSTGRES, "async"),
    _raw("sqlite3", Store.SQLITE, "def"),
    _raw("sqlite3 in a thread", Store.SQLITE, "async"),
)

_JOBS_OF_GRAPHILE = "FROM graphile_worker._private_jobs"
GRAPHILE = Peer(
    name="graphile-worker",
    store=Store.POSTGRES,
    driver="graphile-worker.js",
    packages=("graphile-worker@0.18.0", "pg@8"),
    environment="graphile",
    source="worker.graphile.org/docs/performance, and perfTest of its repository",
    entries=(
        Entry("best", "async", 100_000, "localQueue of 500, completeJobBatchDelay 0, concurrentJobs 24, maxPoolSize 10"),
        Entry("defaults", "async", 2_000, "its preset: concurrentJobs 1, maxPoolSize 10, pollInterval 2 s"),
    ),
    head=f"SELECT min(id) {_JOBS_OF_GRAPHILE} WHERE locked_at IS NULL",
    left=f"SELECT 1 {_JOBS_OF_GRAPHILE} ORDER BY id DESC LIMIT 1",
)
PG_BOSS = Peer(
    name="pg-boss",
    store=Store.POSTGRES,
    driver="pg-boss.js",
    packages=("pg-boss@12.38.0",),
    environment="pgboss",
    source="timgit.github.io/pg-boss, work()",
    entries=(
        Entry("best", "async", 60_000, "batchSize 1000, burstWhenBatchFull, notify, maxPoolSize 10"),
        Entry("defaults", "async", 6, "batchSize 1, pollingIntervalSeconds 2"),
    ),
    head="SELECT count(*) FROM pgboss.job WHERE state <> 'created'",
    left="SELECT 1 FROM pgboss.job WHERE state IN ('created', 'active') ORDER BY id DESC LIMIT 1",
)
CELERY = Peer(
    name="celery",
    store=Store.REDIS,
    driver="run_celery.py",
    packages=("celery[redis]==5.7.0",),
    environment="celery",
    scales=False,
    source="docs.celeryq.dev/en/stable/userguide/optimizing.html",
    entries=(
        Entry("best", "process", 6_000, f"{_CELERY}; prefork, worker_prefetch_multiplier 128, without gossip, mingle, heartbeat"),
        Entry("defaults", "process", 4_000, "redis: jobs in memory; prefork, one process per core; acknowledged before it runs"),
        Entry("best", "def", 6_000, f"{_CELERY}; 8 threads, worker_prefetch_multiplier 128, without gossip, mingle, heartbeat"),
    ),
    head="LLEN celery",
    left="LLEN celery; HLEN unacked",
)
DRAMATIQ = Peer(
    name="dramatiq",
    store=Store.REDIS,
    driver="run_dramatiq.py",
    packages=("dramatiq[redis]==2.2.1",),
    environment="dramatiq",
    scales=True,
    source="dramatiq.io/advanced.html, dramatiq_queue_prefetch",
    entries=(
        Entry("best", "def", 20_000, "redis: jobs in memory; 8 threads, dramatiq_queue_prefetch 1000"),
        Entry("defaults", "def", 15_000, "redis: jobs in memory; 8 threads"),
    ),
    head="LLEN dramatiq:default",
    left="HLEN dramatiq:default.msgs",
)
HUEY = Peer(
    name="huey",
    store=Store.SQLITE,
    driver="run_huey.py",
    packages=("huey==3.5.4",),
    environment="huey",
    source="huey.readthedocs.io/en/latest/consumer.html",
    entries=(
        Entry("best", "def", 15_000, "WAL, fsync, no results; 1 thread, delay and max-delay 10 ms, no periodic tasks"),
        Entry("defaults", "def", 10_000, "WAL, fsync (its default is without), results; 1 thread, delay 0.1 s to 10 s"),
        Entry("best", "process", 10_000, "as best, with --worker-type process"),
    ),
    head="SELECT min(id) FROM task",
    left="SELECT 1 FROM task LIMIT 1",
)
PGQUEUER = Peer(
    name="pgqueuer",
    store=Store.POSTGRES,
    driver="run_pgqueuer.py",
    packages=("pgqueuer==1.6.0", "asyncpg==0.31.0", "uvloop==0.23.0"),
    environment="pgqueuer",
    source="pgqueuer's guide on performance",
    entries=(
        Entry("best", "async", 60_000, "AsyncpgPoolDriver of 4, batch_size 1000, uvloop, its autovacuum settings"),
        Entry("defaults", "async", 10_000, "one connection, batch_size 10"),
        Entry("best", "def", 20_000, "as best, with asyncio.to_thread()"),
    ),
    head="SELECT min(id) FROM pgqueuer WHERE status = 'queued'",
    left="SELECT 1 FROM pgqueuer ORDER BY id DESC LIMIT 1",
)
CHANCY = Peer(
    name="chancy",
    store=Store.POSTGRES,
    driver="run_chancy.py",
    packages=("chancy==0.26.0", "psycopg[binary]", "uvloop==0.23.0"),
    environment="chancy",
    source="chancy's documentation of Queue and Worker",
    entries=(
        Entry("best", "async", 10_000, "AsyncExecutor, concurrency 1000, eager_polling, uvloop"),
        Entry("defaults", "process", 4, "its default queue: ProcessExecutor, a process per core"),
        Entry("best", "def", 3_000, "ThreadedExecutor, concurrency 10, eager_polling"),
    ),
    head="SELECT count(*) FROM chancy_jobs WHERE state <> 'pending'",
    left="SELECT 1 FROM chancy_jobs WHERE state NOT IN ('succeeded', 'failed') LIMIT 1",
    share=0.2,
)
PROCRASTINATE = Peer(
    name="procrastinate",
    store=Store.POSTGRES,
    driver="run_procrastinate.py",
    packages=("procrastinate==3.10.0", "psycopg[binary]", "uvloop==0.23.0"),
    environment="procrastinate",
    source="procrastinate.readthedocs.io, howto/basics/worker",
    entries=(
        Entry("best", "async", 4_000, "a pool of 10, concurrency 20, uvloop"),
        Entry("defaults", "async", 3_000, "concurrency 1"),
        Entry("best", "def", 3_000, "as best, def handlers in threads"),
    ),
    head="SELECT min(id) FROM procrastinate_jobs WHERE status = 'todo'",
    left="SELECT 1 FROM procrastinate_jobs WHERE status IN ('todo', 'doing') ORDER BY id DESC LIMIT 1",
    share=0.2,
)
OBAN = Peer(
    name="oban",
    store=Store.POSTGRES,
    driver="run_oban.py",
    packages=("oban==0.7.0", "uvloop==0.23.0"),
    environment="oban",
    python=(3, 12),
    source="oban-py's docs",
    entries=(
        Entry("best", "async", 4_000, "a queue limit of 100, uvloop"),
        Entry("defaults", "async", 3_000, "a queue limit of 10, as in its guide"),
    ),
    head="SELECT min(id) FROM oban_jobs WHERE state = 'available'",
    left="SELECT 1 FROM oban_jobs WHERE state IN ('available', 'executing') ORDER BY id DESC LIMIT 1",
    share=0.2,
)
SAQ = Peer(
    name="saq",
    store=Store.POSTGRES,
    driver="run_saq.py",
    packages=("saq[postgres]==0.26.4", "uvloop==0.23.0"),
    environment="saq",
    source="saq-py.readthedocs.io",
    entries=(
        Entry("best", "async", 4_000, "concurrency 100, pool of 20, uvloop"),
        Entry("defaults", "async", 3_000, "concurrency 10"),
    ),
    head="SELECT count(*) FROM saq_jobs WHERE status = 'queued'",
    left="SELECT 1 FROM saq_jobs WHERE status IN ('queued', 'active') LIMIT 1",
    share=0.2,
)
DBOS = Peer(
    name="dbos",
    store=Store.POSTGRES,
    driver="run_dbos.py",
    packages=("dbos==3.4.0",),
    environment="dbos",
    source="docs.dbos.dev/python/tutorials/queue-tutorial",
    entries=(
        Entry("best", "async", 2_000, "a queue, worker_concurrency 100, polling_interval_sec 0.1"),
        Entry("defaults", "async", 2_000, "a queue as it comes"),
    ),
    head="SELECT count(*) FROM dbos.workflow_status WHERE status = 'ENQUEUED'",
    left="SELECT 1 FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING') LIMIT 1",
    share=0.1,
)
PEERS = (GRAPHILE, PG_BOSS, CELERY, DRAMATIQ, HUEY, PGQUEUER, CHANCY, PROCRASTINATE, OBAN, SAQ, DBOS)
