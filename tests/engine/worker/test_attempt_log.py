"""A worker logs its attempts as the operator has chosen, and counts those without a line."""

import logging
from collections.abc import Iterator
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core import lifecycle
from holdfast._core.job import ActiveJob, Claim, Failure, State, Token
from holdfast._core.outcome import Done, Outcome, Raised
from holdfast._core.policy import Policy
from holdfast._engine.events import Events
from holdfast._engine.worker.attempt_log import AttemptLog
from holdfast._engine.worker.finished_runs import FinishedRun
from holdfast._engine.worker.job_events import OutcomeEvents
from holdfast._engine.worker.options import LogErrors, LogJobs, WorkerOptions

JOB = ActiveJob(
    id=UUID(int=7),
    token=Token(UUID(int=1), 1),
    lease=UUID(int=2),
    task="pay",
    state=State.RUNNING,
    attempt=1,
    failures=0,
    crashes=0,
    policy=Policy(max_attempts=1),
)
CLAIM = Claim(job=JOB, payload=b'{"iban":"DE00 1234"}', checkpoint=b'{"token":"abcdef"}')
TRACE = 'Traceback (most recent call last):\n  File "/srv/shop/bank.py", line 3, in pay\nValueError: DE00 1234\x1b[2J abcdef\n'
BROKEN = Raised(Failure("ValueError", "DE00 1234\x1b[2J abcdef", TRACE))


class Site:
    """The events and the log of a worker, and what it logs."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.now, self._caplog = 0.0, caplog

    def start(self, jobs: str, errors: str = "full") -> "Site":
        self.log = AttemptLog(WorkerOptions(log_jobs=LogJobs(jobs), log_errors=LogErrors(errors)), lambda: self.now)
        self.outcomes = OutcomeEvents(Events(), self.log)
        return self

    def ends(self, outcome: Outcome, claim: Claim = CLAIM) -> None:
        self.outcomes.announce(
            FinishedRun(claim, lifecycle.finish(claim.job, outcome, jitter=0.0), seconds=0.5, waited=0.9), job=JOB.id
        )

    @property
    def lines(self) -> list[str]:
        return [f"{record.levelname} {record.getMessage()}" for record in self._caplog.records]


@pytest.fixture
def site(caplog: pytest.LogCaptureFixture) -> Iterator[Site]:
    caplog.set_level(logging.INFO, logger="holdfast")
    return Site(caplog)


COMPLETED = "INFO pay 000007 completed in 0.5 s, from its checkpoint"
FAILED = "ERROR pay 000007 failed for good, attempt 1 of 1: ValueError: hidden\\x1b[2J hidden"


@pytest.mark.parametrize(
    ("jobs", "lines"),
    [
        ("auto", [COMPLETED, FAILED]),
        ("all", ["INFO pay 000007 started, attempt 1, waited 0.9 s", COMPLETED, FAILED]),
        ("failures", [FAILED]),
        ("off", []),
    ],
)
def test_the_operator_chooses_which_attempts_have_a_line(site: Site, jobs: str, lines: list[str]) -> None:
    log = site.start(jobs).log
    if log.has_started:
        log.started(CLAIM, 0.9)
    site.ends(Done())
    site.ends(BROKEN)
    assert site.lines == lines


@pytest.mark.parametrize(
    ("errors", "end", "trace"),
    [
        ("full", "ValueError: hidden\\x1b[2J hidden", TRACE.replace("DE00 1234\x1b[2J abcdef\n", "hidden\\x1b[2J hidden")),
        ("where", "ValueError", '  File "/srv/shop/bank.py", line 3, in pay'),
        ("type", "ValueError", None),
    ],
)
def test_the_operator_chooses_what_a_failure_shows(
    site: Site, caplog: pytest.LogCaptureFixture, errors: str, end: str, trace: str | None
) -> None:
    site.start("auto", errors).ends(BROKEN)
    assert site.lines == [f"ERROR pay 000007 failed for good, attempt 1 of 1: {end}"]
    assert caplog.records[0].exc_text == trace


def test_a_formatter_of_the_application_shows_the_traceback_once(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.start("auto").ends(BROKEN)
    assert logging.Formatter("%(message)s").format(caplog.records[0]).count("Traceback") == 1


def test_attempts_without_a_line_are_counted_in_a_summary(site: Site) -> None:
    site.start("auto")
    for _ in range(1000):
        site.ends(Done())
    assert len(site.lines) == 15
    site.now = 10.0
    site.log.flush()
    assert site.lines[15:] == ["INFO 1,000 completed in 10 s (default 1,000), 0 failed, median 0.5 s"]


def test_failures_without_a_line_make_the_summary_a_warning(site: Site) -> None:
    site.start("failures")
    for _ in range(30):
        site.ends(BROKEN)
    site.log.flush(is_last=True)
    assert len(site.lines) == 21
    assert site.lines[-1] == "WARNING 0 completed in 0 s, 30 failed, median 0.5 s"


def test_completed_attempts_have_no_listener_below_the_level_info(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="holdfast")
    assert not site.start("auto").outcomes.has_listener
    caplog.set_level(logging.INFO, logger="holdfast")
    assert site.outcomes.has_listener
    assert not site.start("off").outcomes.has_listener


def test_a_log_handler_that_raises_does_not_keep_an_outcome_from_its_subscribers(site: Site) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ValueError

    events, seen = Events(), list[str]()
    events.on("*", lambda event: seen.append(event.name.value))
    site.start("auto")
    site.outcomes = OutcomeEvents(events, site.log)
    handler = Broken()
    logging.getLogger("holdfast").addHandler(handler)
    try:
        site.ends(Done(), structs.replace(CLAIM, checkpoint=None))
    finally:
        logging.getLogger("holdfast").removeHandler(handler)
    assert seen == ["subscriber.failed", "job.completed"]
