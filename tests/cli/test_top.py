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
from holdfast.cli.frame import PLAIN, Frame, Look, QueueRow, RunningRow, draw, read, sparkline
from holdfast.cli.top import Looks
from tests.cli.support import claim, enqueue, run, url

AT = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)


RATES = (0.0, 4.0, 8.0, 2.0, 24.0)
COUNTS = {State.AVAILABLE: 212, State.RUNNING: 31, State.COMPLETED: 100_000, State.FAILED: 9}
FRAME = Frame(
    at=AT,
    store="postgresql://db-1/shop",
    needs=[Need(NeedKind.PAUSED_QUEUE, "imports is paused.", "holdfast queues resume imports", "imports")],
    workers=[],
    queues=[
        QueueRow(name="default", paused_at=None, counts=COUNTS, rate=24.0, failed=4.5, rates=RATES, wait_p99=0.4),
        QueueRow(name="imports", paused_at=AT, counts={State.AVAILABLE: 1204}),
    ],
    running=[
        RunningRow(
            id=f"01a22356-4d9d-7428-9140-8d68f5{end}",
            task=task,
            queue="default",
            worker="web1-4712-9f3a01c2",
            attempt=attempt,
            seconds=seconds,
            stage=stage,
            fraction=fraction,
            message=message,
        )
        for end, task, attempt, seconds, stage, fraction, message in (
            ("0c17be", "import_catalog", 2, 2880.0, "import", 0.81, "row 81,000 of 100,000"),
            ("e25d03", "analyze", 1, 220.0, "analyze", 0.64, "commit 256 of 400"),
            ("9077aa", "render_report", 1, 58.0, None, None, None),
        )
    ],
)


def drawn(frame: Frame, look: Look = PLAIN, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(draw(frame, look, width))
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
    assert looks.look.hint == "q ends, p pauses, f filters, s sorts running jobs by progress, ↓↑ Enter: the story of a job"
    looks.obey(b"s")
    lines = drawn(frame, looks.look).splitlines()
    assert [line[:4] for line in lines if line[:4] in ("slow", "fast")] == ["fast", "slow"]
    looks.obey(None)
    looks.obey(b"p")
    assert looks.look.hint.startswith("paused, p goes on, q ends, p pauses")
    assert not looks.is_over
    looks.obey(b"q")
    assert looks.is_over


def test_a_filter_is_typed_and_shows_only_what_matches() -> None:
    queues = [QueueRow(name=name, paused_at=None, counts={State.AVAILABLE: 1}) for name in ("mail", "imports")]
    frame = Frame(at=AT, workers=[], queues=queues, running=[job(id="one"), job(id="two", stage="mailing")])
    looks = Looks()
    for key in (b"f", b"MAX", b"\x7f", b"\x1b", b"f", b"MAILx", b"\x7f", b"\r"):
        looks.obey(key)
    assert (looks.filter, looks.is_typing, looks.is_over) == ("MAIL", False, False)
    assert {
        line.split()[0] for line in drawn(frame, looks.look).splitlines() if line.startswith(("mail", "imports", "one", "two"))
    } == {
        "mail",
        "two",
    }
    looks.obey(b"f")
    looks.obey(b"\x1b")
    assert looks.filter == ""


def test_enter_shows_the_story_of_the_chosen_job_and_goes_back() -> None:
    looks, jobs = Looks(), [job(id="one"), job(id="two")]
    for key in (b"j", b"\x1b[B", b"j"):
        looks.obey(key, jobs)
    looks.obey(b"\r", jobs)
    assert (looks.job, looks.look.hint) == ("two", "Enter goes back, q ends")
    looks.obey(b"\r", jobs)
    assert (looks.job, looks.chosen) == (None, 1)
    looks.obey(b"k", jobs)
    looks.obey(b"\r", [])
    assert (looks.job, looks.chosen) == (None, 0)
    shown = drawn(Frame(at=AT, workers=[], queues=[], running=jobs), Look(hint="h", story=("completed in 2 s",)))
    assert shown.splitlines()[-1].strip() == "completed in 2 s"
    assert "running" not in shown


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_frame_fits_the_width_of_the_terminal(width: int) -> None:
    text = drawn(FRAME, Look(hint="q ends"), width)
    assert text == (Path(__file__).parent / f"top_{width}.txt").read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= width


def test_what_jobs_say_cannot_steer_the_terminal() -> None:
    text = drawn(Frame(at=AT, workers=[], queues=[], running=[job(stage="[red]x[/red]\x1b[2J", message="\u202eabc\x9b")]))
    assert not {"\x1b", "\u202e", "\x9b"} & set(text)
    assert "[red]x[/red]" in text


def test_the_story_of_a_job_is_read_again_for_each_frame(folder: Path) -> None:
    found = enqueue()
    app = App(url(folder))
    assert any("nqueued" in line for line in top._story(app, found, AT.timestamp()))
    app.jobs.delete(found)
    assert "no job has the id" in top._story(app, found, AT.timestamp())[0]
    app.close()


def test_top_prints_one_frame_where_there_is_no_terminal(folder: Path) -> None:
    running = enqueue()
    claim(folder, "analyze")
    text = run("top", "--app", "shop").stdout
    assert text.startswith("holdfast top")
    assert running in text
    frame = json.loads(run("top", "shop", "--json").stdout)
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
