"""The calendar of schedules: what a cron expression means on days on which clocks change, and which missed ticks fire."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile
from uuid import RFC_4122, UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from holdfast import ConfigurationError, InvalidCron
from holdfast._core.ticks import (
    Cron,
    Every,
    When,
    cron,
    every,
    following,
    jitter_of,
    job_of,
    newest,
    number_of,
    upcoming,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
EDITION = UUID(int=7)
ZONES = (
    *("Europe/Berlin", "America/New_York", "America/Los_Angeles", "Australia/Sydney", "America/Santiago"),
    *("Asia/Jerusalem", "Africa/Cairo", "Pacific/Auckland", "America/Sao_Paulo", "Asia/Kolkata"),
)
YEARS = range(2024, 2029)


def clock(zone: str, at: str) -> str:
    """Return an instant, written in UTC, as the clocks of the zone show it."""
    return f"{datetime.fromisoformat(at).replace(tzinfo=UTC).astimezone(ZoneInfo(zone)):%d %H:%M}"


def ticks(when: When, first: str, number: int) -> list[str]:
    found = upcoming(when, START, datetime.fromisoformat(first).replace(tzinfo=UTC), number)
    return [f"{tick:%m-%d %H:%M}" for tick in found]


@pytest.mark.parametrize(
    ("expression", "zone", "first", "expected"),
    [
        # 29 March 2026: 02:00 becomes 03:00, at 01:00 UTC. 02:30 does not exist: right after the gap instead.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28", ["03-28 01:30", "03-29 01:00", "03-30 00:30"]),
        ("0,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["03-29 01:00", "03-30 00:00", "03-30 00:30"]),
        ("0 3 * * *", "Europe/Berlin", "2026-03-28", ["03-28 02:00", "03-29 01:00", "03-30 01:00"]),
        # 25 October 2026: 03:00 becomes 02:00, at 01:00 UTC. 02:30 comes twice: the first one only.
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["10-25 00:30", "10-26 01:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:45", ["10-26 01:30"]),
        # With a star in minute or hour, elapsed time counts.
        ("0 * * * *", "Europe/Berlin", "2026-10-24T23:30", ["10-25 00:00", "10-25 01:00", "10-25 02:00"]),
        ("*/30 2 * * *", "Europe/Berlin", "2026-10-24T23:59", ["10-25 00:00", "10-25 00:30", "10-25 01:00", "10-25 01:30"]),
        ("0 * * * *", "Europe/Berlin", "2026-03-29T00:00", ["03-29 01:00", "03-29 02:00"]),
        ("0 0 29 2 *", "UTC", "2026-01-01", ["02-29 00:00"]),
        ("0 9 * * 1", "UTC", "2026-01-01", ["01-05 09:00", "01-12 09:00"]),
    ],
)
def test_the_table_of_transitions(expression: str, zone: str, first: str, expected: list[str]) -> None:
    assert ticks(Cron(expression, zone), first, len(expected)) == expected


def transitions(zone: str) -> Iterator[tuple[datetime, timedelta]]:
    """Yield each change of the zone's clocks, with how far they go on."""
    place, hour = ZoneInfo(zone), timedelta(hours=1)
    at = datetime(YEARS.start, 1, 1, tzinfo=UTC)
    while at.year in YEARS:
        before, after = at.astimezone(place).utcoffset(), (at + hour).astimezone(place).utcoffset()
        assert before is not None
        assert after is not None
        if before != after:
            yield at + hour, after - before
        at += hour


def expected_day(zone: str, expression: tuple[int, int], day: datetime) -> datetime:
    """Return the first instant at which the clocks of the zone show this time of the day, or have just passed it."""
    place = ZoneInfo(zone)
    shown = day.replace(hour=expression[0], minute=expression[1], tzinfo=None)
    at = shown.replace(tzinfo=UTC) - timedelta(hours=15)
    while at.astimezone(place).replace(tzinfo=None) < shown:
        at += timedelta(minutes=15)
    return at


