"""What every bucket does: conditions, reads, lists, deletes. In memory, through obstore in two protocols, and in a folder."""

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast._ports.bucket import ABSENT, UNCHANGED, Bucket, BucketProblem, BucketUnavailable, Found
from holdfast._system.clock import SystemClock
from holdfast.databases.buckets.opening import open_bucket, open_copy
from holdfast.testing.clock import FakeChance
from holdfast.testing.servers import BucketServer
from tests.buckets.support import problem_of

names = FakeChance()


SHARED = ("memory", "s3", "google")


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest) -> str:
    """Return the URL of an empty bucket that many processes may write."""
    return place_of(request)


@pytest.fixture(params=[*SHARED, "folder"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """Open an empty bucket, or a folder in place of one."""
    bucket, _ = open_copy(place_of(request), SystemClock())
    return bucket


def place_of(request: pytest.FixtureRequest) -> str:
    match request.param:
        case "memory":
            return f"memory-object://{names.uuid4()}"
        case "folder":
            return str(request.getfixturevalue("tmp_path") / "copy")
        case "s3":
            server: BucketServer = request.getfixturevalue("server")
            return server.bucket_url
        case _:
            return str(request.getfixturevalue("google"))


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


async def test_files_of_a_folder_are_readable_for_their_owner_only_and_a_cut_write_leaves_no_object(tmp_path: Path) -> None:
    bucket, name = open_copy(str(tmp_path / "copy"), SystemClock())
    await bucket.put("runs/1", b"one")
    (tmp_path / "copy/runs/.2.partial").write_bytes(b"tw")
    assert [each.key for each in await bucket.list()] == ["runs/1"]
    assert (tmp_path / "copy/runs/1").stat().st_mode & 0o777 == 0o600
    assert name == str(tmp_path / "copy")
    for key in ("../out", "/etc/passwd", "runs/../../out", ".hidden", ""):
        with pytest.raises(BucketUnavailable, match="is not the name of an object"):
            await bucket.put(key, b"")
    assert os.listdir(tmp_path) == ["copy"]
