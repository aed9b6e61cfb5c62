"""``holdfast top``."""

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn

import click

from holdfast.cli.options import DURATION, JSON, store_options

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.cli.frame import Order

SHORTEST = 0.1
_NEXT: "Final[dict[Order, Order]]" = {"for": "progress", "progress": "task", "task": "for"}
HINT = "q ends, p pauses, s sorts running jobs by {order}"


@click.command()
@click.option("--interval", type=DURATION, default="2s", show_default=True, help="How often to look again.")
@click.option("--once", is_flag=True, help="Print one frame and end; so does everything that is not a terminal.")
@store_options
@JSON
def top(interval: float, once: bool, target: str | None, url: str | None, as_json: bool) -> None:
    """Watch what needs you, queues, running jobs and workers.

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

    wall, looks = SystemClock().wall, Looks()
    try:
        with _ctrl_c() as was_pressed:
            frame = read(app, wall())
            with _keys() as stdin, Live(draw(frame, looks.hint), screen=True, auto_refresh=False) as live:
                while True:
                    looks.obey(_key(stdin, interval))
                    if was_pressed() or looks.is_over:
                        break
                    frame = frame if looks.is_paused else read(app, wall(), frame)
                    live.update(draw(frame, looks.hint, looks.order), refresh=True)
    except KeyboardInterrupt:
        pass


class Looks:
    """What the keys have chosen."""

    def __init__(self) -> None:
        self.is_over = self.is_paused = False
        self.order: Order = "for"

    @property
    def hint(self) -> str:
        """The line about the keys."""
        return ("paused, p goes on, " if self.is_paused else "") + HINT.format(order=_NEXT[self.order])

    def obey(self, key: bytes | None) -> None:
        """Do what a key means; ``None``: no key was pressed."""
        match key:
            case b"" | b"q" | b"Q" | b"\x04" | b"\x1b":
                self.is_over = True
            case b"p":
                self.is_paused = not self.is_paused
            case b"s":
                self.order = _NEXT[self.order]


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


def _key(stdin: list[int], seconds: float) -> bytes | None:
    """Wait for the next look, or for a key; return the key."""
    ready, _, _ = select.select(stdin, [], [], seconds)
    return os.read(stdin[0], 64) if ready else None


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
