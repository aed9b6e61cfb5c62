"""What every bucket does: conditions, reads, lists, deletes. In memory, and through obstore in two protocols."""

import asyncio
from datetime import UTC, datetime

import pytest

from holdfast._ports.bucket import ABSENT, UNCHANGED, Bucket, BucketProblem, Found
from holdfast._system.clock import SystemClock
from holdfast.databases.buckets.opening import open_bucket
from holdfast.testing.clock import FakeChance
from holdfast.testing.servers import BucketServer
from tests.buckets.support import problem_of

names = FakeChance()


@pytest.fixture(params=["memory", "s3", "google"])
def url(request: pytest.FixtureRequest) -> str:
    """Return the URL of an empty bucket."""
    if request.param == "memory":
        return f"memory-object://{names.uuid4()}"
    server: BucketServer = request.getfixturevalue("server")
    return server.bucket_url if request.param == "s3" else str(request.getfixturevalue("google"))


@pytest.fixture
def bucket(url: str) -> Bucket:
    """Open an empty bucket."""
    return open_bucket(url, SystemClock())


async def body_of(bucket: Bucket, key: str) -> bytes:
    found = await bucket.get(key)
    assert isinstance(found, Found)
    return found.body


async def test_an_object_is_read_as_it_was_written_with_the_etag_of_its_write(bucket: Bucket) -> None:
    before = SystemClock().wall()
    etag = await bucket.put("head.json", b"\0one", ABSENT)
    found = await bucket.get("head.json")
    assert isinstance(found, Found)
    assert (found.body, found.etag) == (b"\0one", etag)
    assert abs(found.modified.timestamp() - before) < 30
    assert found.modified.tzinfo == UTC


async def test_an_absent_object_is_absent(bucket: Bucket) -> None:
    assert await bucket.get("head.json") is ABSENT
    assert await bucket.get("head.json", unless='"0"') is ABSENT


async def test_a_read_of_an_unchanged_object_reports_that(bucket: Bucket) -> None:
    first = await bucket.put("head.json", b"one")
    assert await bucket.get("head.json", unless=first) is UNCHANGED
    await bucket.put("head.json", b"two")
    found = await bucket.get("head.json", unless=first)
    assert isinstance(found, Found)
    assert found.body == b"two"


async def test_a_write_lands_only_on_the_etag_it_names(bucket: Bucket) -> None:
    first = await bucket.put("head.json", b"one", ABSENT)
    second = await bucket.put("head.json", b"two", first)
    assert await problem_of(bucket.put("head.json", b"late", first)) is BucketProblem.CONDITION
    assert await body_of(bucket, "head.json") == b"two"
    await bucket.put("head.json", b"three", second)
    assert await body_of(bucket, "head.json") == b"three"


async def test_an_object_is_created_once_and_a_condition_on_an_absent_one_fails(bucket: Bucket) -> None:
    foreign = await bucket.put("other.json", b"other")
    assert await problem_of(bucket.put("head.json", b"one", foreign)) is BucketProblem.CONDITION
    etag = await bucket.put("head.json", b"one", ABSENT)
    assert await problem_of(bucket.put("head.json", b"two", ABSENT)) is BucketProblem.CONDITION
    await bucket.delete("head.json")
    assert await problem_of(bucket.put("head.json", b"two", etag)) is BucketProblem.CONDITION
    assert await bucket.get("head.json") is ABSENT


async def test_one_of_many_writers_wins(url: str) -> None:
    buckets = [open_bucket(url, SystemClock()) for _ in range(8)]
    etag = await buckets[0].put("head.json", b"start", ABSENT)
    answers = await asyncio.gather(
        *(bucket.put("head.json", b"%d" % place, etag) for place, bucket in enumerate(buckets)), return_exceptions=True
    )
    (winner,) = [place for place, answer in enumerate(answers) if isinstance(answer, str)]
    assert await body_of(buckets[0], "head.json") == b"%d" % winner


async def test_other_bytes_have_another_etag(bucket: Bucket) -> None:
    assert await bucket.put("a", b"one") != await bucket.put("a", b"two")


async def test_a_list_has_what_is_below_a_folder(bucket: Bucket) -> None:
    for key in ("runs/2.gz", "runs/1.gz", "runs-2/1", "head.json"):
        await bucket.put(key, key.encode())
    listed = await bucket.list("runs")
    assert [(each.key, each.size) for each in listed] == [("runs/1.gz", 9), ("runs/2.gz", 9)]
    assert abs(listed[0].modified - datetime.fromtimestamp(SystemClock().wall(), UTC)).total_seconds() < 30
    assert [each.key for each in await bucket.list()] == ["head.json", "runs-2/1", "runs/1.gz", "runs/2.gz"]
    assert await bucket.list("none") == ()


async def test_what_is_deleted_is_absent_and_may_be_deleted_again(bucket: Bucket) -> None:
    await bucket.put("a", b"")
    await bucket.delete("a")
    await bucket.delete("a")
    assert await bucket.get("a") is ABSENT


async def test_buckets_of_one_url_share_their_objects(url: str) -> None:
    first, second = (open_bucket(url, SystemClock()) for _ in range(2))
    await first.put("a", b"one")
    assert await body_of(second, "a") == b"one"
    await first.close()
    assert await body_of(second, "a") == b"one"
