"""The bucket that a URL names; the driver is loaded only here, when it is needed."""

from pathlib import Path

from holdfast._core.bucket_url import BucketUrl, problems_of_bucket_url
from holdfast._ports.bucket import Bucket
from holdfast._ports.clock import Clock
from holdfast.errors import ConfigurationError


def open_bucket(url: str, clock: Clock) -> Bucket:
    """Open the bucket of a URL, without a call to it yet. ``ConfigurationError``: the URL is wrong, or a driver is missing."""
    if problems := problems_of_bucket_url(url):
        raise ConfigurationError(problems)
    parsed = BucketUrl.of(url)
    if parsed.scheme == "memory-object":
        from holdfast.databases.buckets.memory_bucket import MemoryBucket

        return MemoryBucket(parsed, clock)
    from holdfast.databases.buckets.object_bucket import ObjectBucket

    return ObjectBucket(parsed)


def open_copy(place: str, clock: Clock) -> tuple[Bucket, str]:
    """Open the place of a copy, the URL of a bucket or the path of a folder; return it with its name for people."""
    if "://" in place:
        return open_bucket(place, clock), BucketUrl.of(place).public
    from holdfast.databases.buckets.folder_bucket import FolderBucket

    return FolderBucket(Path(place)), str(Path(place).absolute())