@pytest.mark.parametrize("zone", ZONES)
def test_both_transitions_of_ten_zones_over_five_years(zone: str) -> None:
    found = list(transitions(zone))
    assert (len(found) == 0) == (zone in ("America/Sao_Paulo", "Asia/Kolkata"))
    for change, _ in found or [(datetime(year, 3, 29, 1, tzinfo=UTC), timedelta(0)) for year in YEARS]:
        first = change.astimezone(ZoneInfo(zone)).replace(hour=0, minute=0, tzinfo=None) - timedelta(days=1)
        for hour, minute in [(hour, minute) for hour in range(24) for minute in (0, 30)]:
            when = Cron(f"{minute} {hour} * * *", zone)
            expected = [expected_day(zone, (hour, minute), first + timedelta(days=day)) for day in range(3)]
            assert upcoming(when, START, expected[0] - timedelta(hours=1), 3) == expected, when
        hourly = upcoming(Cron("0 * * * *", zone), START, change - timedelta(hours=6), 12)
        assert {later - earlier for earlier, later in pairwise(hourly)} == {timedelta(hours=1)}


WHENS: tuple[When, ...] = (
    Every(7_000_000),
    Every(3_600_000_000),
    Cron("*/5 * * * *"),
    Cron("30 2 * * *", "Europe/Berlin"),
    Cron("0 * * * *", "America/New_York"),
    Cron("15 1,2,3 * * *", "America/New_York"),
)


@settings(deadline=None, max_examples=200)
@given(some.sampled_from(WHENS), some.integers(0, 400 * 86_400), some.integers(0, 100_000), some.integers(0, 5))
def test_the_same_ticks_from_any_instant_on(when: When, start: int, length: int, most: int) -> None:
    after = START + timedelta(seconds=start, microseconds=start)
    first = following(when, START, after)
    until = first + timedelta(seconds=length)
    walked, tick = [], first
    while tick < until:
        walked.append(tick)
        tick = following(when, START, tick)
    assert list(takewhile(lambda tick: tick < until, upcoming(when, START, after, len(walked) + 1))) == walked
    assert newest(when, START, first, until, most) == (walked[-most:] if most else [])
    assert number_of(when, START, first, until) == min(len(walked), 1000)


def test_every_counts_from_its_anchor() -> None:
    anchor = START + timedelta(seconds=3)
    assert following(every("10s"), anchor, anchor) == anchor + timedelta(seconds=10)
    assert following(every("10s"), anchor, anchor + timedelta(seconds=9)) == anchor + timedelta(seconds=10)
    assert following(every("10s"), anchor, anchor - timedelta(seconds=1)) == anchor


def test_jitter_and_id_follow_from_the_tick() -> None:
    later = START + timedelta(hours=1)
    assert jitter_of("a", START, 30.0) == jitter_of("a", START, 30.0) != jitter_of("a", later, 30.0)
    assert all(0.0 <= jitter_of("a", START + timedelta(hours=n), 30.0) < 30.0 for n in range(500))
    assert jitter_of("a", START, 0.0) == 0.0
    job = job_of("a", START, EDITION)
    assert job == job_of("a", START, EDITION)
    assert len({job, job_of("b", START, EDITION), job_of("a", later, EDITION), job_of("a", START, UUID(int=8))}) == 4
    assert (job.version, job.variant) == (7, RFC_4122)
    assert job < job_of("a", later, EDITION)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: every("0.5s"), "out of range"),
        (lambda: every("2000d"), "out of range"),
        (lambda: every("soon"), "not a duration"),
        (lambda: cron("0 3 * *"), "five fields"),
        (lambda: cron("61 3 * * *"), "the minute is not possible: use 0 to 59; also"),
        (lambda: cron("0 3 * * FUN"), "the day of week is not possible: use 0 to 7, or SUN to SAT"),
        (
            lambda: cron("0 0 30 2 *"),
            "the day of month is not possible: use 1 to 31, of which one of its months must have the day",
        ),
        (lambda: cron("0 3 * * *", tz="Mars/Base"), "has no time zone"),
    ],
)
def test_what_cannot_tick_is_refused(make, problem: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigurationError, match=problem):
        make()


@pytest.mark.parametrize("make", [lambda: cron("0 3 * *"), lambda: cron("61 3 * * *"), lambda: cron("0 3 * * *", tz="Mars/Base")])
def test_a_cron_expression_that_cannot_be_read_raises_invalid_cron(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidCron):
        make()


def test_a_day_is_24_hours_and_a_time_of_day_is_not() -> None:
    assert ticks(every("1d"), "2026-03-28T12:00", 2) == ["03-29 00:00", "03-30 00:00"]
    assert clock("Europe/Berlin", "2026-03-28T23:00") == "29 00:00"
    assert ticks(Cron("0 0 * * *", "Europe/Berlin"), "2026-03-28T12:00", 2) == ["03-28 23:00", "03-29 22:00"]
