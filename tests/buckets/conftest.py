"""A bucket server for each test, and credentials in the environment."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.testing.servers import BucketServer
from tests.buckets.support import SECRET


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sign with a key that no error may show."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


@pytest.fixture
def google(server: BucketServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL by which the bucket is reached in Google's protocol, without signatures."""
    account = {"gcs_base_url": server.url, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    (tmp_path / "key.json").write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "key.json"))
    return f"gs://bucket/jobs?endpoint={server.url}&interval=0s"


@pytest.fixture
def server() -> Iterator[BucketServer]:
    """Serve an empty bucket."""
    with BucketServer() as server:
        yield server
