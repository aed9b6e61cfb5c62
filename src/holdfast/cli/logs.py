"""Logs of a worker and its supervisor, always on stderr: text for people, one JSON object per line for machines."""

import logging
import sys
import traceback
from datetime import UTC, datetime

import msgspec

LEVELS = ("debug", "info", "warning", "error")

_CONTROL = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x09, 0x0A)}
_IN_ONE_LINE = _CONTROL | {0x0A: "\\n"}


class TextFormatter(logging.Formatter):
    """``time level message``. Control characters are shown, not obeyed: they may come from a payload or an exception."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback below it if there is one."""
        when = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        source = "" if record.name == "holdfast" else f"{record.name}: "
        line = f"{when} {record.levelname.lower():<7} {source}{record.getMessage()}".translate(_IN_ONE_LINE)
        trace = _trace(record)
        return f"{line}\n{trace.translate(_CONTROL)}" if trace else line


class JsonFormatter(logging.Formatter):
    """One object per line: ``time level logger message``, and the event with its fields if it is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The object."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if event := getattr(record, "event", None):
            line |= {"event": event, "fields": getattr(record, "fields", {})}
        if trace := _trace(record):
            line["traceback"] = trace
        return msgspec.json.encode(line, enc_hook=str).decode()


def _trace(record: logging.LogRecord) -> str:
    return "".join(traceback.format_exception(*record.exc_info)).rstrip() if record.exc_info and record.exc_info[0] else ""


def configure_logs(level: str, form: str) -> None:
    """Send everything from this level on to stderr; user code that configured logging before keeps its own."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler])
