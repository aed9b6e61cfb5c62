"""Hands run handlers one after the other, and nobody can tell that they have no task of their own until they wait."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from holdfast._engine.runners.loop_tasks import SLICE, LoopTasks
from tests.engine.support import turns

WORD: ContextVar[str] = ContextVar("word", default="")

Act = Callable[[], Awaitable[None]]


class Bench:
    """Hands, a clock that stands still unless told otherwise, and what has run."""

    def __init__(self) -> None:
        self.now = 0.0
        self.tasks: dict[str, list[Any]] = {}
        self.hands = LoopTasks(self._run, lambda: self.now)

    def add(self, name: str, act: Act) -> Any:
        job = SimpleNamespace(id=UUID(int=len(self.tasks)))
        item: Any = SimpleNamespace(name=name, act=act, task=None, work=None, claim=SimpleNamespace(job=job))
        self.hands.add(item)
        return item

    async def _run(self, item: Any) -> None:
        self.tasks[item.name] = [asyncio.current_task()]
        assert item.task is asyncio.current_task()
        try:
            await item.act()
        finally:
            self.tasks[item.name].append(asyncio.current_task())


async def quick() -> None:
    """Never waits."""


async def wait() -> None:
    """One turn of the loop."""
    await turns(1)


async def test_what_never_waits_shares_a_task_and_runs_in_the_order_it_came() -> None:
    bench = Bench()
    for name in "abc":
        bench.add(name, quick)
    assert bench.tasks == {}  # not in the middle of whatever the caller is doing
    await turns(1)
    assert list(bench.tasks) == ["a", "b", "c"]
    assert len({id(task) for tasks in bench.tasks.values() for task in tasks}) == 1


async def test_what_waits_has_one_task_from_its_first_line_to_its_last_and_shares_it_with_nobody_who_waits_or_comes_later() -> (
    None
):
    bench = Bench()
    acts = [("a", quick), ("b", wait), ("c", quick), ("d", wait), ("e", quick)]
    for name, act in acts:
        bench.add(name, act)
    await turns()
    bench.add("f", quick)
    await turns()
    assert all(first is last for first, last in bench.tasks.values())
    waiting, others = [bench.tasks[name][0] for name in "bd"], [bench.tasks[name][0] for name in "cef"]
    assert waiting[0] is not waiting[1]
    assert waiting[0] not in others
    assert bench.tasks["f"][0] is not waiting[1]


async def test_what_one_sets_in_its_context_the_next_does_not_see_though_they_share_a_task() -> None:
    bench, seen = Bench(), list[str]()

    async def say() -> None:
        seen.append(WORD.get())
        WORD.set("left behind")
        seen.append(WORD.get())

    async def say_late() -> None:
        await say()
        await turns(1)
        seen.append(WORD.get())

    for act in (say, say, say_late, say):
        bench.add(str(len(seen)) + act.__name__, act)
    await turns()
    assert seen == ["", "left behind"] * 4 + ["left behind"]
    assert WORD.get() == ""


async def test_a_hundred_that_wait_are_all_begun_within_a_few_turns() -> None:
    bench, gate = Bench(), asyncio.Event()

    async def stand() -> None:
        await gate.wait()

    for number in range(100):
        bench.add(str(number), stand)
    await turns(8)
    assert list(bench.tasks) == [str(number) for number in range(100)]
    gate.set()
    await turns()
    assert all(len(tasks) == 2 for tasks in bench.tasks.values())


async def test_everything_else_in_the_loop_has_its_turn_after_a_slice() -> None:
    bench, order = Bench(), list[str]()

    async def work() -> None:
        order.append("work")
        bench.now += SLICE / 2

    for number in range(4):
        bench.add(str(number), work)
    asyncio.get_running_loop().call_soon(order.append, "else")
    await turns()
    assert order == ["work", "work", "else", "work", "work"]


async def test_a_cancellation_meets_the_one_that_waits_and_nobody_else() -> None:
    bench, cancelled = Bench(), list[str]()

    async def stand() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("stand")

    item = bench.add("stand", stand)
    bench.add("wait", wait)
    await turns()
    item.task.cancel()
    bench.add("quick", wait)
    await turns()
    assert cancelled == ["stand"]
    assert all(len(tasks) == 2 for tasks in bench.tasks.values())


async def test_one_that_cancels_its_own_task_and_then_does_not_wait_leaves_the_next_in_peace() -> None:
    bench, done = Bench(), list[str]()

    async def cancel() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async def finish() -> None:
        await turns(1)
        done.append("finish")

    bench.add("cancel", cancel)
    bench.add("finish", finish)
    await turns()
    assert done == ["finish"]
    assert bench.tasks["finish"][0] is not bench.tasks["cancel"][0]


@pytest.mark.parametrize("act", [quick, wait])
async def test_a_failure_of_ours_strands_nobody_who_stands_behind_it(act: Act) -> None:
    bench, complaints = Bench(), list[str]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(str(context.get("exception"))))

    async def fail() -> None:
        await act()
        raise RuntimeError("ours")

    item = bench.add("fail", fail)
    bench.add("next", quick)
    await turns()
    assert len(bench.tasks["next"]) == 2
    assert str(item.task.exception()) == "ours"
    bench.add("later", wait)
    await turns()
    assert len(bench.tasks["later"]) == 2


async def test_the_task_of_one_that_waits_is_called_by_its_job() -> None:
    bench = Bench()
    item = bench.add("wait", wait)
    await turns(1)
    assert item.task.get_name() == f"job {UUID(int=0)}"


async def test_time_limits_and_task_groups_work_from_the_first_line() -> None:
    bench, seen = Bench(), list[str]()

    async def limit() -> None:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            seen.append("timeout")

    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(limit())
        seen.append("group")

    bench.add("quick", quick)
    bench.add("limit", limit)
    bench.add("group", group)
    while len(seen) < 3:
        await turns(1)
    assert sorted(seen) == ["group", "timeout", "timeout"]
