"""What other supervisors must learn of progress clocks that were paused here."""

from collections.abc import Sequence

from holdfast._core.requests import ProgressUpdate
from holdfast._engine.progress import report
from holdfast._engine.supervisor.worker_handle import WorkerHandle
from holdfast._ports.store import Store


async def report_paused_clocks(store: Store, workers: Sequence[WorkerHandle]) -> None:
    """Write progress for jobs whose progress clock was paused here: other supervisors judge it by the time on the row."""
    paused = {worker: worker.limits.paused() for worker in workers}
    if any(paused.values()):
        updates = [ProgressUpdate(job=job, token=token) for jobs in paused.values() for job, token in jobs]
        _, locked = await report(store, updates)
        for worker, jobs in paused.items():
            worker.limits.acknowledge(job for job, _ in jobs if job not in locked)
