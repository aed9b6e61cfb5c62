"""``holdfast top``."""

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn

import click
from msgspec import structs

from holdfast.cli.options import DURATION, JSON, app_or_store_options, url_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.app import App
    from holdfast.cli.frame import Look, Order, RunningRow

SHORTEST = 0.1
_NEXT: "Final[dict[Order, Order]]" = {"for": "progress", "progress": "task", "task": "for"}
HINT = "q ends, p pauses, f filters, s sorts running jobs by {order}, ↓↑ Enter: the story of a job"
ENDS: Final = (b"", b"q", b"Q", b"\x04")
ENTERS: Final = (b"\r", b"\n")


@click.command()
@app_or_store_options
@click.option("--interval", type=DURATION, default="2s", show_default=True, help="How often to look again.")
@click.option("--once", is_flag=True, help="Print one frame and end; so does everything that is not a terminal.")
@url_option
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
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(draw(frame, width=console.width))


def _watch(app: "App", interval: float) -> None:
    from rich.live import Live

    from holdfast._system.clock import SystemClock
    from holdfast.cli.frame import draw, read, running_rows

    wall, looks = SystemClock().wall, Looks()
    try:
        with _ctrl_c() as was_pressed:
            frame = read(app, wall())
            with _keys() as stdin, Live(draw(frame, looks.look), screen=True, auto_refresh=False) as live:
                while True:
                    looks.obey(_key(stdin, interval), running_rows(frame, looks.look))
                    if was_pressed() or looks.is_over:
                        break
                    frame = frame if looks.is_paused else read(app, wall(), frame)
                    look = looks.look if looks.job is None else structs.replace(looks.look, story=_story(app, looks.job, wall()))
                    live.update(draw(frame, look, live.console.width), refresh=True)
    except KeyboardInterrupt:
        pass


def _story(app: "App", job: str, wall: float) -> tuple[str, ...]:
    from holdfast._core.story import story_of
    from holdfast._engine.operators.story import story_facts
    from holdfast.cli.story import lines_of
    from holdfast.errors import JobNotFound
    from holdfast.sync import blocking

    now = datetime.fromtimestamp(wall, UTC)
    try:
        found = app.jobs.get(job)
    except JobNotFound as gone:  # pruned while its story was shown
        return (str(gone),)
    return tuple(lines_of(story_of(found, found.attempts, now, blocking(story_facts)(app.workers, found, now))))


class Looks:
    """What the keys have chosen. ``job``: the id of the job whose story is shown."""

    def __init__(self) -> None:
        self.is_over = self.is_paused = self.is_typing = False
        self.order: Order = "for"
        self.filter, self.chosen, self.job = "", 0, None  # type: str, int, str | None

    @property
    def look(self) -> "Look":
        """How the next frame is looked at."""
        from holdfast.cli.frame import Look

        return Look(hint=self._hint, order=self.order, filter=self.filter, chosen=self.chosen)

    @property
    def _hint(self) -> str:
        if self.is_typing:
            return f"show names with: {self.filter}▏ Enter keeps it, Esc shows all"
        if self.job is not None:
            return "Enter goes back, q ends"
        parts = ["paused, p goes on"] if self.is_paused else []
        parts += [f"only {self.filter!r}"] if self.filter else []
        return ", ".join([*parts, HINT.format(order=_NEXT[self.order])])

    def obey(self, key: bytes | None, running: "Sequence[RunningRow]" = ()) -> None:
        """Do what a key means; ``None``: no key was pressed. ``running``: the jobs that are shown."""
        self.chosen = max(0, min(self.chosen, len(running) - 1))
        if key is None:
            return
        if self.is_typing:
            self._type(key)
        elif key in ENDS:
            self.is_over = True
        elif self.job is not None:
            self.job = None
        elif key in ENTERS:
            self.job = running[self.chosen].id if running else None
        else:
            self._act(key)

    def _type(self, key: bytes) -> None:
        if key in ENTERS:
            self.is_typing = False
        elif key == b"\x1b":
            self.is_typing, self.filter = False, ""
        elif key in (b"\x7f", b"\b"):
            self.filter = self.filter[:-1]
        else:
            self.filter += "".join(letter for letter in key.decode(errors="ignore") if letter.isprintable())

    def _act(self, key: bytes) -> None:
        match key:
            case b"\x1b":
                self.is_over = True
            case b"p":
                self.is_paused = not self.is_paused
            case b"s":
                self.order = _NEXT[self.order]
            case b"f":
                self.is_typing, self.filter = True, ""
            case b"\x1b[A" | b"k":
                self.chosen = max(0, self.chosen - 1)
            case b"\x1b[B" | b"j":
                self.chosen += 1


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
