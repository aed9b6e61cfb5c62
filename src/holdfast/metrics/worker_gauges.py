"""What a supervisor knows about its workers now."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from holdfast._core.tallies import Series

if TYPE_CHECKING:
    from holdfast._core.identity import ProcessIdentity
    from holdfast._engine.supervisor.worker_handle import WorkerHandle


def worker_gauges(workers: "Iterable[WorkerHandle]", memory: "Callable[[ProcessIdentity], int | None]") -> dict[Series, float]:
    """Return the gauges of all workers that have a lease."""
    found: dict[Series, float] = {}
    for worker in workers:
        if worker.lease is None:
            continue
        name = worker.name
        found["worker_slots", name] = worker.lease.slots
        found["worker_loop_lag_seconds", name] = worker.lag
        found["worker_last_beat_seconds", name] = worker.since_renewed
        if worker.pong is not None:
            found["worker_slots_in_use", name] = worker.pong.running
            found["runner_processes", name] = worker.pong.runners
        if (used := memory(worker.child.process)) is not None:
            found["worker_memory_bytes", name] = used
    return found
