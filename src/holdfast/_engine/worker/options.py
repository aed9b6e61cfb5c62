"""The options of one worker."""

from enum import StrEnum

from msgspec import Struct

from holdfast._core.requests import IsolatedJobs


class LogJobs(StrEnum):
    """Which attempts get a line in the log."""

    AUTO = "auto"
    ALL = "all"
    FAILURES = "failures"
    OFF = "off"


class LogErrors(StrEnum):
    """What a line shows of a failure: message and traceback, only where it was raised, or only its type."""

    FULL = "full"
    WHERE = "where"
    TYPE = "type"


class WorkerOptions(Struct, frozen=True, kw_only=True):
    """How many handlers one worker runs at once, and from which queues. ``queues=None``: all queues.

    ``most``: run at most that many jobs and end as soon as nothing is due (``app.run_due``); ``None``: run until drained.
    ``prefetch``: claim at most that many jobs ahead of free slots; 0: none; ``None``: as many as the slots finish in
    ``prefetch_time`` seconds. ``tallies``: count for the supervisor, which keeps the history.
    """

    concurrency: int = 100
    threads: int = 8
    runners: int = 4
    queues: tuple[str, ...] | None = None
    isolated: IsolatedJobs = IsolatedJobs.EXCLUDE
    most: int | None = None
    prefetch: int | None = None
    prefetch_time: float = 0.1
    log_jobs: LogJobs = LogJobs.AUTO
    log_errors: LogErrors = LogErrors.FULL
    tallies: bool = False

    @property
    def can_prefetch(self) -> bool:
        """Whether such a worker may claim jobs ahead: one that runs isolated attempts, or a fixed number of jobs, does not."""
        return self.prefetch != 0 and self.isolated is not IsolatedJobs.ONLY and self.most is None
