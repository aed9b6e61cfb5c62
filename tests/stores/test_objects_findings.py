"""What a check reports about a store in a bucket: sizes against limits, the clock, and the price of its writes."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.answers import Check
from holdfast.stores.objects.findings import findings_of, writes_per_minute
from holdfast.stores.objects.head import Commit, Head, Leader, Run
from holdfast.stores.objects.limits import LIMITS, MANY_JOBS, MANY_RUN_BYTES

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def head(*, size: int = 0, commits: int = 0, seconds: float = 60.0) -> Head:
    """Return a head with a run of this size, and commits in these last seconds."""
    start = NOW - timedelta(seconds=seconds)
    tail = tuple(Commit(number + 2, "nonce", start + timedelta(seconds=number), ()) for number in range(commits))
    runs = (Run("runs/one", 0, 1, size),)
    return Head(format=1, needs=1, store=UUID(int=1), version=commits + 1, runs=runs, tail=tail)


def findings(found: Head, *, jobs: int = 7, ahead: float = 0.0) -> dict[str, Check]:
    bucket_now = NOW - timedelta(seconds=ahead)
    return {each.name: each for each in findings_of(found, jobs, LIMITS, now=NOW, bucket_now=bucket_now)}


@pytest.mark.parametrize(("more", "level"), [(0, "ok"), (1, "warning")])
def test_sizes_beyond_what_is_comfortable_are_warned_of(more: int, level: str) -> None:
    assert findings(head(), jobs=MANY_JOBS + more)["size"].level == level
    found = findings(head(size=MANY_RUN_BYTES + more))["objects"]
    assert (found.level, bool(found.remedy)) == (level, level == "warning")
    assert "1 runs of 128.0 MiB" in found.message


def test_a_full_store_is_an_error_with_a_remedy() -> None:
    size, objects = findings(head(), jobs=LIMITS.jobs)["size"], findings(head(size=LIMITS.run_bytes + 1))["objects"]
    assert (size.level, objects.level) == ("error", "error")
    assert "takes no new ones" in size.message
    assert "PostgreSQL" in size.remedy
    assert "the limit is 536,870,912" in objects.message
    assert "holdfast store compact" in objects.remedy


@pytest.mark.parametrize(
    ("ahead", "level", "message"),
    [(5.0, "ok", "agree"), (5.5, "warning", "6 s ahead of"), (-3600.0, "warning", "3600 s behind")],
)
def test_a_clock_that_differs_from_the_buckets_is_named(ahead: float, level: str, message: str) -> None:
    found = findings(head(), ahead=ahead)["clock"]
    assert (found.level, message in found.message) == (level, True)
    assert ("NTP" in found.remedy) is (level == "warning")


@pytest.mark.parametrize(
    ("age", "level", "message"),
    [(0.0, "ok", "wrote 0 s ago"), (17.0, "ok", "wrote 17 s ago"), (18.0, "warning", "has written nothing for 18 s")],
)
def test_the_leader_is_named_with_its_epoch_and_its_last_write(age: float, level: str, message: str) -> None:
    broker = Leader(UUID(int=2), "http://a:1", "1.2.3")
    led = structs.replace(head(commits=1, seconds=age), broker=broker, epoch=3)
    found = findings(led)["leader"]
    assert found.message == f"the broker at http://a:1, release 1.2.3, leads in epoch 3, and {message}"
    assert (found.level, bool(found.remedy)) == (level, level == "warning")


def test_a_bucket_whose_brokers_have_ended_has_no_leader_and_one_that_never_had_any_is_not_asked() -> None:
    assert "no broker leads since epoch 3" in findings(structs.replace(head(), epoch=3))["leader"].message
    assert "leader" not in findings(head())


def test_writes_are_counted_by_the_newest_ones_and_priced() -> None:
    found = findings(head(commits=30, seconds=60.0))["writes"]
    assert found.message.startswith("30.0 writes of the head per minute, by its last 30: about $6.48 a month")
    assert writes_per_minute(head(commits=30, seconds=3600.0), NOW) == 0.5
    assert "writes" not in findings(head(commits=4))
    assert writes_per_minute(head(commits=9, seconds=-1.0), NOW) is None
