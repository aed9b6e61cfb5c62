"""What a worker prints at its start and at its end."""

import json
import logging
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from holdfast._engine.events import EventName, Events
from holdfast._engine.messages import WorkerHello
from holdfast._processes.logs import JsonFormatter
from holdfast._processes.worker import ProcessOptions
from holdfast.cli.banner import Banner
from holdfast.settings import Settings, public_url

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////var/jobs@home.db", "sqlite:////var/jobs@home.db"),
        ("memory://", "memory://"),
        ("postgresql://db/shop", "postgresql://db/shop"),
        (f"postgresql://jobs:{SECRET}@db:5432/shop", "postgresql://jobs@db:5432/shop"),
        (f"postgresql://jobs:{SECRET}/a#b@db/shop?password={SECRET}", "postgresql://jobs@db/shop?…"),
        (f"postgresql://jobs:x@{SECRET}@db/shop", "postgresql://…"),
        (f"postgresql://jobs:x?{SECRET}@db/shop", "postgresql://…"),
        (f"postgresql://db/shop?password=x@{SECRET}", "postgresql://…"),
        (f"postgresql://db/shop#{SECRET}", "postgresql://db/shop"),
        (f"mongodb://:{SECRET}@a,b/?x=1", "mongodb://@a,b/?…"),
        (f"http://{SECRET}@broker/jobs", "http://…@broker/jobs"),
        (f"http://broker/jobs?token=x@{SECRET}", "http://…"),
        (f"s3://bucket/prefix?token={SECRET}", "s3://bucket/prefix?…"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert public_url(url) == shown
    assert SECRET not in public_url(url)


def banner(form: str, url: str = f"postgresql://jobs:{SECRET}@db/shop") -> tuple[Banner, Events]:
    time = iter([100.0, 112.5])
    output = Banner("shop.tasks:app", 2, ProcessOptions.of(5, "mail,web", "info", form), lambda: next(time))
    settings = Settings.of("sqlite:///x.db")
    hello = WorkerHello(Settings(url=url, timing=settings.timing), tuple(f"task{n:02}" for n in range(23)), ("mail", "web"))
    events = Events()
    output.listen(events, lambda: SimpleNamespace(workers=[SimpleNamespace(hello=None), SimpleNamespace(hello=hello)]))  # type: ignore[arg-type, return-value]
    return output, events


def test_the_block_is_printed_once_when_the_first_worker_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    _, events = banner("text")
    events.emit(EventName.WORKER_STARTED, worker="1")
    assert capsys.readouterr().err == ""
    for _ in range(2):
        events.emit(EventName.LEASE_OPENED, lease=UUID(int=1), worker="1")
    text = capsys.readouterr().err
    lines = text.splitlines()
    assert lines[0].startswith("holdfast ")
    assert [line.split()[0] for line in lines[1:-1]] == ["app", "store", "workers", "queues", "tasks", "python"]
    assert "2 processes × 5 async jobs, 5 threads" in text
    assert "task19 and 3 more" in text
    assert "mail, web" in text
    assert SECRET not in text
    assert "\x1b" not in text


def test_one_line_at_the_end_reports_how_long_and_what_went_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    output, events = banner("text")
    for name in (EventName.WORKER_STARTED, EventName.WORKER_STARTED, EventName.WORKER_STARTED, EventName.JOB_RESCUED):
        events.emit(name)
    output.end("SIGTERM", 0)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "ended" in line]
    assert line == "holdfast ended: SIGTERM after 12.5 s, exit code 0; 3 workers started one after the other; 1 job rescued"


def test_for_machines_both_are_lines_of_the_log(caplog: pytest.LogCaptureFixture, capsys: Any) -> None:
    output, events = banner("json")
    with caplog.at_level(logging.INFO, "holdfast"):
        events.emit(EventName.LEASE_OPENED, lease=UUID(int=1), worker="1")
        output.end("SIGTERM", 0)
    start, end = (json.loads(JsonFormatter().format(record)) for record in caplog.records if "event" not in record.__dict__)
    assert start["fields"]["store"] == "postgresql://jobs@db/shop"
    assert (end["fields"]["reason"], end["fields"]["code"]) == ("SIGTERM", 0)
    assert "holdfast" not in capsys.readouterr().out
