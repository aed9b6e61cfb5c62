"""What a handler reports about its job is checked in the handler's call: many jobs share one write."""

from typing import Any

import pytest

from holdfast._core.job import AttemptOutcome
from holdfast._engine.tasks.context import Job
from holdfast._engine.tasks.registry import define
from tests.engine.support import Bench, claim, forever, turns


@pytest.mark.parametrize("wrong", [{"stage": 7}, {"fraction": "half"}, {"message": b"x"}], ids=lambda wrong: next(iter(wrong)))
async def test_l4_progress_of_a_wrong_type_fails_its_own_handler_and_never_reaches_the_shared_write(
    wrong: dict[str, Any],
) -> None:
    async def handler(job: Job) -> None:
        await job.progress(**wrong)

    task = define(handler)
    bench = Bench(task)
    bench.executor.start(claim(task))
    await bench.until_ended()
    moved = bench.ended[0].transition
    assert moved is not None
    assert moved.record is AttemptOutcome.FAILED
    await bench.writer.step()
    assert "report" not in bench.store.calls


async def test_long_progress_is_cut_and_unwritable_characters_are_replaced() -> None:
    async def handler(job: Job) -> None:
        await job.progress(stage="\ud800" + "s" * 5000, message="m" * 5000)
        await forever()

    task = define(handler)
    bench = Bench(task)
    jobs = await bench.open(("handler", b"{}"))
    await bench.exchange.step()
    await turns()
    await bench.writer.step()
    row = await bench.row(jobs[0])
    assert row.stage is not None
    assert row.message is not None
    assert row.stage.startswith("?s")
    assert max(len(row.stage.encode()), len(row.message.encode())) <= 1024


async def test_s3_nothing_is_written_for_a_handler_that_has_ended() -> None:
    async def handler(job: Job) -> None:
        await job.progress(fraction=1.0)

    task = define(handler)
    bench = Bench(task)
    bench.executor.start(claim(task))
    await bench.until_ended()
    await bench.writer.step()
    assert "report" not in bench.store.calls


async def test_a_checkpoint_that_is_too_large_or_not_json_raises_in_the_handler() -> None:
    raised = list[str]()

    async def handler(job: Job) -> None:
        for value in ("x" * 70_000, object()):
            try:
                await job.checkpoint(value)
            except ValueError as error:
                raised.append(type(error).__name__)

    task = define(handler)
    bench = Bench(task)
    bench.executor.start(claim(task))
    await bench.until_ended()
    assert raised == ["PayloadTooLarge", "PayloadInvalid"]
