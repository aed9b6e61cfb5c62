"""A few asyncio tasks run async handlers one after the other; a handler that waits keeps its task to itself."""

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


class LoopTasksBench:
    """Loop tasks, a clock that stands still unless a test advances it, and the asyncio tasks of what has run."""

    def __init__(self) -> None:
        self.now = 0.0
        self.tasks: dict[str, list[Any]] = {}
        self.loop_tasks = LoopTasks(self._run, lambda: self.now)

    def add(self, name: str, act: Act) -> Any:
        job = SimpleNamespace(id=UUID(int=len(self.tasks)))
        item: Any = SimpleNamespace(name=name, act=act, task=None, work=None, claim=SimpleNamespace(job=job))
        self.loop_tasks.add(item)
        return item

    async def _run(self, item: Any) -> None:
        self.tasks[item.name] = [asyncio.current_task()]
        assert item.task is asyncio.current_task()
        try:
            await item.act()
        finally:
            self.tasks[item.name].append(asyncio.current_task())


async def quick() -> None: ...


async def wait() -> None:
    """Wait for one turn of the loop."""
    await turns(1)


async def test_handlers_that_never_wait_share_a_task_and_run_in_order() -> None:
    bench = LoopTasksBench()
    for name in "abc":
        bench.add(name, quick)
    assert bench.tasks == {}  # No handler starts while the caller of `add` is still running.
    await turns(1)
    assert list(bench.tasks) == ["a", "b", "c"]
    assert len({id(task) for tasks in bench.tasks.values() for task in tasks}) == 1


async def test_a_suspended_handler_keeps_its_asyncio_task_to_itself() -> None:
    bench = LoopTasksBench()
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


async def test_a_handler_does_not_see_context_variables_of_the_one_before_it_on_its_task() -> None:
    bench, seen = LoopTasksBench(), list[str]()

    async def note() -> None:
        seen.append(WORD.get())
        WORD.set("left behind")
        seen.append(WORD.get())

    async def note_late() -> None:
        await note()
        await turns(1)
        seen.append(WORD.get())

    for act in (note, note, note_late, note):
        bench.add(str(len(seen)) + act.__name__, act)
    await turns()
    assert seen == ["", "left behind"] * 4 + ["left behind"]
    assert WORD.get() == ""


async def test_a_hundred_handlers_that_wait_are_all_started_within_a_few_turns() -> None:
    bench, gate = LoopTasksBench(), asyncio.Event()

    async def wait_for_event() -> None:
        await gate.wait()

    for number in range(100):
        bench.add(str(number), wait_for_event)
    await turns(8)
    assert list(bench.tasks) == [str(number) for number in range(100)]
    gate.set()
    await turns()
    assert all(len(tasks) == 2 for tasks in bench.tasks.values())


async def test_other_callbacks_of_the_loop_run_after_a_slice() -> None:
    bench, order = LoopTasksBench(), list[str]()

    async def work() -> None:
        order.append("work")
        bench.now += SLICE / 2

    for number in range(4):
        bench.add(str(number), work)
    asyncio.get_running_loop().call_soon(order.append, "else")
    await turns()
    assert order == ["work", "work", "else", "work", "work"]


async def test_a_cancellation_reaches_the_handler_that_waits_and_no_other() -> None:
    bench, cancelled = LoopTasksBench(), list[str]()

    async def wait_for_event() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("stand")

    item = bench.add("stand", wait_for_event)
    bench.add("wait", wait)
    await turns()
    item.task.cancel()
    bench.add("quick", wait)
    await turns()
    assert cancelled == ["stand"]
    assert all(len(tasks) == 2 for tasks in bench.tasks.values())


async def test_a_handler_that_cancels_its_own_task_without_waiting_does_not_cancel_the_next() -> None:
    bench, done = LoopTasksBench(), list[str]()

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
async def test_a_bug_of_the_worker_does_not_strand_the_jobs_behind_it(act: Act) -> None:
    bench, errors = LoopTasksBench(), list[str]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(str(context.get("exception"))))

    async def fail() -> None:
        await act()
        raise RuntimeError("a bug")

    item = bench.add("fail", fail)
    bench.add("next", quick)
    await turns()
    assert len(bench.tasks["next"]) == 2
    assert str(item.task.exception()) == "a bug"
    bench.add("later", wait)
    await turns()
    assert len(bench.tasks["later"]) == 2


async def test_the_asyncio_task_of_a_handler_that_waits_is_named_after_its_job() -> None:
    bench = LoopTasksBench()
    item = bench.add("wait", wait)
    await turns(1)
    assert item.task.get_name() == f"job {UUID(int=0)}"


async def test_timeouts_and_task_groups_work_from_the_first_line_of_a_handler() -> None:
    bench, seen = LoopTasksBench(), list[str]()

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
