"""Log lines are one line each, for people or machines, and cannot be forged by what they tell."""

import json
import logging
import sys

import pytest

from holdfast.cli.logs import JsonFormatter, TextFormatter


def record(message: str, *, failing: bool = False, **extra: object) -> logging.LogRecord:
    error = None
    if failing:
        try:
            raise ValueError("bad\x1b[2J\nline")
        except ValueError:
            error = sys.exc_info()
    made = logging.LogRecord("holdfast", logging.WARNING, "file.py", 1, message, (), error)
    made.__dict__ |= extra
    return made


def test_text_is_one_line_and_shows_control_characters() -> None:
    line = TextFormatter().format(record("a\nb\x1b[2J"))
    assert line.endswith("warning a\\nb\\x1b[2J")


def test_tracebacks_follow_without_control_characters() -> None:
    text = TextFormatter().format(record("oops", failing=True))
    assert "Traceback" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("failing", [False, True])
def test_json_is_one_object_per_line_with_the_event(failing: bool) -> None:
    line = JsonFormatter().format(record("a\nb", failing=failing, event="job.rescued", fields={"job": object(), "attempt": 1}))
    assert "\n" not in line
    document = json.loads(line)
    assert (document["level"], document["message"], document["event"]) == ("warning", "a\nb", "job.rescued")
    assert document["fields"]["attempt"] == 1
    assert ("traceback" in document) is failing
