"""Log lines are one line each, for people or machines, and cannot be forged by what they tell."""

import io
import json
import logging
import sys
from pathlib import Path

import pytest

from holdfast._engine.events import EventName, Events
from holdfast._processes.loading import load_app
from holdfast._processes.logs import JsonFormatter, TextFormatter, configure_logs, unlogged
from holdfast._processes.outage_log import OutageFilter
from tests.cli.support import url


def record(message: str, *, failing: bool = False, **extra: object) -> logging.LogRecord:
    error = None
    if failing:
        try:
            raise ValueError("bad\x1b[2J\nline")
        except ValueError:
            error = sys.exc_info()
    made = logging.LogRecord("holdfast", logging.WARNING, "file.py", 1, message, (), error)
    made.__dict__ |= extra
    return made


def test_text_is_one_line_and_shows_control_characters() -> None:
    line = TextFormatter().format(record("a\nb\x1b[2J"))
    assert line.endswith("warning a\\nb\\x1b[2J")


def test_tracebacks_follow_without_control_characters() -> None:
    text = TextFormatter().format(record("oops", failing=True))
    assert "Traceback" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("failing", [False, True])
def test_json_is_one_object_per_line_with_the_event(failing: bool) -> None:
    line = JsonFormatter().format(record("a\nb", failing=failing, event="job.rescued", fields={"job": object(), "attempt": 1}))
    assert "\n" not in line
    document = json.loads(line)
    assert (document["level"], document["message"], document["event"]) == ("warning", "a\nb", "job.rescued")
    assert document["fields"]["attempt"] == 1
    assert ("traceback" in document) is failing


def test_json_names_its_job_at_the_top_level() -> None:
    fields = {"job": "an-id", "task": "analyze", "attempt": 2, "worker": "web-1-7", "reason": "x"}
    document = json.loads(JsonFormatter().format(record("a", event="job.failed", fields=fields)))
    assert {name: document.get(name) for name in ("event", "job", "task", "attempt", "worker", "reason")} == {
        "event": "job.failed",
        **{name: fields[name] for name in ("job", "task", "attempt", "worker")},
        "reason": None,
    }


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_nothing_that_is_logged_steers_a_terminal(formatter: logging.Formatter) -> None:
    line = formatter.format(record("a\x1b[2J\x9b1m\u202eb\x7f", failing=True, event="e", fields={"stage": "\x9b\u2066"}))
    assert not {"\x1b", "\x9b", "\u202e", "\u2066", "\x7f"} & set(line)


def test_one_event_can_be_left_to_the_command_that_does_it(caplog: pytest.LogCaptureFixture) -> None:
    events = Events()
    with unlogged(EventName.JOB_RESCUED):
        events.emit(EventName.JOB_RESCUED, job="one")
        events.emit(EventName.JOB_LOST, job="two")
    events.emit(EventName.JOB_RESCUED, job="three")
    assert [record.fields["job"] for record in caplog.records] == ["two", "three"]  # type: ignore[attr-defined]


def test_logs_follow_stderr_when_it_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "root", logging.RootLogger(logging.WARNING))
    configure_logs("warning", "text")
    (handler,) = logging.root.handlers
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    handler.handle(record("hello"))
    assert sys.stderr.getvalue().endswith("warning hello\n")  # type: ignore[attr-defined]


@pytest.mark.parametrize(("level", "is_reported"), [("info", False), ("debug", True)])
def test_each_failure_of_an_outage_is_logged_at_debug_only(
    monkeypatch: pytest.MonkeyPatch, level: str, is_reported: bool
) -> None:
    monkeypatch.setattr(logging, "root", logging.RootLogger(logging.WARNING))
    configure_logs(level, "text")
    (handler,) = logging.root.handlers
    failures = [record("x", event="store.unavailable", fields={"operation": "beat"}) for _ in range(3)]
    assert all(handler.filter(failure) for failure in failures) is is_reported


def test_what_user_code_logs_cannot_break_the_log() -> None:
    made = logging.LogRecord("shop", logging.INFO, "file.py", 1, "hello %s", ("world",), None)
    made.__dict__ |= {"event": "store.unavailable", "fields": 5}
    assert OutageFilter().filter(made)
    assert TextFormatter().format(made).endswith("shop: hello world")
    assert json.loads(JsonFormatter().format(made))["message"] == "hello world"


def test_what_a_handler_logs_names_its_job(folder: Path) -> None:
    (folder / "talks.py").write_text(
        "import logging\nfrom holdfast import App\n"
        f"app = App({url(folder)!r})\n"
        "log = logging.getLogger('shop')\n"
        "app.task(name='thread')(lambda: log.warning('hello'))\n"
        "@app.task\nasync def loop() -> None: log.warning('hello')\n"
    )
    app = load_app("talks")
    output: dict[str, dict[str, object]] = {}

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            document = json.loads(JsonFormatter().format(record))
            output[document["task"]] = document
            assert TextFormatter().format(record).endswith(f"worker={document['worker']}")

    listener = Listener()
    logging.getLogger("shop").addHandler(listener)
    jobs = {task: str(app.enqueue(task).id) for task in ("thread", "loop")}
    app.run_due()
    app.close()
    logging.getLogger("shop").removeHandler(listener)
    assert {task: (line["job"], line["attempt"]) for task, line in output.items()} == {
        task: (job, 1) for task, job in jobs.items()
    }
    assert all(line["worker"] for line in output.values())
