"""A bucket server for each test, and credentials in the environment."""

from collections.abc import Iterator

import pytest

from holdfast.testing.servers import BucketServer
from tests.buckets.support import SECRET


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sign with a key that no error may show."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


@pytest.fixture
def server() -> Iterator[BucketServer]:
    """Serve an empty bucket."""
    with BucketServer() as server:
        yield server
