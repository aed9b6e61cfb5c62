"""An outage is told in few lines."""

import logging

import pytest

from holdfast._processes.logs import TextFormatter
from holdfast._processes.outage_log import OutageFilter


class Told:
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
def told() -> Told:
    return Told()


def test_the_first_failure_one_line_per_ten_seconds_and_the_end(told: Told) -> None:
    for tenth in range(250):
        told.say(1000.0 + tenth / 10, "store.unavailable", operation=("beat", "exchange")[tenth % 2])
    told.say(1025.0, "store.recovered", "beat")
    told.say(1025.5, "store.recovered", "exchange")
    assert told.lines == [
        "store.unavailable operation=beat",
        "store.unavailable operation=beat suppressed=99 for_seconds=10.0",
        "store.unavailable operation=beat suppressed=99 for_seconds=20.0",
        "store.recovered operation=exchange after_seconds=25.5",
    ]


def test_it_has_not_recovered_while_something_still_fails(told: Told) -> None:
    told.say(0.0, "store.unavailable", "report")
    told.say(0.1, "store.unavailable", "beat")
    told.say(5.0, "store.unavailable", "beat")
    told.say(5.1, "store.recovered", "report")
    assert len(told.lines) == 1


def test_a_refusal_is_said_once_per_ten_seconds_also_during_an_outage(told: Told) -> None:
    told.say(0.0, "store.unavailable", "exchange")
    for tenth in range(1, 150):
        told.say(tenth / 10, "store.refused", "exchange")
    told.say(15.0, "store.refused", "report")
    told.say(16.0, "store.recovered", "report")
    told.say(17.0, "store.recovered", "exchange")
    assert told.lines == [
        "store.unavailable operation=exchange",
        "store.refused operation=exchange",
        "store.refused operation=exchange",
        "store.refused operation=report",
        "store.recovered operation=exchange after_seconds=17.0",
    ]


def test_what_was_given_up_does_not_keep_the_outage_open(told: Told) -> None:
    told.say(0.0, "store.unavailable", "close")
    told.say(1.0, "store.unavailable", "beat")
    told.say(30.0, "store.recovered", "beat")
    assert told.lines[-1] == "store.recovered operation=beat after_seconds=30.0"


def test_a_later_outage_is_told_anew(told: Told) -> None:
    for start in (0.0, 3.0):
        told.say(start, "store.unavailable")
        told.say(start + 1, "store.recovered")
    told.say(100.0, "store.unavailable", "close")
    told.say(200.0, "store.unavailable", "close")
    assert (
        told.lines
        == [
            "store.unavailable operation=beat",
            "store.recovered operation=beat after_seconds=1.0",
        ]
        * 2
        + ["store.unavailable operation=close"] * 2
    )


def test_everything_else_is_left_alone(told: Told) -> None:
    told.say(0.0, "store.unavailable")
    told.say(0.1, "job.rescued")
    told.say(0.2, "store.recovered", "never failed")
    assert told.lines == ["store.unavailable operation=beat", "job.rescued operation=beat"]
