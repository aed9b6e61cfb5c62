"""The probe passes a server that keeps its conditions, and names the test that another one fails."""

import pytest

from holdfast._system.clock import SystemClock
from holdfast.databases.buckets.probe import WRITERS, probe
from holdfast.errors import ConfigurationError, StoreUnavailable
from holdfast.testing.clock import FakeChance
from holdfast.testing.servers import BucketFault, BucketServer
from tests.buckets.support import SkippingClock


async def probed(url: str, clock: SkippingClock | None = None) -> None:
    """Probe a bucket with a clock whose sleepers wake at once."""
    await probe(url, clock=clock or SkippingClock(), chance=FakeChance())


async def test_an_honest_server_passes_and_keeps_nothing(server: BucketServer) -> None:
    await probed(server.bucket_url)
    assert server.objects == {}
    assert all(each.key.startswith("jobs/probe/") for each in server.requests)
    assert server.counts["PUT"] == 8 + 3 * WRITERS


async def test_googles_protocol_passes(google: str) -> None:
    await probed(google)


async def test_a_server_of_googles_protocol_that_ignores_generations_is_refused(server: BucketServer, google: str) -> None:
    server.accepts_absent = True
    with pytest.raises(ConfigurationError, match="'condition on an absent key': it accepted"):
        await probed(google)


async def test_a_bucket_in_memory_passes() -> None:
    await probed("memory-object://probed")


async def test_a_server_with_one_write_a_second_passes_with_patience() -> None:
    clock = SkippingClock()
    with BucketServer(clock=clock) as server:
        server.interval = 1.0
        await probed(f"{server.bucket_url}&interval=1s", clock)
        assert server.objects == {}
        await probed(f"{server.bucket_url}&interval=10ms", clock)


@pytest.mark.parametrize(
    ("mode", "failed"),
    [
        (
            "ignores_conditions",
            "'create twice': it accepted a write whose condition did not hold: use a server whose conditional",
        ),
        ("checks_then_acts", "'race': 16 of 16 writers won with one ETag: use a server whose conditional writes are atomic"),
        ("accepts_absent", "'condition on an absent key': it accepted a write whose condition did not hold"),
        ("reads_stale", "'read after write': a read did not return the write before it: remove the cache"),
    ],
)
async def test_a_dishonest_server_is_refused_by_name_with_the_test_it_fails(server: BucketServer, mode: str, failed: str) -> None:
    setattr(server, mode, True)
    with pytest.raises(ConfigurationError) as caught:
        await probed(server.bucket_url)
    assert f"s3://bucket/jobs: {server.url} fails the test {failed}" in str(caught.value)
    assert server.objects == {}


async def test_a_server_that_reports_a_failed_condition_and_writes_is_refused(server: BucketServer) -> None:
    server.ignores_conditions = True
    server.fail("PUT", None, None, BucketFault(412, is_applied=True))
    with pytest.raises(ConfigurationError, match="'create twice': it reported that the condition failed, and wrote"):
        await probed(server.bucket_url)
    assert server.objects == {}


async def test_a_server_that_refuses_a_condition_that_holds_is_refused(server: BucketServer) -> None:
    server.fail("PUT", None, None, None, None, *[BucketFault(412)] * 5)
    with pytest.raises(ConfigurationError, match="'right ETag': it refused a write whose condition held"):
        await probed(server.bucket_url)


@pytest.mark.parametrize("is_applied", [False, True])
async def test_a_server_that_asks_for_another_try_passes(server: BucketServer, *, is_applied: bool) -> None:
    busy = BucketFault(409, is_applied=is_applied)
    server.fail("PUT", busy, *[None] * 4, busy)
    await probed(server.bucket_url)
    assert server.objects == {}


async def test_a_race_that_no_writer_wins_is_run_again(server: BucketServer) -> None:
    server.fail("PUT", *[None] * 8, *[BucketFault(500)] * WRITERS)
    await probed(server.bucket_url)
    assert server.counts["PUT"] == 8 + 4 * WRITERS


async def test_races_that_no_writer_wins_prove_nothing(server: BucketServer) -> None:
    server.fail("PUT", *[None] * 8, *[BucketFault(500)] * WRITERS * 6)
    with pytest.raises(StoreUnavailable, match="answered 500"):
        await probed(server.bucket_url)
    assert server.objects == {}


@pytest.mark.parametrize("position", [0, 3, 5])
async def test_a_write_that_was_throttled_is_repeated(server: BucketServer, position: int) -> None:
    server.fail("PUT", *[None] * position, BucketFault(429), BucketFault(503))
    await probed(server.bucket_url)


@pytest.mark.parametrize(("method", "count"), [("PUT", 8), ("GET", 6)])
async def test_a_fault_is_not_a_failed_test_and_leaves_no_object(server: BucketServer, method: str, count: int) -> None:
    for position in range(count):
        server.fail(method, *[None] * position, BucketFault(500, is_applied=True))
        with pytest.raises(StoreUnavailable, match="answered 500"):
            await probed(server.bucket_url)
        assert server.objects == {}


async def test_read_only_credentials_are_named_with_the_remedy(server: BucketServer) -> None:
    server.denied = frozenset({"PUT", "DELETE"})
    with pytest.raises(ConfigurationError, match=r"PUT .*access denied .*: allow reading, writing, deleting and listing"):
        await probed(server.bucket_url)


async def test_a_missing_right_to_delete_is_found(server: BucketServer) -> None:
    server.denied = frozenset({"DELETE"})
    with pytest.raises(ConfigurationError, match=r"DELETE .*access denied"):
        await probed(server.bucket_url)


async def test_a_missing_bucket_and_another_region_are_named_with_the_remedy(server: BucketServer) -> None:
    with pytest.raises(ConfigurationError, match=r"no such bucket .*: create it, or correct the URL"):
        await probed(server.bucket_url.replace("s3://bucket", "s3://other"))
    server.region = "eu-central-1"
    with pytest.raises(ConfigurationError, match=r"another region .*: write its region into the URL"):
        await probed(server.bucket_url)


async def test_a_server_that_is_away_is_unavailable() -> None:
    with BucketServer() as server:
        url = server.bucket_url
    with pytest.raises(StoreUnavailable, match="check that it is running and reachable"):
        await probe(url, clock=SystemClock(), chance=FakeChance())
