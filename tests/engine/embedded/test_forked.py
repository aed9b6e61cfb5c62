"""A forked child of a program with an embedded worker: what it inherited from its parent ends in silence."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast._core.identity import ProcessIdentity
from holdfast._engine.embedded.in_process import InProcessWorker, LoopChannel
from holdfast._engine.worker.worker import Worker
from holdfast._ports.host import Exit


@pytest.mark.parametrize("is_child", [True, False], ids=["child", "parent"])
async def test_an_inherited_worker_that_breaks_is_reported_by_the_parent_only(is_child: bool) -> None:
    reported: list[dict[str, Any]] = []
    exits: list[Exit] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    async def breaks() -> None:
        raise RuntimeError("no running event loop")

    fake = SimpleNamespace(run=breaks, lease=SimpleNamespace(lose=lambda: None))
    worker = InProcessWorker(LoopChannel(asyncio.get_running_loop()), ProcessIdentity("host", 1))
    worker.start(lambda link: cast(Worker, fake), exits.append)
    if is_child:
        worker.forget()
    assert worker.task is not None
    await asyncio.wait([worker.task])
    assert (len(reported), len(exits)) == ((0, 0) if is_child else (1, 1))
