"""One frame of `top`: what it counts and how it looks."""

import io
import json
import signal
import weakref
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from holdfast import App
from holdfast._core.job import State
from holdfast._core.overview import Need, NeedKind
from holdfast.cli import frame as frames
from holdfast.cli import top
from holdfast.cli.frame import Frame, Order, QueueRow, RunningRow, draw, read, sparkline
from holdfast.cli.top import Looks
from tests.cli.support import claim, enqueue, run, url

AT = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)


def drawn(frame: Frame, order: Order = "for") -> str:
    console = Console(file=io.StringIO(), width=160, force_terminal=False)
    console.print(draw(frame, order=order))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def job(**output: object) -> RunningRow:
    shown = {"id": "an-id", "stage": "clone", "fraction": 0.25, "message": None, **output}
    return RunningRow(task="analyze", queue="default", worker="w", attempt=2, seconds=75.0, **shown)  # type: ignore[arg-type]


def test_rates_are_what_ended_since_the_frame_before(folder: Path) -> None:
    first, second = enqueue(), enqueue()
    with_app = App(url(folder))
    before = read(with_app, AT.timestamp())
    assert before.queues[0].rate is None
    with_app.jobs.cancel([first, second])
    after = read(with_app, (AT + timedelta(seconds=4)).timestamp(), before)
    assert after.queues[0].rate == 0.5
    with_app.jobs.delete([first, second])
    enqueue()
    assert read(with_app, (AT + timedelta(seconds=8)).timestamp(), after).queues[0].rate == 0.0  # pruned is not ended
    with_app.close()


def test_a_frame_shows_queues_and_how_far_jobs_are() -> None:
    queue = QueueRow(name="mail", paused_at=AT, counts={State.AVAILABLE: 12}, rate=3.21)
    text = drawn(Frame(at=AT, workers=[], queues=[queue], running=[job()]))
    line = next(line for line in text.splitlines() if line.startswith("mail"))
    assert line.split() == ["mail", "paused", "3.2", "–", "12"]
    running = next(line for line in text.splitlines() if line.startswith("an-id"))
    assert running.split() == ["an-id", "analyze", "2", "1m15s", "█████░░░░░░░░░░░░░░░", "25%", "clone", "w"]


def test_a_frame_begins_with_what_needs_you_and_draws_the_rates_so_far() -> None:
    need = Need(NeedKind.PAUSED_QUEUE, "The queue mail has been paused for 2 h.", "holdfast queues resume mail", "mail")
    rates = QueueRow(name="mail", paused_at=None, counts={}, rate=4.0, failed=0.5, rates=(0.0, 1.0, 4.0))
    title, first, *_ = drawn(
        Frame(at=AT, store="sqlite:///jobs.db", needs=[need], workers=[], queues=[rates], running=[])
    ).splitlines()
    assert title.split("  ") == [
        "holdfast top",
        "sqlite:///jobs.db",
        "12:00:00Z",
        "● no workers",
        "▶ 0/0",
        "4.0 ended/s",
        "✕ 0.5/s",
    ]
    assert first.split("  ") == ["! The queue mail has been paused for 2 h.", "holdfast queues resume mail"]
    assert sparkline(rates.rates) == "▁▃█"


def test_keys_pause_sort_and_end() -> None:
    jobs = [job(id="slow", fraction=0.1), job(id="fast", fraction=0.9)]
    frame, looks = Frame(at=AT, workers=[], queues=[], running=jobs), Looks()
    assert looks.hint == "q ends, p pauses, s sorts running jobs by progress"
    looks.obey(b"s")
    lines = drawn(frame, order=looks.order).splitlines()
    assert [line[:4] for line in lines if line[:4] in ("slow", "fast")] == ["fast", "slow"]
    looks.obey(None)
    looks.obey(b"p")
    assert looks.hint == "paused, p goes on, q ends, p pauses, s sorts running jobs by task"
    assert not looks.is_over
    looks.obey(b"q")
    assert looks.is_over


def test_what_jobs_say_cannot_steer_the_terminal() -> None:
    text = drawn(Frame(at=AT, workers=[], queues=[], running=[job(stage="[red]x[/red]\x1b[2J", message="\u202eabc\x9b")]))
    assert not {"\x1b", "\u202e", "\x9b"} & set(text)
    assert "[red]x[/red]" in text


def test_top_prints_one_frame_where_there_is_no_terminal(folder: Path) -> None:
    running = enqueue()
    claim(folder, "analyze")
    text = run("top", "--app", "shop").stdout
    assert text.startswith("holdfast top")
    assert running in text
    frame = json.loads(run("top", "--app", "shop", "--json").stdout)
    assert [each["id"] for each in frame["running"]] == [running]
    assert frame["workers"][0]["worker"] == "elsewhere-7-0000"
    assert frame["queues"][0]["counts"] == {**frame["queues"][0]["counts"], "running": 1}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_ends_top_even_if_python_drops_its_exception(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[float] = []

    class Referent:
        pass

    def read_and_be_interrupted(app: App, wall: float, before: Frame | None = None) -> Frame:
        reads.append(wall)
        referent = Referent()
        reference = weakref.ref(referent, lambda _: signal.raise_signal(signal.SIGINT))
        del referent  # the callback's exception goes nowhere
        assert reference() is None
        assert len(reads) == 1
        return read(app, wall, before)

    monkeypatch.setattr(frames, "read", read_and_be_interrupted)
    with_app = App(url(folder))
    before = signal.getsignal(signal.SIGINT)
    top._watch(with_app, 0.1)
    with_app.close()
    assert len(reads) == 1
    assert signal.getsignal(signal.SIGINT) is before
