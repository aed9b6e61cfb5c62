"""Buckets on the server of the tests, and what a call ended with."""

from collections.abc import Awaitable

from holdfast._ports.bucket import Bucket, BucketProblem, BucketUnavailable
from holdfast._system.clock import SystemClock
from holdfast.databases.buckets.opening import open_bucket
from holdfast.testing.clock import FakeClock
from holdfast.testing.servers import BucketServer

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCY"


class SkippingClock(FakeClock):
    """A clock whose sleepers wake at once, with their time passed."""

    async def sleep(self, seconds: float) -> None:
        """Let the time pass."""
        self.advance(seconds)


def bucket_on(server: BucketServer) -> Bucket:
    """Open the bucket of a server."""
    return open_bucket(server.bucket_url, SystemClock())


async def problem_of(call: Awaitable[object]) -> BucketProblem:
    """Return why the call has no answer."""
    try:
        answer = await call
    except BucketUnavailable as error:
        return error.problem
    raise AssertionError(f"it answered {answer!r}")
