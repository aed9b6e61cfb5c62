"""The peers: each with its defaults, and with what its own documentation recommends where that is something else."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from msgspec import Struct

from bench.mongo.npm import versions as npm_versions


class Documents(Struct, frozen=True):
    """The completed jobs of a database of MongoDB. ``job``: the path of the number, at which there may be a JSON text."""

    collection: str
    which: dict[str, object]
    job: str


class Setting(Struct, frozen=True, kw_only=True):
    """One row of the table. Every worker has a concurrency of 10; ``text`` names all other deviations from the defaults."""

    peer: str
    name: str
    text: str
    source: str
    """Where its authors say so."""
    packages: tuple[str, ...]
    completed: str = ""
    """SQL for the numbers of the jobs that its rows call completed; none: Redis is asked by their ids."""
    documents: Documents | None = None
    """Those of the jobs that it calls completed, if it is on MongoDB."""
    npm: tuple[str, ...] = ()
    """Its packages for Node.js."""
    restarts: bool = False
    """A killed worker is started again after some seconds, under its own name."""
    tells: bool = False
    """The other worker is asked after some seconds to recover what the victim had."""

    @property
    def title(self) -> str:
        """The title of the row."""
        return f"{self.peer}, {self.name}"

    def versions(self) -> str | None:
        """Return the versions of its packages; ``None`` if one is missing."""
        if self.npm:
            return npm_versions(self.npm)
        try:
            return ", ".join(f"{package} {version(package)}" for package in self.packages)
        except PackageNotFoundError:
            return None


_HOLDFAST = "SELECT (convert_from(payload, 'UTF8')::json ->> 'job')::int FROM holdfast.finished WHERE state = 'completed'"
_PROCRASTINATE = "SELECT (args ->> 'job')::int FROM procrastinate_jobs WHERE status = 'succeeded' AND task_name = 'torture'"
_PGQUEUER = """
SELECT job FROM generate_series(1, %(count)s) AS jobs (job)
WHERE NOT EXISTS (SELECT FROM pgqueuer WHERE convert_from(payload, 'UTF8') = job::text)
"""
_OBAN = "SELECT (args ->> 'job')::int FROM oban_jobs WHERE state = 'completed'"
_CHANCY = "SELECT (kwargs ->> 'job')::int FROM chancy_jobs WHERE state = 'succeeded'"
_DBOS = "SELECT substr(workflow_uuid, 5)::int FROM dbos.workflow_status WHERE status = 'SUCCESS' AND workflow_uuid LIKE 'job-%%'"

_HOLDFAST_DOCUMENTS = Documents("holdfast.jobs", {"state": "completed"}, "payload.job")
_AGENDA = Documents("agendaJobs", {"lastFinishedAt": {"$ne": None}, "failedAt": None}, "data.job")
_AGENDA_PACKAGES = ("agenda", "@agendajs/mongo-backend")
_MONGODB_QUEUE = Documents("queue", {"deleted": {"$ne": None}}, "payload.data.job")

_RECOVERY = "docs.dbos.dev/production/workflow-recovery"
_DBOS_WITH_CONDUCTOR = (
    "executor_id per worker; after 60 s the other worker is told to recover the victim's workflows, as the Conductor "
    "(a separate service) does when an executor disconnects"
)
_VISIBILITY = "docs.celeryq.dev/en/stable/getting-started/backends-and-brokers/redis.html#visibility-timeout"
_ACKS_LATE = "task_acks_late, task_reject_on_worker_lost, worker_prefetch_multiplier=1; visibility_timeout"

SETTINGS = (
    Setting(
        peer="holdfast",
        name="defaults",
        text="on PostgreSQL; leases of 30 s, a beat every 6 s; a dead process of the same machine is seen to be dead",
        source="docs/concepts/recovery.md",
        packages=("holdfast", "asyncpg"),
        completed=_HOLDFAST,
    ),
    Setting(
        peer="holdfast",
        name="as on two machines",
        text='reconcile="off", so that a worker learns of the other only what a worker elsewhere would',
        source="docs/concepts/recovery.md",
        packages=("holdfast", "asyncpg"),
        completed=_HOLDFAST,
    ),
    Setting(
        peer="procrastinate",
        name="defaults",
        text="nothing looks for stalled jobs",
        source="procrastinate.readthedocs.io/en/stable/howto/production/retry_stalled_jobs.html",
        packages=("procrastinate", "psycopg"),
        completed=_PROCRASTINATE,
    ),
    Setting(
        peer="procrastinate",
        name="retry_stalled_jobs",
        text="the documented periodic task with get_stalled_jobs(), every minute instead of every tenth",
        source="procrastinate.readthedocs.io/en/stable/howto/production/retry_stalled_jobs.html",
        packages=("procrastinate", "psycopg"),
        completed=_PROCRASTINATE,
    ),
    Setting(
        peer="pgqueuer",
        name="defaults",
        text="heartbeat_timeout=30 s, which is on by default; batch_size=5 because it must be at most half the concurrency",
        source="pgqueuer's docs/guides/heartbeat.md",
        packages=("pgqueuer", "asyncpg"),
        completed=_PGQUEUER,
    ),
    Setting(
        peer="oban",
        name="defaults",
        text="lifeline on: interval=60 s, rescue_after=300 s",
        source="oban-py's docs/production.md, Orphan Rescue",
        packages=("oban", "psycopg"),
        completed=_OBAN,
    ),
    Setting(
        peer="oban",
        name="lifeline every 30 s",
        text='lifeline={"interval": 30}, rescue_after=300 s',
        source="oban-py's docs/production.md, Configure Job Maintenance",
        packages=("oban", "psycopg"),
        completed=_OBAN,
    ),
    Setting(
        peer="chancy",
        name="defaults",
        text="Recovery plugin on: poll_interval=60 s, heartbeat_timeout=90 s; AsyncExecutor",
        source="chancy's docs/guide/recovery.rst, chancy.plugins.recovery",
        packages=("chancy", "psycopg"),
        completed=_CHANCY,
    ),
    Setting(
        peer="dbos",
        name="defaults",
        text="no executor ids; a killed worker is started again after 5 s",
        source=_RECOVERY,
        packages=("dbos",),
        completed=_DBOS,
        restarts=True,
    ),
    Setting(
        peer="dbos",
        name="executor ids",
        text="executor_id per worker; a killed worker is started again after 5 s, under its id",
        source=_RECOVERY,
        packages=("dbos",),
        completed=_DBOS,
        restarts=True,
    ),
    Setting(
        peer="dbos",
        name="told",
        text=_DBOS_WITH_CONDUCTOR,
        source=_RECOVERY,
        packages=("dbos",),
        completed=_DBOS,
        tells=True,
    ),
    Setting(
        peer="celery",
        name="defaults",
        text="on Redis; a job is acknowledged before it runs",
        source="docs.celeryq.dev/en/stable/userguide/configuration.html#task-acks-late",
        packages=("celery", "redis"),
    ),
    Setting(
        peer="celery",
        name="acks_late",
        text=f"on Redis; {_ACKS_LATE} of 1 h, the default",
        source="docs.celeryq.dev/en/stable/userguide/tasks.html, " + _VISIBILITY,
        packages=("celery", "redis"),
    ),
    Setting(
        peer="celery",
        name="acks_late, visibility 60 s",
        text=f"on Redis; {_ACKS_LATE}=60: longer jobs than that would run twice at any time",
        source=_VISIBILITY,
        packages=("celery", "redis"),
    ),
    Setting(
        peer="holdfast",
        name="on MongoDB",
        text='reconcile="off", as on two machines',
        source="docs/concepts/recovery.md",
        packages=("holdfast", "pymongo"),
        documents=_HOLDFAST_DOCUMENTS,
    ),
    Setting(
        peer="agenda",
        name="defaults",
        text="processEvery=100 ms; defaultLockLifetime of 10 minutes, the default",
        source="agenda's README.md, defaultLockLifetime",
        packages=(),
        npm=_AGENDA_PACKAGES,
        documents=_AGENDA,
    ),
    Setting(
        peer="agenda",
        name="lock of 30 s",
        text="processEvery=100 ms; defaultLockLifetime=30 s: jobs that take longer without a touch() would run twice at any time",
        source="agenda's README.md, defaultLockLifetime",
        packages=(),
        npm=_AGENDA_PACKAGES,
        documents=_AGENDA,
    ),
    Setting(
        peer="mongodb-queue",
        name="defaults",
        text="ten loops of get and ack in each worker; visibility of 30 s, the default",
        source="mongodb-queue's README.md, visibility",
        packages=(),
        npm=("mongodb-queue", "mongodb3"),
        documents=_MONGODB_QUEUE,
    ),
)
