"""The creation of a store, which only ``migrate`` does: a head that is missing may have been deleted, and its jobs with it."""

from uuid import UUID

from msgspec import DecodeError, json

from holdfast._core.release import UPGRADE
from holdfast._ports.bucket import ABSENT, Bucket, BucketUnavailable, Found
from holdfast.errors import ConfigurationError, SchemaTooNew
from holdfast.stores.objects.head import FORMAT, KEY, Head, read
from holdfast.stores.objects.pieces import RESTORE


async def create(bucket: Bucket, store: UUID) -> tuple[int, int]:
    """Write the first head, unless there is one, and return the formats before and after."""
    if (found := await bucket.get(KEY)) is ABSENT:
        head = Head(format=FORMAT, needs=FORMAT, store=store, version=0)
        try:
            await bucket.put(KEY, json.encode(head), ABSENT)
        except BucketUnavailable:
            found = await bucket.get(KEY)  # whether there is one now, only a read can answer
            if found is ABSENT:
                raise
        else:
            return 0, FORMAT
    assert isinstance(found, Found)
    try:
        there = read(found.body)
    except DecodeError:
        raise ConfigurationError([f"{KEY} is there and cannot be read: use another prefix, or {RESTORE}"]) from None
    if there.needs > FORMAT:
        raise SchemaTooNew(f"{KEY} was written by a newer release: {UPGRADE}")
    return there.format, FORMAT
