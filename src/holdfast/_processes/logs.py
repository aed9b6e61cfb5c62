"""Logs of a worker and its supervisor, always on stderr: text for people, one JSON object per line for machines."""

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import msgspec

from holdfast._core.text import IN_JSON, IN_LINES, printable
from holdfast._engine.events import EventName, logger
from holdfast._engine.runners.current import WORKER, current_job, current_mask
from holdfast._engine.worker.options import LogErrors, LogJobs
from holdfast._processes.outage_log import OutageFilter

LEVELS = ("debug", "info", "warning", "error")
JOBS, ERRORS = [each.value for each in LogJobs], [each.value for each in LogErrors]
WHO = ("job", "task", "attempt", "worker")


class TextFormatter(logging.Formatter):
    """``time level message``. Control characters are escaped: they may come from a payload or an exception."""

    def format(self, record: logging.LogRecord) -> str:
        """Format the record as one line, with a traceback below it if there is one."""
        when = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        source = "" if record.name == "holdfast" else f"{record.name}: "
        whose = "" if record.name == logger.name else "".join(f" {name}={value}" for name, value in _whose().items())
        line = printable(f"{when} {record.levelname.lower():<7} {source}{_masked(record.getMessage())}{whose}")
        trace = _masked(_trace(record))
        return f"{line}\n{trace.translate(IN_LINES)}" if trace else line


class JsonFormatter(logging.Formatter):
    """One JSON object per line: ``time level logger message``. Events add ``event``, ``job task attempt worker`` and ``fields``;
    ends of attempts add ``queue duration error``; records that a handler logs add ``job task attempt worker``."""

    def format(self, record: logging.LogRecord) -> str:
        """Format the record as one JSON object."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _masked(record.getMessage()),
        }
        line |= _whose()
        if record.name == logger.name:
            fields = getattr(record, "fields", {})
            line |= {name: fields[name] for name in WHO if fields.get(name) is not None}
            line |= {name: value for name in ("event", "fields") if (value := getattr(record, name, None))}
            line |= {name: value for name, value in getattr(record, "details", {}).items() if value is not None}
        if trace := _masked(_trace(record)):
            line["traceback"] = trace
        return msgspec.json.encode(line, enc_hook=str).decode(errors="replace").translate(IN_JSON)


class _Stderr(logging.Handler):
    """Writes to what ``sys.stderr`` is at the moment of a record: user code may replace it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record in one call, so that lines of several processes do not mix."""
        try:
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


@contextmanager
def unlogged(event: EventName) -> Iterator[None]:
    """Keep that event out of the log: the command that causes it prints it."""

    def is_other(record: logging.LogRecord) -> bool:
        return getattr(record, "event", None) != event.value

    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)


def _whose() -> dict[str, object]:
    """Return which job the code that logs runs for, if it runs for one."""
    hold = current_job()
    return {} if hold is None else {"job": hold.id, "task": hold.task, "attempt": hold.attempt, "worker": WORKER.get()}


def _masked(text: str) -> str:
    """Return the message of code that runs for a job without the job's sensitive values."""
    mask = current_mask()
    return text if mask is None else mask(text)


def _trace(record: logging.LogRecord) -> str:
    if record.exc_info and record.exc_info[0]:
        return "".join(traceback.format_exception(*record.exc_info)).rstrip()
    return record.exc_text or ""


def configure_logs(level: str, form: str) -> None:
    """Send every record from this level on to stderr. User code that configured logging before keeps its configuration.

    An outage is logged in few lines; at level ``debug`` each failed call is one.
    """
    handler = _Stderr()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    if level != "debug":
        handler.addFilter(OutageFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler])
