"""The log of a worker about its attempts: a sentence for each, or a summary when there are many."""

import logging
from collections.abc import Callable
from typing import Any

from msgspec import structs

from holdfast._core.attempt_line import ended_line, started_line, summary_line
from holdfast._core.failure_text import FailureText, failure_text
from holdfast._core.job import Claim, Failure
from holdfast._core.line_budget import LineBudget, Summary
from holdfast._core.sensitive import Mask
from holdfast._core.text import IN_LINES, printable
from holdfast._engine.events import Event, EventName, level_of, logger
from holdfast._engine.worker.finished_runs import FinishedRun
from holdfast._engine.worker.options import LogJobs, WorkerOptions

FAILURES = frozenset({EventName.JOB_RETRIED, EventName.JOB_FAILED, EventName.JOB_HELD})


class AttemptLog:
    """Writes the lines. Under load it counts attempts, and formats nothing for those without a line."""

    def __init__(self, options: WorkerOptions, now: Callable[[], float]) -> None:
        self._jobs, self._errors, self._now = options.log_jobs, options.log_errors, now
        self._budget = LineBudget()

    @property
    def has_completed(self) -> bool:
        """Whether completed attempts are logged or counted."""
        return self._jobs in (LogJobs.AUTO, LogJobs.ALL) and logger.isEnabledFor(logging.INFO)

    def takes(self, ended: FinishedRun, name: EventName) -> bool:
        """Count an attempt that ended; return whether it gets a line."""
        is_failure = name in FAILURES
        if self._jobs is LogJobs.OFF or not logger.isEnabledFor(level_of(name)) or ended.transition is None:
            return False
        if self._jobs is LogJobs.ALL:
            return True
        if self._jobs is LogJobs.FAILURES and not is_failure:
            return False
        now = self._now()
        has_line = self._budget.takes_line(now, is_failure=is_failure)
        self._budget.count(ended.claim.job.queue, ended.transition.to, ended.seconds, is_failure=is_failure)
        self.flush()
        return has_line

    @property
    def has_started(self) -> bool:
        """Whether attempts whose code begins are logged: only if each job is to be logged."""
        return self._jobs is LogJobs.ALL

    def started(self, claim: Claim, waited: float) -> None:
        """Write the line of an attempt whose code begins."""
        if logger.isEnabledFor(logging.INFO):
            job = claim.job
            details = {"job": job.id, "task": job.task, "queue": job.queue, "attempt": job.attempt, "waited": waited}
            _write(logging.INFO, started_line(claim, waited), event=EventName.JOB_STARTED.value, fields=details, details=details)

    def ended(self, ended: FinishedRun, event: Event) -> None:
        """Write the line of an attempt that ended, with a traceback if it was the last one and failed."""
        move = ended.transition
        if move is None:
            return
        shown = None if move.error is None else self._shown(ended, move.error, is_final=event.name is EventName.JOB_FAILED)
        trace = "" if shown is None else shown.traceback
        where = structs.replace(shown, where="") if shown is not None and trace else shown
        details: dict[str, object] = {"queue": ended.claim.job.queue, "duration": ended.seconds, "waited": ended.waited}
        if shown is not None:
            error = {"type": shown.type, "message": shown.message, "where": shown.where}
            details["error"] = {name: value for name, value in error.items() if value}
        text = ended_line(ended.claim, move, ended.seconds, where)
        _write(level_of(event.name), text, trace, event=event.name.value, fields=event.fields, details=details)

    def flush(self, *, is_last: bool = False) -> None:
        """Write the summary if it is time for one; ``is_last``: the worker ends."""
        made = self._budget.summary(self._now(), is_last=is_last)
        if made is not None and (self.has_completed or made.unlogged):
            text = summary_line(made.seconds, made.completed, made.failed, made.median)
            _write(logging.WARNING if made.unlogged else logging.INFO, text, details=_summarised(made))

    def _shown(self, ended: FinishedRun, failure: Failure, *, is_final: bool) -> FailureText:
        mask = Mask((ended.claim.payload, ended.claim.checkpoint), ended.sensitive)
        masked = Failure(mask(failure.type), mask(failure.message), mask(failure.traceback))
        return failure_text(masked, self._errors.value, is_final=is_final)


def _summarised(made: Summary) -> dict[str, object]:
    return {"seconds": made.seconds, "completed": made.completed, "failed": made.failed, "median": made.median}


def _write(level: int, text: str, trace: str = "", **extra: Any) -> None:
    """Log a record that carries its traceback as text: the exception is of another thread or process, and its values are masked."""
    if not logger.isEnabledFor(level):
        return
    record = logger.makeRecord(logger.name, level, __file__, 0, printable(text), (), None, extra=extra)
    record.exc_text = trace.translate(IN_LINES) or None
    logger.handle(record)
