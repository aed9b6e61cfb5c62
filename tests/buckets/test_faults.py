"""Each fault of a server is the outcome that the port names, and no call is sent twice."""

import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from holdfast._core.bucket_url import BucketUrl
from holdfast._ports.bucket import ABSENT, Bucket, BucketProblem, BucketUnavailable, Found
from holdfast._system.clock import SystemClock
from holdfast.databases.buckets.object_bucket import ObjectBucket
from holdfast.databases.buckets.opening import open_bucket
from holdfast.errors import ConfigurationError, MissingExtra, StoreUnavailable
from holdfast.testing.servers import BucketFault, BucketServer
from tests.buckets.support import SECRET, SkippingClock, bucket_on, problem_of
from tests.event_loops import run

PAYLOAD = b"card 4111-1111-1111-1111"

Call = Callable[[Bucket], Coroutine[Any, Any, object]]

CALLS: dict[str, Call] = {
    "GET": lambda bucket: bucket.get("head.json"),
    "PUT": lambda bucket: bucket.put("head.json", PAYLOAD, ABSENT),
    "DELETE": lambda bucket: bucket.delete("head.json"),
}


@pytest.mark.parametrize("is_applied", [False, True])
@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (409, BucketProblem.CONDITION),
        (412, BucketProblem.CONDITION),
        (429, BucketProblem.THROTTLED),
        (500, BucketProblem.SERVER),
        (503, BucketProblem.THROTTLED),
        (None, BucketProblem.SERVER),
    ],
)
async def test_a_write_without_success_is_unknown_and_a_read_shows_what_happened(
    server: BucketServer, status: int | None, problem: BucketProblem, *, is_applied: bool
) -> None:
    bucket = bucket_on(server)
    server.fail("PUT", BucketFault(status, is_applied=is_applied))
    assert await problem_of(bucket.put("head.json", b"one", ABSENT)) is problem
    assert server.counts["PUT"] == 1
    found = await bucket.get("head.json")
    assert (found is ABSENT) is not is_applied


async def test_the_same_bytes_have_the_same_etag_on_s3(server: BucketServer) -> None:
    bucket = bucket_on(server)
    first = await bucket.put("head.json", b"same")
    assert await bucket.put("head.json", b"same", first) == first


async def test_a_late_write_lands_afterwards_if_its_condition_still_holds(server: BucketServer) -> None:
    bucket = bucket_on(server)
    server.fail("PUT", BucketFault(is_late=True), BucketFault(503, is_late=True))
    await problem_of(bucket.put("head.json", b"late", ABSENT))
    await problem_of(bucket.put("head.json", b"later", ABSENT))
    assert await bucket.get("head.json") is ABSENT
    server.apply_late()
    found = await bucket.get("head.json")
    assert isinstance(found, Found)
    assert found.body == b"late"


async def test_a_stale_read_returns_what_was_there_before(server: BucketServer) -> None:
    bucket = bucket_on(server)
    await bucket.put("head.json", b"one")
    await bucket.put("head.json", b"two")
    server.fail("GET", BucketFault(is_stale=True))
    bodies = [found.body for _ in range(2) if isinstance(found := await bucket.get("head.json"), Found)]
    assert bodies == [b"one", b"two"]


async def test_a_paced_server_refuses_the_second_write_of_a_second() -> None:
    clock = SkippingClock()
    with BucketServer(clock=clock) as server:
        server.interval = 1.0
        bucket = bucket_on(server)
        await bucket.put("head.json", b"one")
        await bucket.put("other.json", b"one")
        assert await problem_of(bucket.put("head.json", b"two")) is BucketProblem.THROTTLED
        clock.advance(1.0)
        await bucket.put("head.json", b"two")


async def test_the_clock_of_the_bucket_is_seen_in_what_was_written(server: BucketServer) -> None:
    bucket = bucket_on(server)
    server.clock_offset = 3600.0
    await bucket.put("head.json", b"one")
    found = await bucket.get("head.json")
    assert isinstance(found, Found)
    assert 3590 < found.modified.timestamp() - SystemClock().wall() < 3610


async def test_an_answer_that_is_too_slow_is_unknown(server: BucketServer) -> None:
    server.latency = 5.0
    bucket = ObjectBucket(BucketUrl.of(server.bucket_url), timeout=0.05)
    assert await problem_of(bucket.put("head.json", b"one")) is BucketProblem.UNREACHABLE


async def test_a_list_goes_on_after_a_page(server: BucketServer) -> None:
    bucket = bucket_on(server)
    for number in range(5):
        await bucket.put(f"runs/{number}", b"")
    server.page = 2
    assert [each.key for each in await bucket.list("runs")] == [f"runs/{number}" for number in range(5)]
    assert server.counts["GET"] == 3


async def test_no_write_may_be_cached(server: BucketServer) -> None:
    await bucket_on(server).put("head.json", b"one", ABSENT)
    (request,) = server.requests
    assert (request.headers["cache-control"], request.key) == ("no-store", "jobs/head.json")


@pytest.mark.parametrize("method", CALLS)
async def test_missing_permission_is_named_with_the_remedy(server: BucketServer, method: str) -> None:
    server.denied = frozenset({method})
    with pytest.raises(BucketUnavailable, match=r"access denied \(403 AccessDenied\): allow reading, writing") as caught:
        await CALLS[method](bucket_on(server))
    assert caught.value.problem is BucketProblem.DENIED


