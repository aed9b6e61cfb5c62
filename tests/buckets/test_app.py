"""An App whose jobs are in a bucket: migrate, enqueue, work, read, check; through obstore, on a server with faults."""

import asyncio
from collections.abc import Callable

import pytest

from holdfast import App, State
from holdfast._engine.operators.upkeep import objects_of
from holdfast.app import environment_of
from holdfast.errors import ConfigurationError, SchemaMissing, StoreUnavailable
from holdfast.settings import public_url, stream_of
from holdfast.testing.servers import BucketFault, BucketServer


async def test_jobs_run_once_while_writes_have_no_answers(server: BucketServer) -> None:
    app, ran = App(server.bucket_url), list[int]()

    @app.task
    async def note(number: int) -> int:
        ran.append(number)
        return number

    with pytest.raises(SchemaMissing, match="holdfast migrate"):
        await note.aenqueue(number=0)
    assert await app.amigrate() == (0, 1)
    lost, late, cut = BucketFault(is_applied=True), BucketFault(412, is_applied=True), BucketFault()
    server.fail("PUT", *(fault for each in (lost, late, cut) * 10 for fault in (None, each)))
    async with app.worker(concurrency=4):
        handles = await asyncio.gather(*(note.aenqueue(number=number) for number in range(20)))
        results = await asyncio.gather(*(handle.aresult(timeout="30s") for handle in handles))
    assert sorted(results) == sorted(ran) == [*range(20)]
    assert (await app.jobs.acounts())[State.COMPLETED] == 20
    await app.aclose()


async def test_a_check_probes_the_server(server: BucketServer) -> None:
    app = App(server.bucket_url)
    await app.amigrate()
    assert "conditions" in [each.name for each in await app.acheck() if each.level == "ok"]
    server.checks_then_acts = True
    (found,) = [each for each in await app.acheck() if each.level == "error"]
    assert "fails the test 'race'" in found.message
    await app.aclose()


async def test_a_check_compares_the_clock_with_the_buckets_and_leaves_no_object(server: BucketServer) -> None:
    app = App(server.bucket_url)
    await app.amigrate()
    assert {"clock", "objects", "size"} <= {each.name for each in await app.acheck() if each.level == "ok"}
    server.clock_offset = 3600.0
    (found,) = [each for each in await app.acheck() if each.name == "clock"]
    assert found.level == "warning"
    assert "s behind the bucket's" in found.message
    assert [*server.objects] == ["jobs/head.json"]
    await app.aclose()


async def test_a_server_that_ignores_conditions_gets_no_store(server: BucketServer) -> None:
    server.ignores_conditions = True
    app = App(server.bucket_url)
    with pytest.raises(ConfigurationError, match="fails the test"):
        await app.amigrate()
    assert "jobs/head.json" not in server.objects
    await app.aclose()


async def test_a_backup_is_restored_on_a_server_whose_conditions_hold(server: BucketServer) -> None:
    app = App(server.bucket_url)
    await app.amigrate()
    await app.aenqueue("note", number=1)
    copy = server.bucket_url.replace("/jobs", "/copy")
    store = objects_of(environment_of(app).store)
    assert (await store.back_up(copy)).jobs == 1
    another = App(server.bucket_url.replace("/jobs", "/again"))
    with pytest.raises(SchemaMissing):
        await another.jobs.acounts()
    assert (await objects_of(environment_of(another).store).restore(copy)).jobs == 1
    assert (await another.jobs.acounts())[State.AVAILABLE] == 1
    server.ignores_conditions = True
    with pytest.raises(ConfigurationError, match="fails the test"):
        await store.restore(copy, is_forced=True)
    assert (await app.jobs.acounts())[State.AVAILABLE] == 1
    await app.aclose()
    await another.aclose()


REFUSALS: dict[str, Callable[[BucketServer], None]] = {
    "allow reading, writing, deleting": lambda server: setattr(server, "denied", frozenset({"PUT"})),
    "write its region into the URL": lambda server: setattr(server, "region", "eu-central-1"),
}


@pytest.mark.parametrize("remedy", REFUSALS)
async def test_settings_that_became_wrong_are_named_and_nothing_is_lost(server: BucketServer, remedy: str) -> None:
    app = App(server.bucket_url)
    await app.amigrate()
    await app.aenqueue("note", number=1)
    store, before = objects_of(environment_of(app).store), dict(server.objects)
    REFUSALS[remedy](server)
    for call in (store.compact, lambda: store.back_up(server.bucket_url.replace("/jobs", "/copy"))):
        with pytest.raises(StoreUnavailable, match=remedy):
            await call()
    with pytest.raises(ConfigurationError, match=remedy):
        await store.restore(server.bucket_url, is_forced=True)
    assert [each.message for each in await app.acheck() if remedy in each.message] != []
    assert server.objects == before
    server.denied, server.region = frozenset(), "us-east-1"
    assert (await app.jobs.acounts())[State.AVAILABLE] == 1
    assert (await store.verify()).damage == ()
    await app.aclose()


async def test_runs_that_a_lifecycle_rule_deleted_are_named_one_by_one(server: BucketServer) -> None:
    app = App(server.bucket_url)
    await app.amigrate()
    await app.aenqueue("note", number=1)
    store = objects_of(environment_of(app).store)
    await store.compact()
    (run,) = [key for key in server.objects if key.startswith("jobs/runs/")]
    deleted = server.objects.pop(run)
    (damage,) = (await store.verify()).damage
    assert (damage.key, damage.problem) == (run.removeprefix("jobs/"), "is missing in the bucket")
    with pytest.raises(StoreUnavailable, match=f"{damage.key} is missing in the bucket: restore the object"):
        await store.inspect()
    server.objects[run] = deleted
    assert (await store.verify()).damage == ()
    await app.aclose()


@pytest.mark.parametrize(
    ("url", "pooler", "problem"),
    [
        ("s3://jobs?regoin=x", None, "there is no option 'regoin'"),
        ("s3://jobs", "transaction", "only a postgresql:// store"),
        ("gs://jobs?interval=2s", None, "beat >= 4 * interval is broken: 6s, 2s"),
        ("s3://jobs?writes_per_day=40000", None, "allows a write each 2.25s, too few for a beat each 6s"),
    ],
)
def test_settings_name_what_is_wrong_with_a_bucket(url: str, pooler: str | None, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem.replace("*", r"\*")):
        App(url, pooler=pooler)


def test_the_url_of_a_bucket_is_shown_without_options_and_names_its_own_stream() -> None:
    url = "s3://jobs/shop?endpoint=http://127.0.0.1:9000"
    assert public_url(url) == "s3://jobs/shop"
    assert stream_of(url, "holdfast") == stream_of("s3://jobs/shop", "holdfast") != stream_of("s3://jobs/other", "holdfast")
