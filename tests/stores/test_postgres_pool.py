"""Turns are lost by nobody, and a connection that does not come back in time is cut off, alone."""

import asyncio
from typing import Any, cast

import pytest

from holdfast.databases.postgres import pool
from holdfast.databases.postgres.pool import Connection, Pool
from holdfast.errors import StoreUnavailable
from tests.engine.support import turns


class Plug:
    """A connection that nothing comes through."""

    def __init__(self) -> None:
        self.is_cut = False

    def is_closed(self) -> bool:
        return self.is_cut

    def terminate(self) -> None:
        self.is_cut = True


def pool_of(most: int) -> Pool:
    async def connect() -> Connection:
        return cast(Connection, Plug())

    return Pool(connect, most)


def is_cut(link: Connection) -> bool:
    return cast(Plug, link).is_cut


def now() -> float:
    return asyncio.get_running_loop().time()


def passing(seconds: float) -> Any:
    return asyncio.wait([asyncio.get_running_loop().create_future()], timeout=seconds)


@pytest.mark.virtual_time
async def test_only_a_free_one_is_had_without_waiting() -> None:
    one = pool_of(1)
    assert one.take_free(now() + 9) is None
    link = await one.acquire()
    assert one.take_free(now() + 9) is None
    one.release(link)
    assert one.take_free(now() + 9) is link
    one.discard(link)
    assert one.take_free(now() + 9) is None


@pytest.mark.virtual_time
async def test_a_turn_goes_to_the_one_who_has_waited_longest() -> None:
    one, order = pool_of(1), list[str]()

    async def use(name: str) -> None:
        link = await one.acquire()
        order.append(name)
        one.release(link)

    link = await one.acquire()
    waiting = [asyncio.ensure_future(use(name)) for name in "abc"]
    await turns()
    one.release(link)
    assert one.take_free(now() + 9) is None, "it has been promised"
    await asyncio.gather(*waiting)
    assert order == ["a", "b", "c"]
    assert one.take_free(now() + 9) is link


@pytest.mark.virtual_time
@pytest.mark.parametrize("is_promised", [False, True])
async def test_one_who_gives_up_waiting_takes_no_turn_with_him(is_promised: bool) -> None:
    one = pool_of(1)
    link = await one.acquire()
    gone, stays = asyncio.ensure_future(one.acquire()), asyncio.ensure_future(one.acquire())
    await turns()
    if is_promised:
        one.release(link)
        gone.cancel()
    else:
        gone.cancel()
        one.release(link)
    assert await stays is link
    one.release(link)
    assert one.take_free(now() + 9) is link


@pytest.mark.virtual_time
async def test_one_who_waits_too_long_is_told_and_the_next_one_has_his_turn() -> None:
    one = pool_of(1)
    link = await one.acquire()
    with pytest.raises(StoreUnavailable, match="all 1 connections were busy"):
        await one.acquire()
    later = asyncio.ensure_future(one.acquire())
    await turns()
    one.release(link)
    assert await later is link


@pytest.mark.virtual_time
async def test_a_failed_connection_gives_the_turn_on() -> None:
    async def connect() -> Connection:
        raise StoreUnavailable("away")

    one = Pool(connect, 1)
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="away"):
            await one.acquire()


@pytest.mark.virtual_time
async def test_what_is_not_back_in_time_is_cut_off_and_nothing_else() -> None:
    some = pool_of(4)
    links = [await some.acquire() for _ in range(4)]
    for link in links:
        some.release(link)
    soon, back, late = some.take_free(now() + 3), some.take_free(now() + 2), some.take_free(now() + 5)
    ever = await some.acquire()
    assert soon is not None
    assert back is not None
    assert late is not None
    some.release(back)
    await passing(2.5)
    assert [is_cut(link) for link in (soon, back, late, ever)] == [False] * 4
    await passing(1.0)
    assert [is_cut(link) for link in (soon, back, late, ever)] == [True, False, False, False]
    some.discard(soon)
    await passing(2.0)
    assert [is_cut(link) for link in (back, late, ever)] == [False, True, False]


@pytest.mark.virtual_time
async def test_a_closed_pool_rings_no_more() -> None:
    one = pool_of(1)
    link = await one.acquire(now() + 1)
    await one.close()
    assert is_cut(link)
    assert one._alarm is not None
    assert one._alarm.cancelled()


@pytest.mark.virtual_time
async def test_an_alarm_rings_early_by_less_than_it_allows_for() -> None:
    """The loop runs what is due within its clock's resolution."""
    assert asyncio.get_running_loop()._clock_resolution < pool.EARLY  # type: ignore[attr-defined]
