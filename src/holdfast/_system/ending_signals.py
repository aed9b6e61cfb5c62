"""The signals that end a command, on each system: Windows lacks some, and its event loops take none."""

import asyncio
import signal
from collections.abc import Callable
from typing import Final

NAMES: Final = ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK")


def on_ending_signals(loop: asyncio.AbstractEventLoop, end: Callable[[], object]) -> None:
    """Call ``end`` in the loop for each signal that ends a command, from the main thread."""
    for number in (getattr(signal, name) for name in NAMES if hasattr(signal, name)):
        try:
            loop.add_signal_handler(number, end)
        except NotImplementedError:
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(end))
