"""Which broker leads a bucket, for what needs nothing else of the store."""

from msgspec import DecodeError

from holdfast._ports.bucket import Bucket, BucketProblem, BucketUnavailable, Found
from holdfast.stores.objects.head import KEY, read


class LeaderLook:
    """Reads the head, and keeps the leader that it names until the head has changed."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._etag: str | None = None
        self._leader: str | None = None

    async def leader(self) -> str | None:
        """Return the URL of the broker that leads; ``None``: none does, or there is no store. ``BucketUnavailable``: no answer."""
        found = await self._bucket.get(KEY, self._etag)
        if isinstance(found, Found):
            try:
                broker = read(found.body).broker
            except DecodeError as error:
                raise BucketUnavailable(f"{KEY} cannot be read: {error}", BucketProblem.SERVER) from None
            self._etag, self._leader = found.etag, None if broker is None else broker.url
        return self._leader

    async def close(self) -> None:
        """Close the connection, which no look uses any more."""
        await self._bucket.close()
