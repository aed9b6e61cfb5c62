"""The bucket in memory understands S3 as obstore uses it, and fails as often as a test asks."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta

import obstore
import pytest
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import S3Store

from examples.paste_cleanup import bucket_server
from examples.paste_cleanup.bucket_server import BucketServer
from holdfast.testing.servers.process import free_port

BRIEF = timedelta(milliseconds=5)
NAMES = [f"a/{number:04} <&> é" for number in range(1500)]


@pytest.fixture
def bucket() -> Iterator[BucketServer]:
    with BucketServer() as server:
        yield server


def client(url: str, *, retries: int = 0) -> S3Store:
    endpoint, _, name = url.rpartition("/")
    return S3Store(
        name,
        endpoint=endpoint,
        region="us-east-1",
        skip_signature=True,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True, "timeout": "20s"},
        retry_config={"max_retries": retries, "backoff": {"init_backoff": timedelta(milliseconds=1), "max_backoff": BRIEF}},
    )


def put_all(bucket: BucketServer) -> None:
    bucket.objects.update(dict.fromkeys(NAMES, b"text"))


def names(store: S3Store, prefix: str = "") -> list[str]:
    return [found["path"] for page in obstore.list(store, prefix=prefix) for found in page]


def test_objects_come_back_as_they_were_put(bucket: BucketServer) -> None:
    store = client(bucket.url)
    obstore.put(store, NAMES[0], b"\0text")
    assert bucket.objects == {NAMES[0]: b"\0text"}
    assert bytes(obstore.get(store, NAMES[0]).bytes()) == b"\0text"
    assert obstore.head(store, NAMES[0])["size"] == 5
    obstore.delete(store, NAMES[0])
    obstore.delete(store, NAMES[0])
    with pytest.raises((NotFoundError, FileNotFoundError)):
        obstore.get(store, NAMES[0])


def test_lists_go_on_after_a_page_and_know_prefixes(bucket: BucketServer) -> None:
    put_all(bucket)
    bucket.objects["b/1"] = b""
    store = client(bucket.url)
    assert names(store) == [*NAMES, "b/1"]
    assert names(store, "b") == ["b/1"]
    assert bucket.calls["GET"] == 3


def test_a_thousand_are_deleted_at_once(bucket: BucketServer) -> None:
    put_all(bucket)
    obstore.delete(client(bucket.url), NAMES[:1000])
    assert list(bucket.objects) == NAMES[1000:]
    assert bucket.calls["deletes"] == 1


def test_what_is_locked_stays_and_the_rest_of_its_call_goes(bucket: BucketServer) -> None:
    put_all(bucket)
    bucket.locked = {NAMES[3]}
    store = client(bucket.url)
    for asked in (NAMES[:1000], NAMES[3]):
        with pytest.raises(BaseError):
            obstore.delete(store, asked)
    assert list(bucket.objects) == [NAMES[3], *NAMES[1000:]]


def test_a_call_that_fails_does_nothing_and_one_whose_answer_is_lost_is_done(bucket: BucketServer) -> None:
    store = client(bucket.url)
    bucket.fail(failing=1.0)
    with pytest.raises(BaseError, match="SlowDown"):
        obstore.put(store, "failed", b"")
    bucket.fail(losing=1.0)
    with pytest.raises(BaseError):
        obstore.put(store, "lost", b"")
    assert list(bucket.objects) == ["lost"]


def test_it_fails_as_often_as_the_test_asks() -> None:
    with BucketServer() as bucket:
        put_all(bucket)
        bucket.fail(failing=0.2, losing=0.1)
        store = client(bucket.url, retries=10)
        for name in NAMES[:200]:
            obstore.put(store, name, b"")
        assert 25 <= bucket.calls["failed"] <= 100
        assert 10 <= bucket.calls["lost"] <= 50
        assert len(bucket.objects) == 1500
        bucket.fail(refusing=0.1)
        with pytest.raises(BaseError):
            obstore.delete(client(bucket.url), NAMES[:1000])
        assert bucket.calls["refused"] == len(bucket.objects) - 500
        assert 50 <= bucket.calls["refused"] <= 200


def test_the_command_prints_its_address_and_ends_on_a_signal() -> None:
    port = free_port()
    command = [sys.executable, bucket_server.__file__, "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        obstore.put(client(url), "mine", b"text")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert url == f"http://127.0.0.1:{port}/bucket"
