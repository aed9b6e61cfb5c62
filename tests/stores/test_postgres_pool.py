"""No caller loses its turn, and only a connection that is not released in time is cut off."""

import asyncio
from typing import Any, cast

import pytest

from holdfast.databases.postgres import pool
from holdfast.databases.postgres.pool import Connection, Pool
from holdfast.errors import StoreUnavailable
from tests.engine.support import turns


class Plug:
    """A connection that transfers nothing."""

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
async def test_only_a_free_connection_is_taken_without_waiting() -> None:
    one = pool_of(1)
    assert one.take_free(now() + 9) is None
    link = await one.acquire()
    assert one.take_free(now() + 9) is None
    one.release(link)
    assert one.take_free(now() + 9) is link
    one.discard(link)
    assert one.take_free(now() + 9) is None


@pytest.mark.virtual_time
async def test_a_connection_goes_to_the_caller_that_has_waited_longest() -> None:
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
async def test_a_caller_that_stops_waiting_loses_no_connection(is_promised: bool) -> None:
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
async def test_a_wait_past_the_limit_is_an_error_and_the_next_caller_gets_the_connection() -> None:
    one = pool_of(1)
    link = await one.acquire()
    with pytest.raises(StoreUnavailable, match="all 1 connections were busy"):
        await one.acquire()
    later = asyncio.ensure_future(one.acquire())
    await turns()
    one.release(link)
    assert await later is link


@pytest.mark.virtual_time
async def test_a_failed_connection_frees_its_slot() -> None:
    async def connect() -> Connection:
        raise StoreUnavailable("away")

    one = Pool(connect, 1)
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="away"):
            await one.acquire()


@pytest.mark.virtual_time
async def test_only_a_connection_that_is_not_released_in_time_is_cut_off() -> None:
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
async def test_a_closed_pool_cancels_its_timer() -> None:
    one = pool_of(1)
    link = await one.acquire(now() + 1)
    await one.close()
    assert is_cut(link)
    assert one._alarm is not None
    assert one._alarm.cancelled()


@pytest.mark.virtual_time
async def test_a_timer_fires_early_by_less_than_the_pool_allows_for() -> None:
    """The event loop runs callbacks early by up to the resolution of its clock."""
    assert asyncio.get_running_loop()._clock_resolution < pool.EARLY  # type: ignore[attr-defined]
