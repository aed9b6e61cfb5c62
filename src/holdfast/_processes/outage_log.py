"""An outage of the store in few log lines: its first failure, one line per 10 s while it lasts, and its end."""

import logging

from holdfast._engine.events import EventName, logger

LOG_EVERY = 10.0
FORGET_AFTER = 60.0


class OutageFilter(logging.Filter):
    """Every part of a worker retries by itself, several times a second; together their messages describe one outage.

    The outage is over when each operation that failed lately has been answered, so the line that reports its end is reliable.
    """

    def __init__(self) -> None:
        super().__init__()
        self._failing: dict[str, float] = {}
        self._refused: dict[str, float] = {}
        self._since = self._logged = self._last = 0.0
        self._suppressed = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is logged. A logged line also counts the suppressed ones, or reports how long the outage took."""
        if record.name != logger.name:
            return True
        operation = str(getattr(record, "fields", {}).get("operation"))
        match getattr(record, "event", None):
            case EventName.STORE_UNAVAILABLE.value:
                return self._failed(operation, record)
            case EventName.STORE_REFUSED.value:
                return self._refuses(operation, record)
            case EventName.STORE_RECOVERED.value:
                return self._recovered(operation, record)
            case _:
                return True

    def _failed(self, operation: str, record: logging.LogRecord) -> bool:
        now = record.created
        is_first = not self._failing or now - self._last > FORGET_AFTER
        if is_first:
            self._failing, self._since, self._suppressed = {}, now, 0
        self._failing[operation] = self._last = now
        if not is_first and now - self._logged < LOG_EVERY:
            self._suppressed += 1
            return False
        self._logged = now
        if self._suppressed:
            _add(record, suppressed=self._suppressed, for_seconds=round(now - self._since, 1))
            self._suppressed = 0
        return True

    def _refuses(self, operation: str, record: logging.LogRecord) -> bool:
        """Let through the first refusal of each operation, and one per 10 s: no outage that began before may hide it."""
        now = self._failing[operation] = self._last = record.created
        if now - self._refused.get(operation, float("-inf")) < LOG_EVERY:
            return False
        self._refused[operation] = now
        return True

    def _recovered(self, operation: str, record: logging.LogRecord) -> bool:
        now = record.created
        if self._failing.pop(operation, None) is None:
            return False
        # Some operations are never tried again: one that its caller gave up must not keep the outage open.
        if any(now - failed <= LOG_EVERY for failed in self._failing.values()):
            return False
        _add(record, after_seconds=round(now - self._since, 1))
        self._failing = {}
        return True


def _add(record: logging.LogRecord, **fields: object) -> None:
    record.msg = f"{record.getMessage()} " + " ".join(f"{name}={value}" for name, value in fields.items())
    record.args = ()
    record.__dict__["fields"] = {**getattr(record, "fields", {}), **fields}
