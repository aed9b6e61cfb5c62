"""Where a suspended coroutine waits: a dump of threads does not show it."""

import traceback
from collections.abc import Coroutine
from types import FrameType
from typing import Any


def coroutine_stack(work: Coroutine[Any, Any, object]) -> str:
    """Return the stack of a coroutine, outermost call first, without values; empty if it has ended.

    >>> coroutine_stack(asyncio.current_task().get_coro())  # doctest: +SKIP
    'File "shop/tasks.py", line 12, in analyze…'
    """
    frames: list[FrameType] = []
    waiting: Any = work
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
