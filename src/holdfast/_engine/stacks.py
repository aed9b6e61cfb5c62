"""Where a suspended coroutine waits: an event loop's own dump of threads does not show it."""

import asyncio
import traceback
from types import FrameType
from typing import Any


def suspended_at(task: "asyncio.Task[Any]") -> str:
    """The stack of a task's coroutine, outermost call first, without values; empty if it has ended.

    >>> suspended_at(asyncio.current_task())  # doctest: +SKIP
    'File "shop/tasks.py", line 12, in analyze…'
    """
    frames: list[FrameType] = []
    waiting: Any = task.get_coro()
    while waiting is not None and len(frames) < 100:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None) or getattr(waiting, "ag_frame", None)
        if frame is None:
            break
        frames.append(frame)
        waiting = (
            getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None) or getattr(waiting, "ag_await", None)
        )
    summary = traceback.StackSummary.extract(((frame, frame.f_lineno) for frame in frames), lookup_lines=True)
    return "".join(summary.format())