@pytest.mark.parametrize("method", CALLS)
async def test_a_missing_bucket_is_an_error_and_not_an_absent_object(server: BucketServer, method: str) -> None:
    bucket = open_bucket(server.bucket_url.replace("s3://bucket", "s3://other"), SystemClock())
    with pytest.raises(BucketUnavailable, match=r"has no such bucket \(404 NoSuchBucket\): create it") as caught:
        await CALLS[method](bucket)
    assert caught.value.problem is BucketProblem.NO_BUCKET


@pytest.mark.parametrize("method", CALLS)
async def test_another_region_is_named_with_the_remedy(server: BucketServer, method: str) -> None:
    server.region = "eu-central-1"
    with pytest.raises(BucketUnavailable, match=r"in another region .*: write its region into the URL"):
        await CALLS[method](bucket_on(server))
    await CALLS[method](open_bucket(f"{server.bucket_url}&region=eu-central-1", SystemClock()))


@pytest.mark.parametrize("method", CALLS)
async def test_a_server_that_is_away_is_named_with_the_remedy(method: str) -> None:
    with BucketServer() as server:
        bucket = bucket_on(server)
    with pytest.raises(StoreUnavailable, match="check that it is running and reachable"):
        await CALLS[method](bucket)


async def test_a_closed_bucket_refuses_calls(server: BucketServer) -> None:
    bucket = bucket_on(server)
    await bucket.close()
    await bucket.close()
    with pytest.raises(BucketUnavailable, match="this bucket is closed: open another one"):
        await bucket.get("head.json")
    assert server.requests == []


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("fault", [*(BucketFault(status) for status in (409, 412, 403, 429, 500, 503)), BucketFault()])
async def test_no_error_shows_a_secret_or_a_payload(
    server: BucketServer, method: str, fault: BucketFault, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    # A server may quote what it was sent.
    monkeypatch.setattr("holdfast.testing.servers.bucket._xml", lambda name, inside: f"{SECRET} ".encode() + PAYLOAD)
    server.fail(method, fault)
    with pytest.raises(BucketUnavailable) as caught:
        await CALLS[method](bucket_on(server))
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + caplog.text
    assert SECRET not in shown
    assert PAYLOAD.decode() not in shown
    assert caught.value.__context__ is caught.value.__cause__ is None


def test_a_wrong_url_opens_nothing_and_shows_no_secret() -> None:
    with pytest.raises(ConfigurationError, match="must not hold a key") as caught:
        open_bucket(f"s3://bucket?secret_access_key={SECRET}", SystemClock())
    assert SECRET not in str(caught.value)


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "obstore"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(MissingExtra, match="obstore is not installed: pip install obstore"):
        open_bucket("s3://bucket", SystemClock())


def test_a_profile_needs_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ConfigurationError, match=r"\?profile=ops needs boto3, which is not installed: `pip install boto3`"):
        open_bucket("s3://bucket?profile=ops", SystemClock())


class Provider:
    """What obstore's provider for boto3 does, without boto3."""

    def __init__(self, session: SimpleNamespace) -> None:
        if session.profile != "ops":
            raise ValueError(SECRET)

    def __call__(self) -> dict[str, object]:
        """Return the credentials of the profile."""
        return {"access_key_id": "AKIAPROFILE", "secret_access_key": SECRET, "token": None, "expires_at": None}


@pytest.fixture
def boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a boto3 that knows the profile ``ops`` only."""
    modules: dict[str, Any] = {name: ModuleType(name) for name in ("boto3", "obstore.auth.boto3")}
    modules["boto3"].Session = lambda profile_name: SimpleNamespace(profile=profile_name)
    modules["obstore.auth.boto3"].Boto3CredentialProvider = Provider
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("boto3")
async def test_a_profile_signs_with_its_own_credentials(server: BucketServer) -> None:
    await open_bucket(f"{server.bucket_url}&profile=ops", SystemClock()).put("head.json", b"one")
    assert "AKIAPROFILE" in server.requests[0].headers["authorization"]


@pytest.mark.usefixtures("boto3")
def test_a_profile_without_credentials_is_an_error_that_shows_no_secret() -> None:
    with pytest.raises(ConfigurationError, match=r"\?profile=other: it has no credentials: check") as caught:
        open_bucket("s3://bucket?profile=other", SystemClock())
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_credentials_that_cannot_be_read_are_an_error_that_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", f"/none/{SECRET}")
    with pytest.raises(ConfigurationError, match="set GOOGLE_APPLICATION_CREDENTIALS") as caught:
        open_bucket("gs://bucket", SystemClock())
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_process_forked_after_the_first_call_is_refused_and_does_not_hang(server: BucketServer) -> None:
    bucket = bucket_on(server)
    run(bucket.put("head.json", b"one"))
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # the child is ended if its call hangs
        try:
            run(bucket.get("head.json"))
        except ConfigurationError as error:
            os._exit(7 if "before this process was forked" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


async def test_a_server_that_recovers_shows_each_write_that_takes_effect(server: BucketServer) -> None:
    bucket, written = bucket_on(server), list[tuple[str, bytes]]()
    server.on_write = lambda key, body: written.append((key, body))
    server.fail("PUT", BucketFault(500), BucketFault(500, is_applied=True), *[BucketFault(500)] * 9)
    for number in range(2):
        await problem_of(bucket.put("head.json", b"%d" % number))
    server.recover()
    await bucket.put("head.json", b"2")
    assert written == [("jobs/head.json", b"1"), ("jobs/head.json", b"2")]
