"""An owner that lost a row changes nothing of it any more."""

from typing import Any

import pytest

from holdfast._core.table_spec import RowOutcome
from holdfast._ports.table import RowFence, Table
from holdfast.errors import Unsupported
from tests.rows.databases import OWNED, Ground, keys

FENCES = pytest.mark.parametrize("options", [{}, OWNED], ids=["stamp", "owner"])


@FENCES
def test_a_zombie_whose_rows_were_reset_and_taken_again_changes_nothing(ground: Ground, options: dict[str, Any]) -> None:
    ground.make(2)

    async def act(table: Table) -> None:
        zombie = (await table.claim("zombie", 9)).fence
        ground.age()
        assert sorted(each.key for each in await table.reset(9)) == [(1,), (2,)]
        taken = await table.claim("heir", 9)
        assert sorted(keys(taken)) == [(1,), (2,)]
        before = ground.say("SELECT * FROM pastes ORDER BY id")
        for end in RowOutcome:
            assert await table.move(zombie, [(1,), (2,)], end) == []
        assert await table.release(zombie) == 0
        async with table.transaction(zombie) as tx:
            assert await tx.move([(1,)], RowOutcome.DONE) == []
        assert ground.say("SELECT * FROM pastes ORDER BY id") == before
        assert len(await table.move(taken.fence, [(1,), (2,)], RowOutcome.DONE)) == 2

    ground.play(act, failed="BAD", **options)


@FENCES
def test_a_zombie_whose_rows_were_reset_and_are_nobodys_changes_nothing(ground: Ground, options: dict[str, Any]) -> None:
    ground.make(1)

    async def act(table: Table) -> None:
        zombie = (await table.claim("zombie", 9)).fence
        ground.age()
        await table.reset(9)
        assert await table.move(zombie, [(1,)], RowOutcome.DONE) == []
        assert ground.statuses() == {1: "NEW"}

    ground.play(act, **options)


@FENCES
def test_a_row_that_another_program_has_ended_stays_as_it_is(ground: Ground, options: dict[str, Any]) -> None:
    ground.make(1)

    async def act(table: Table) -> None:
        mark = (await table.claim("me", 9)).fence
        ground.say("UPDATE pastes SET status = 'OTHER'")
        assert await table.move(mark, [(1,)], RowOutcome.DONE) == []
        assert await table.release(mark) == 0
        assert ground.statuses() == {1: "OTHER"}

    ground.play(act, **options)


def test_two_batches_of_one_process_have_different_fences(ground: Ground) -> None:
    ground.make(2)

    async def act(table: Table) -> None:
        one, two = await table.claim("", 1), await table.claim("", 1)
        assert one.fence != two.fence
        assert await table.move(one.fence, keys(two), RowOutcome.DONE) == []
        assert await table.move(two.fence, keys(two), RowOutcome.DONE) == keys(two)

    ground.play(act)


@FENCES
def test_only_rows_that_are_named_and_ones_own_are_deleted(ground: Ground, options: dict[str, Any]) -> None:
    ground.make(4)

    async def act(table: Table) -> None:
        zombie = (await table.claim("zombie", 2)).fence
        ground.age()
        assert len(await table.reset(9)) == 2
        mark = (await table.claim("heir", 3)).fence
        assert await table.move(zombie, [(1,), (2,), (3,), (4,)], RowOutcome.DONE) == []
        assert await table.move(mark, [(1,), (4,)], RowOutcome.DONE) == [(1,)]
        assert ground.statuses() == {2: "BUSY", 3: "BUSY", 4: "NEW"}
        ground.say("UPDATE pastes SET status = 'OTHER' WHERE id = 2")
        assert await table.move(mark, [(2,), (3,)], RowOutcome.DONE) == [(3,)]
        assert ground.statuses() == {2: "OTHER", 4: "NEW"}

    ground.play(act, deletes=True, order_by="id", **options)


def test_a_claim_whose_answer_was_lost_is_released_by_its_owner(ground: Ground) -> None:
    ground.make(3)

    async def act(table: Table) -> None:
        await table.claim("lost", 2)
        assert await table.release(RowFence("", "lost")) == 2
        assert await table.release(RowFence("", "")) == 0
        assert list(ground.statuses().values()) == ["NEW"] * 3

    ground.play(act, **OWNED)


def test_rows_of_an_owner_get_a_new_stamp_and_are_not_stuck_then(ground: Ground) -> None:
    ground.make(3)

    async def act(table: Table) -> None:
        mark = (await table.claim("me", 2)).fence
        await table.claim("another", 1)
        ground.age()
        renewed = await table.renew(mark)
        assert renewed is not None
        assert (renewed.owner, renewed.stamp > mark.stamp) == ("me", True)
        assert [each.owner for each in await table.reset(9)] == ["another"]
        assert await table.move(mark, [(1,)], RowOutcome.DONE) == [(1,)]
        assert await table.move(renewed, [(2,)], RowOutcome.DONE) == [(2,)]
        assert await table.renew(renewed) is None

    ground.play(act, order_by="id", **OWNED)


def test_rows_without_an_owner_get_no_new_stamp(ground: Ground) -> None:
    ground.make(1)

    async def act(table: Table) -> None:
        with pytest.raises(Unsupported, match="owner='claimed_by'"):
            await table.renew((await table.claim("", 1)).fence)

    ground.play(act)
