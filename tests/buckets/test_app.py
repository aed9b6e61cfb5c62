"""An App whose jobs are in a bucket: migrate, enqueue, work, read, check; through obstore, on a server with faults."""

import asyncio

import pytest

from holdfast import App, State
from holdfast.errors import ConfigurationError, SchemaMissing
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


async def test_a_server_that_ignores_conditions_gets_no_store(server: BucketServer) -> None:
    server.ignores_conditions = True
    app = App(server.bucket_url)
    with pytest.raises(ConfigurationError, match="fails the test"):
        await app.amigrate()
    assert "jobs/head.json" not in server.objects
    await app.aclose()


@pytest.mark.parametrize(
    ("url", "pooler", "problem"),
    [
        ("s3://jobs?regoin=x", None, "there is no option 'regoin'"),
        ("s3://jobs", "transaction", "only a postgresql:// store"),
        ("gs://jobs?interval=2s", None, "beat >= 4 * interval is broken: 6s, 2s"),
    ],
)
def test_settings_name_what_is_wrong_with_a_bucket(url: str, pooler: str | None, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem.replace("*", r"\*")):
        App(url, pooler=pooler)


def test_the_url_of_a_bucket_is_shown_without_options_and_names_its_own_stream() -> None:
    url = "s3://jobs/shop?endpoint=http://127.0.0.1:9000"
    assert public_url(url) == "s3://jobs/shop"
    assert stream_of(url, "holdfast") == stream_of("s3://jobs/shop", "holdfast") != stream_of("s3://jobs/other", "holdfast")
