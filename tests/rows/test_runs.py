"""Runs of handlers on real tables: every row once, every effect once, no row left in progress."""

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import App, Batch, JobView, RowsLost, State, SyncBatch
from tests.rows.databases import ENDING, OWNED, PLAIN, Ground

FENCES = pytest.mark.parametrize("fence", [{}, OWNED], ids=["stamp", "owner"])
LESS = "UPDATE contents SET number = number - "


class Shop:
    """An App whose rows are on this ground, ten of them, and a count of what refers to their content."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        ground.make(10)
        ground.say("CREATE TABLE contents (number int)")
        ground.say("INSERT INTO contents VALUES (10)")
        self.app = App("memory://")

    def rows(self, **options: Any) -> Any:
        return self.app.rows("pastes", **{**PLAIN, **ENDING, "batch": 4, "url": self.ground.url, **options})

    def run(self) -> JobView:
        """Make the job of one run."""
        assert self.app.run_due() == 1
        return self.app.jobs.list()[0]

    def counted(self) -> dict[str, int]:
        """Count the rows by status."""
        found = list(self.ground.statuses().values())
        return {status: found.count(status) for status in sorted(set(found))}

    def number(self) -> int:
        return int(self.ground.say("SELECT number FROM contents")[0][0])

    async def less(self, connection: Any, count: int) -> None:
        answer = connection.execute(f"{LESS}{count}")
        if self.ground.kind == "postgres":
            await answer


@pytest.fixture
def shop(ground: Ground) -> Iterator[Shop]:
    made = Shop(ground)
    yield made
    made.app.close()


@FENCES
def test_every_row_is_done_once_and_its_effect_with_it(shop: Shop, fence: dict[str, Any]) -> None:
    @shop.rows(**fence).handler
    async def delete(batch: Batch) -> None:
        async with batch.transaction() as tx:
            await shop.less(tx.connection, len(await tx.done(batch.keys)))

    job = shop.run()
    assert (job.state, shop.counted(), shop.number()) == (State.COMPLETED, {"GONE": 10}, 0), job.error
    assert job.result == {"batches": 3, "done": 10, "failed": 0, "retried": 0, "left": 0, "lost": 0}


@FENCES
def test_so_it_is_in_a_thread_and_rows_fail_with_their_reason(shop: Shop, fence: dict[str, Any]) -> None:
    @shop.rows(**fence).handler
    def delete(batch: SyncBatch) -> None:
        with batch.transaction() as tx:
            done = tx.done(batch.keys[1:])
            tx.connection.execute(f"{LESS}{len(done)}")
        batch.fail(batch.open, "no such object")

    job = shop.run()
    assert (job.state, shop.counted(), shop.number()) == (State.COMPLETED, {"BAD": 3, "GONE": 7}, 3), job.error
    assert shop.ground.say("SELECT DISTINCT reason FROM pastes WHERE status = 'BAD'") == [("no such object",)]


@FENCES
def test_s3_no_effect_is_applied_for_rows_that_another_owner_has(shop: Shop, fence: dict[str, Any]) -> None:
    lost = list[Any]()

    @shop.rows(**fence).handler
    async def delete(batch: Batch) -> None:
        if not lost:
            shop.ground.say("UPDATE pastes SET claimed_at = {long_ago}, owner = 'somebody' WHERE id = %s", batch.keys[0])
            try:
                async with batch.transaction() as tx:
                    await shop.less(tx.connection, len(batch))
                    await tx.done(batch.keys)
            except RowsLost as error:
                lost.append((error.keys, batch.keys[:1]))
        async with batch.transaction() as tx:
            await shop.less(tx.connection, len(await tx.done(batch.open)))

    job = shop.run()
    assert (job.state, shop.counted(), shop.number()) == (State.COMPLETED, {"BUSY": 1, "GONE": 9}, 1), job.error
    assert lost[0][0] == lost[0][1]


@FENCES
def test_what_a_handler_that_raises_has_not_finished_goes_back(shop: Shop, fence: dict[str, Any]) -> None:
    @shop.rows(**fence).handler
    async def delete(batch: Batch) -> None:
        await batch.done(batch.keys[:1])
        await batch.retry(batch.keys[1:2])
        raise ValueError("the bucket is gone")

    job = shop.run()
    assert (job.state, job.failures, shop.counted()) == (State.SCHEDULED, 1, {"GONE": 1, "NEW": 9})


def test_a_batch_renews_its_stamp_and_is_not_taken_for_stuck(shop: Shop) -> None:
    rows = shop.rows(batch=10, **OWNED)

    @rows.handler
    async def delete(batch: Batch) -> None:
        shop.ground.age()
        assert await batch.alive()
        assert await rows.areset() == []
        shop.ground.age()
        assert len(await rows.areset()) == 10
        assert not await batch.alive()
        assert batch.open == []

    job = shop.run()
    assert (job.state, shop.counted()) == (State.SCHEDULED, {"NEW": 10}), "they are due again, after a rest"


def test_a_table_that_does_not_fit_is_refused_with_the_name_of_its_rows(shop: Shop) -> None:
    rows = shop.rows(claimed_at="nothing")
    rows.handler(lambda batch: None)
    (found, *_) = [each for each in shop.app.check() if each.name == "rows"]
    assert (found.level, found.message.startswith("pastes: "), "nothing" in found.message) == ("error", True, True)
    with pytest.raises(Exception, match=r"^rows pastes: .*nothing"):
        shop.app.run_due()
