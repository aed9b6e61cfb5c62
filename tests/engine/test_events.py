"""Events are a closed list, and a subscriber cannot break the engine."""

import logging

import pytest

from holdfast._engine.events import Event, EventName, Events
from tests.engine.support import Log

JOB = {"job": "j1", "task": "resize"}


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, logger="holdfast")
    return caplog


def test_a_subscriber_receives_the_events_of_its_name_and_a_star_receives_all() -> None:
    events, completed, every = Events(), list[Event](), list[Event]()
    events.on("job.completed", completed.append)
    events.on("*", every.append)
    events.emit(EventName.JOB_COMPLETED, **JOB)
    events.emit(EventName.JOB_FAILED, **JOB)
    assert completed == [Event(EventName.JOB_COMPLETED, JOB)]
    assert [event.name for event in every] == ["job.completed", "job.failed"]


def test_an_unknown_name_is_refused_and_the_known_ones_are_listed() -> None:
    with pytest.raises(ValueError, match=r"'job.finished' is not an event; there are: job.cancel_requested, job.cancelled"):
        Events().on("job.finished", print)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), KeyboardInterrupt()])
def test_a_subscriber_that_raises_breaks_nothing_and_is_reported(error: BaseException) -> None:
    def fail(event: Event) -> None:
        raise error

    log = Log()
    log.events.on("job.failed", fail)
    log.events.emit(EventName.JOB_FAILED, **JOB)
    assert log.of("subscriber.failed") == [{"event": "job.failed", "error": type(error).__name__}]


def test_a_subscriber_that_fails_at_the_report_of_its_failure_is_not_called_in_a_loop() -> None:
    def fail(event: Event) -> None:
        raise ValueError

    events = Events()
    events.on("*", fail)
    events.emit(EventName.JOB_FAILED, **JOB)


def test_s17_no_field_of_an_event_controls_a_log_of_the_user(logged: pytest.LogCaptureFixture) -> None:
    Events().emit(EventName.JOB_FAILED, **JOB, error="E\nERROR a line of its own\x1b[31m")
    (record,) = logged.records
    assert record.getMessage() == r"job.failed job=j1 task=resize error=E\nERROR a line of its own\x1b[31m"


def test_a_log_handler_that_raises_breaks_nothing_and_is_reported() -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ValueError

    log, handler = Log(), Broken()
    logging.getLogger("holdfast").addHandler(handler)
    try:
        log.events.emit(EventName.JOB_FAILED, **JOB)
    finally:
        logging.getLogger("holdfast").removeHandler(handler)
    assert log.of("subscriber.failed") == [{"event": "job.failed", "error": "ValueError"}]


def test_a_log_line_names_the_event_and_its_fields_without_the_empty_ones(logged: pytest.LogCaptureFixture) -> None:
    Events().emit(EventName.JOB_FAILED, job="j1", reason=None, error="KeyError")
    record = logged.records[0]
    assert record.getMessage() == "job.failed job=j1 error=KeyError"
    assert record.levelno == logging.ERROR
    assert record.event == "job.failed"
    assert record.fields == {"job": "j1", "reason": None, "error": "KeyError"}


def test_frequent_events_are_logged_at_debug_level_only(logged: pytest.LogCaptureFixture) -> None:
    Events().emit(EventName.JOB_CLAIMED, **JOB)
    assert logged.records[0].levelno == logging.DEBUG


def test_a_log_line_that_no_handler_takes_is_not_formatted(logged: pytest.LogCaptureFixture) -> None:
    class Unreadable:
        def __str__(self) -> str:
            raise AssertionError("formatted")

    logged.set_level(logging.INFO, logger="holdfast")
    log = Log()
    log.events.emit(EventName.JOB_CLAIMED, job=Unreadable())
    assert log.names() == ["job.claimed"]


def test_a_sentence_takes_the_place_of_name_and_fields_in_the_log_only(logged: pytest.LogCaptureFixture) -> None:
    log = Log()
    log.events.emit_as("resize j1 taken from\x1b web1 (100 %)", EventName.JOB_RESCUED, job="j1")
    assert logged.records[0].getMessage() == "resize j1 taken from\\x1b web1 (100 %)"
    assert logged.records[0].fields == {"job": "j1"}  # type: ignore[attr-defined]
    assert log.of("job.rescued") == [{"job": "j1"}]
