"""``holdfast top``."""

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click

from holdfast.cli.options import DURATION, JSON, store_options

if TYPE_CHECKING:
    from holdfast.app import App

SHORTEST = 0.1
HINT = "q or Ctrl-C ends"


@click.command()
@click.option("--interval", type=DURATION, default="2s", show_default=True, help="How often to look again.")
@click.option("--once", is_flag=True, help="Print one frame and end; so does everything that is not a terminal.")
@store_options
@JSON
def top(interval: float, once: bool, target: str | None, url: str | None, as_json: bool) -> None:
    """Watch workers, queues and running jobs.

    Jobs per second are those that ended, counted from one look to the next. --json prints one frame as a document.
    """
    from holdfast._processes.loading import opened
    from holdfast._system.clock import SystemClock
    from holdfast.cli.frame import draw, read
    from holdfast.cli.output import print_json

    with opened(target, url) as app:
        if not as_json and not once and sys.stdout.isatty():
            _watch(app, max(SHORTEST, interval))
            return
        frame = read(app, SystemClock().wall())
    if as_json:
        print_json(frame)
        return
    from rich.console import Console

    # In a pipe there is no terminal with columns: as wide as it takes.
    Console(width=None if sys.stdout.isatty() else 200).print(draw(frame))


def _watch(app: "App", interval: float) -> None:
    from rich.live import Live

    from holdfast._system.clock import SystemClock
    from holdfast.cli.frame import draw, read

    wall = SystemClock().wall
    try:
        with _ctrl_c() as was_pressed:
            frame = read(app, wall())
            with _keys() as stdin, Live(draw(frame, HINT), screen=True, auto_refresh=False) as live:
                while not (was_pressed() or _is_ended(stdin, interval)):
                    frame = read(app, wall(), frame)
                    live.update(draw(frame, HINT), refresh=True)
    except KeyboardInterrupt:
        pass


@contextmanager
def _ctrl_c() -> Iterator[Callable[[], bool]]:
    """Remember that Ctrl-C was pressed, besides raising ``KeyboardInterrupt``; yield whether it was.

    Python drops an exception that a signal handler raises inside a finalizer or a callback of a weak reference.
    """
    was_pressed = False

    def remember(_number: int, _frame: FrameType | None) -> NoReturn:
        nonlocal was_pressed
        was_pressed = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: was_pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _is_ended(stdin: list[int], seconds: float) -> bool:
    """Wait for the next look, or for a key; return whether it was the key that ends."""
    ready, _, _ = select.select(stdin, [], [], seconds)
    return bool(ready) and os.read(stdin[0], 64) in (b"", b"q", b"Q", b"\x04", b"\x1b")


@contextmanager
def _keys() -> Iterator[list[int]]:
    """Yield keys one by one, without echo, if there is a keyboard."""
    if not sys.stdin.isatty():
        yield []
        return
    import termios
    import tty

    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)
    tty.setcbreak(stdin)
    try:
        yield [stdin]
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)
