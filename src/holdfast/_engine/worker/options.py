"""The options of one worker."""

from msgspec import Struct

from holdfast._core.requests import IsolatedJobs


class WorkerOptions(Struct, frozen=True, kw_only=True):
    """How many handlers one worker runs at once, and from which queues. ``queues=None``: all queues.

    ``most``: run at most that many jobs and end as soon as nothing is due (``app.run_due``); ``None``: run until drained.
    """

    concurrency: int = 100
    threads: int = 8
    runners: int = 4
    queues: tuple[str, ...] | None = None
    isolated: IsolatedJobs = IsolatedJobs.EXCLUDE
    most: int | None = None
