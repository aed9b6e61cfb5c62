"""An outage is logged in few lines."""

import logging

import pytest

from holdfast._processes.logs import TextFormatter
from holdfast._processes.outage_log import OutageFilter


class Records:
    """What is left of the records of one process; time is the record's own."""

    def __init__(self) -> None:
        self.filter = OutageFilter()
        self.lines: list[str] = []

    def say(self, now: float, event: str, operation: str = "beat") -> None:
        record = logging.LogRecord("holdfast", logging.WARNING, "", 1, "%s operation=%s", (event, operation), None)
        record.__dict__ |= {"event": event, "fields": {"operation": operation}, "created": now}
        if self.filter.filter(record):
            self.lines.append(TextFormatter().format(record).split(" ", 1)[1].split(None, 1)[1])


@pytest.fixture
def reported() -> Records:
    return Records()


def test_the_first_failure_one_line_per_ten_seconds_and_the_end(reported: Records) -> None:
    for tenth in range(250):
        reported.say(1000.0 + tenth / 10, "store.unavailable", operation=("beat", "exchange")[tenth % 2])
    reported.say(1025.0, "store.recovered", "beat")
    reported.say(1025.5, "store.recovered", "exchange")
    assert reported.lines == [
        "store.unavailable operation=beat",
        "store.unavailable operation=beat suppressed=99 for_seconds=10.0",
        "store.unavailable operation=beat suppressed=99 for_seconds=20.0",
        "store.recovered operation=exchange after_seconds=25.5",
    ]


def test_it_has_not_recovered_while_something_still_fails(reported: Records) -> None:
    reported.say(0.0, "store.unavailable", "report")
    reported.say(0.1, "store.unavailable", "beat")
    reported.say(5.0, "store.unavailable", "beat")
    reported.say(5.1, "store.recovered", "report")
    assert len(reported.lines) == 1


def test_a_refusal_is_logged_once_per_ten_seconds_also_during_an_outage(reported: Records) -> None:
    reported.say(0.0, "store.unavailable", "exchange")
    for tenth in range(1, 150):
        reported.say(tenth / 10, "store.refused", "exchange")
    reported.say(15.0, "store.refused", "report")
    reported.say(16.0, "store.recovered", "report")
    reported.say(17.0, "store.recovered", "exchange")
    assert reported.lines == [
        "store.unavailable operation=exchange",
        "store.refused operation=exchange",
        "store.refused operation=exchange",
        "store.refused operation=report",
        "store.recovered operation=exchange after_seconds=17.0",
    ]


def test_what_was_given_up_does_not_keep_the_outage_open(reported: Records) -> None:
    reported.say(0.0, "store.unavailable", "close")
    reported.say(1.0, "store.unavailable", "beat")
    reported.say(30.0, "store.recovered", "beat")
    assert reported.lines[-1] == "store.recovered operation=beat after_seconds=30.0"


def test_a_later_outage_is_reported_again(reported: Records) -> None:
    for start in (0.0, 3.0):
        reported.say(start, "store.unavailable")
        reported.say(start + 1, "store.recovered")
    reported.say(100.0, "store.unavailable", "close")
    reported.say(200.0, "store.unavailable", "close")
    assert (
        reported.lines
        == [
            "store.unavailable operation=beat",
            "store.recovered operation=beat after_seconds=1.0",
        ]
        * 2
        + ["store.unavailable operation=close"] * 2
    )


def test_everything_else_is_left_alone(reported: Records) -> None:
    reported.say(0.0, "store.unavailable")
    reported.say(0.1, "job.rescued")
    reported.say(0.2, "store.recovered", "never failed")
    assert reported.lines == ["store.unavailable operation=beat", "job.rescued operation=beat"]
