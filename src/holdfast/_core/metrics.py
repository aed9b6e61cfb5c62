"""The closed list of metrics that tallies feed: their kinds and labels, as every exporter shows them."""

from enum import StrEnum

from msgspec import Struct

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""The upper bounds of the buckets of times."""
BYTES = tuple(float(32 << doubled) for doubled in range(16))
"""The upper bounds of the buckets of sizes: 32 bytes to 1 MiB."""


class Kind(StrEnum):
    """What a metric counts: how often, how long, how large, or how much now."""

    COUNTER = "counter"
    SECONDS = "seconds"
    BYTES = "bytes"
    GAUGE = "gauge"


class Metric(Struct, frozen=True):
    """A metric: what it counts, its labels in the order of a series, and a sentence for people."""

    kind: Kind
    labels: tuple[str, ...]
    help: str

    @property
    def bounds(self) -> tuple[float, ...]:
        """The upper bounds of its buckets."""
        return BYTES if self.kind is Kind.BYTES else SECONDS


COUNTED: dict[str, Metric] = {
    "jobs_enqueued": Metric(Kind.COUNTER, ("queue", "task"), "Jobs enqueued by these processes."),
    "attempts": Metric(Kind.COUNTER, ("queue", "task", "outcome"), "Attempts that ended, by outcome."),
    "jobs_finished": Metric(
        Kind.COUNTER,
        ("queue", "task", "state", "reason"),
        "Jobs that an attempt or a rescue finished, by final state and reason.",
    ),
    "attempt_duration_seconds": Metric(Kind.SECONDS, ("queue", "task", "outcome"), "How long the code of attempts ran."),
    "job_wait_seconds": Metric(Kind.SECONDS, ("queue", "task"), "From the moment a job was due to the start of its code."),
    "job_total_seconds": Metric(Kind.SECONDS, ("queue", "task"), "From the enqueue of a job to its end."),
    "jobs_rescued": Metric(
        Kind.COUNTER, ("task", "reason", "by"), "Jobs taken from workers, by the worker's own supervisor or another."
    ),
    "rescue_delay_seconds": Metric(
        Kind.SECONDS, ("reason",), "From the moment a supervisor recovers a worker to the rescue of a job."
    ),
    "writes_refused": Metric(Kind.COUNTER, ("task",), "Writes of former owners that the store refused."),
    "late_results": Metric(Kind.COUNTER, ("task",), "Results and errors that came after their job was lost."),
    "leases_ended": Metric(Kind.COUNTER, ("reason",), "Leases of workers that supervisors ended."),
    "store_call_seconds": Metric(Kind.SECONDS, ("operation",), "How long the store took to answer."),
    "store_failures": Metric(Kind.COUNTER, ("operation",), "Calls of the store that failed."),
    "events": Metric(Kind.COUNTER, ("event",), "Events, but for those of each enqueue, claim, start and end of an attempt."),
    "payload_bytes": Metric(Kind.BYTES, ("task",), "Sizes of the payloads of enqueued jobs."),
}
WORKER_GAUGES: dict[str, Metric] = {
    "worker_slots": Metric(Kind.GAUGE, ("worker",), "Jobs that the worker may run at once."),
    "worker_slots_in_use": Metric(Kind.GAUGE, ("worker",), "Jobs whose code runs in the worker."),
    "worker_memory_bytes": Metric(Kind.GAUGE, ("worker",), "Resident memory of the worker's process."),
    "worker_loop_lag_seconds": Metric(Kind.GAUGE, ("worker",), "How late the worker's event loop answered its supervisor."),
    "worker_last_beat_seconds": Metric(Kind.GAUGE, ("worker",), "Seconds since the store renewed the worker's lease."),
    "runner_processes": Metric(Kind.GAUGE, ("worker",), "Processes that the worker keeps for handlers with process=True."),
}
STORE_GAUGES: dict[str, Metric] = {
    "jobs": Metric(
        Kind.GAUGE, ("queue", "state"), "Jobs in the store; of finished ones at most about 100,000 of a state are counted."
    ),
    "queue_oldest_waiting_seconds": Metric(Kind.GAUGE, ("queue",), "For how long the job that is due for longest has waited."),
    "queue_backlog": Metric(Kind.GAUGE, ("queue",), "Jobs that are due and wait for a worker."),
    "queue_paused": Metric(Kind.GAUGE, ("queue",), "1 if the queue is paused."),
    "workers": Metric(Kind.GAUGE, ("state",), "Workers that have a lease."),
    "jobs_without_worker": Metric(Kind.GAUGE, ("task",), "Waiting jobs of tasks that no live worker knows."),
    "limit_size": Metric(Kind.GAUGE, ("limit",), "Jobs that a limit lets run at once."),
    "limit_in_use": Metric(Kind.GAUGE, ("limit",), "Jobs that a limit counts now."),
    "schedule_lag_seconds": Metric(Kind.GAUGE, ("schedule",), "For how long the next tick of a schedule has been due."),
    "rows": Metric(Kind.GAUGE, ("watch", "status"), "Rows of a watched table, by the value of their status."),
    "rows_stuck": Metric(Kind.GAUGE, ("watch",), "Rows that a worker has had for longer than stale_after."),
    "prune_lag_seconds": Metric(Kind.GAUGE, (), "For how long the finished job that is pruned next has waited for that."),
    "schema_version": Metric(Kind.GAUGE, (), "Version of the store's tables or objects."),
    "store_up": Metric(Kind.GAUGE, (), "1 if the store answered."),
}
METRICS = COUNTED | WORKER_GAUGES | STORE_GAUGES
MOST_VALUES = 200
"""The values of one label that are shown; all further ones share the value ``other``."""
OTHER = "other"
