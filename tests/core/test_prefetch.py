"""When a worker claims jobs ahead of its free slots, how many, and how many of them one write starts."""

import pytest

from holdfast._core.policy import CrashPolicy, Policy
from holdfast._core.prefetch import GATHER_TIME, GATHERED, MOST_HELD, MOST_STARTED, Throughput, problems_of_prefetch

RETRY, HOLD, FAIL = Policy(), Policy(on_crash=CrashPolicy.HOLD), Policy(on_crash=CrashPolicy.FAIL)
BUSY = Throughput(rate=2000.0, exchange=0.01, full_claims=2)


@pytest.mark.parametrize(
    ("throughput", "jobs"),
    [
        (BUSY, 200),
        (Throughput(2000.0, 0.01, full_claims=1), 0),  # one full claim does not show a backlog
        (Throughput(0.0, 0.01, full_claims=2), 0),
        (Throughput(20.0, 0.01, full_claims=9), 0),  # a handler takes half a second, and an exchange does not matter
        (Throughput(50.0, 0.01, full_claims=9), 0),
        (Throughput(101.0, 0.01, full_claims=9), 10),
        (Throughput(90_000.0, 0.01, full_claims=9), MOST_HELD - 10),
        (Throughput(1000.0, 0.05, full_claims=9), 200),  # four exchanges
        (Throughput(1000.0, 0.2, full_claims=9), 500),  # half a second
    ],
)
def test_jobs_ahead_are_what_the_slots_finish_in_the_time(throughput: Throughput, jobs: int) -> None:
    assert throughput.jobs_ahead(10, 0.1, None) == jobs


def test_fewer_jobs_are_ahead_while_the_claimed_ones_have_keys() -> None:
    keyed = Throughput(20_000.0, 0.01, full_claims=2).claimed(0.01, is_full=True, has_keys=True)
    assert keyed.jobs_ahead(100, 0.1, None) == 100
    assert keyed.claimed(0.01, is_full=True).jobs_ahead(100, 0.1, None) == MOST_HELD - 100


def test_jobs_ahead_are_at_most_what_the_option_allows() -> None:
    assert [BUSY.jobs_ahead(10, 0.1, most) for most in (0, 7, 1000)] == [0, 7, 200]
    assert BUSY.jobs_ahead(10, 0.5, None) == 990
    assert BUSY.jobs_ahead(2000, 0.1, None) == 0


def test_a_short_claim_ends_claiming_ahead_until_two_are_full_again() -> None:
    short = BUSY.claimed(0.01, is_full=False)
    assert (short.full_claims, short.rate, short.jobs_ahead(10, 0.1, None)) == (0, 0.0, 0)
    full = short.settled(100, 0.001).claimed(0.01, is_full=True).settled(10, 0.01).claimed(0.01, is_full=True)
    assert (full.full_claims, full.rate) == (2, 1000.0)


def test_averages_follow_what_is_measured() -> None:
    pace = BUSY.settled(10, 0.01)
    assert pace.rate == pytest.approx(1800.0)
    assert pace.settled(0, 0.01) == pace == pace.settled(5, 0.0)
    assert BUSY.started(0.02).started(0.01).start == pytest.approx(0.018)


@pytest.mark.parametrize(
    ("waiting", "free", "started", "count"),
    [
        ([RETRY] * 100, 0, 0, 20),  # ten milliseconds of work
        ([RETRY] * 100, 0, 15, 5),
        ([RETRY] * 100, 0, 30, 0),
        ([RETRY] * 100, 50, 0, 50),  # at least the free slots
        ([RETRY] * 100, 20, 30, 20),  # beside those of started jobs
        ([RETRY] * 3, 50, 0, 3),
        ([HOLD] * 100, 0, 0, 0),  # a crash would not repeat it: no more than free slots
        ([FAIL] * 100, 4, 0, 4),
        ([HOLD] * 100, 1, 3, 1),
        ([RETRY, RETRY, HOLD, RETRY], 2, 0, 2),
        ([RETRY, HOLD, RETRY, RETRY], 2, 0, 4),
        ([], 5, 0, 0),
    ],
)
def test_one_write_starts_the_next_ten_milliseconds(waiting: list[Policy], free: int, started: int, count: int) -> None:
    assert BUSY.jobs_to_start(waiting, free=free, started=started) == count


def test_one_write_starts_no_more_than_its_limit_and_covers_its_answer() -> None:
    assert Throughput(90_000.0, 0.01, full_claims=2).jobs_to_start([RETRY] * 999, free=0, started=0) == MOST_STARTED
    slow = Throughput(2000.0, 0.01, start=0.02, full_claims=2)
    assert slow.jobs_to_start([RETRY] * 100, free=0, started=0) == 60
    assert [slow.is_low(started) for started in (50, 51)] == [True, False]


@pytest.mark.parametrize(
    ("throughput", "ended", "ahead", "seconds"),
    [
        (BUSY, 0, 40, GATHER_TIME),
        (BUSY, GATHERED - 1, 200, GATHER_TIME),
        (BUSY, GATHERED, 200, 0.0),
        (BUSY, 1, 39, 0.0),  # the slots might run out of work
        (Throughput(), 1, 200, 0.0),
    ],
)
def test_outcomes_are_gathered_while_the_slots_have_work(throughput: Throughput, ended: int, ahead: int, seconds: float) -> None:
    assert throughput.gather_time(ended, ahead) == seconds


@pytest.mark.parametrize(
    ("prefetch", "seconds", "names"),
    [
        (None, 0.1, []),
        (0, 0.5, []),
        (-1, 0.1, ["prefetch=-1"]),
        ("many", 0.6, ["prefetch='many'", "prefetch_time=0.6s"]),
        (True, 0.0, ["prefetch=True", "prefetch_time=0s"]),
    ],
)
def test_every_problem_of_the_options_is_named(prefetch: object, seconds: float, names: list[str]) -> None:
    assert [problem.partition(":")[0] for problem in problems_of_prefetch(prefetch, seconds)] == names
