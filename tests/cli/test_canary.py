"""A secret in a payload, result, checkpoint or exception is shown only to a reader that asks for that job."""

import importlib
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import App
from holdfast._engine.events import Event
from holdfast._ports.transport import Hint
from holdfast._processes.logs import JsonFormatter, TextFormatter
from holdfast.transports.local import LocalTransport
from tests.cli.support import run, url

SECRET = "c4n4ry-0f-th3-m1ne"

VAULT = f"""
from holdfast import App, Backoff, Cancel, Fail, Job

app = App({{url!r}})
SECRET = {SECRET!r}


@app.task
async def keeps(job: Job, secret: str) -> dict[str, str]:
    await job.checkpoint({{{{"secret": secret}}}})
    return {{{{"secret": secret}}}}


@app.task(max_attempts=2, backoff=Backoff.fixed("0ms"))
async def breaks(secret: str) -> None:
    raise ValueError(secret)


@app.task(max_attempts=1)
def groups(secret: str) -> None:
    raise ExceptionGroup(secret, [KeyError(secret)]) from RuntimeError(secret)


@app.task
async def fails(secret: str) -> None:
    raise Fail(secret)


@app.task
async def cancels(secret: str) -> None:
    raise Cancel(secret)


@app.task
async def answers_nonsense(secret: str) -> object:
    return type(secret, (), {{{{"__repr__": lambda self: secret}}}})()


@app.task
async def wants_a_number(secret: int) -> None: ...


@app.task
async def wants_less() -> None: ...
"""
TASKS = ("keeps", "breaks", "groups", "fails", "cancels", "answers_nonsense", "wants_a_number", "wants_less")


@pytest.fixture
def vault(folder: Path) -> App:
    """Make an App whose every job has the secret."""
    (folder / "vault.py").write_text(VAULT.format(url=url(folder)))
    sys.path.insert(0, str(folder))
    return importlib.import_module("vault").app


def in_text(value: object) -> bool:
    return SECRET in str(value) or SECRET in repr(value)


def test_a_secret_is_in_no_log_event_or_hint(
    vault: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Event] = []
    hints: list[Hint] = []
    publish = LocalTransport.publish

    async def listen_in(self: LocalTransport, sent: Any) -> None:
        hints.extend(sent)
        await publish(self, sent)

    monkeypatch.setattr(LocalTransport, "publish", listen_in)
    caplog.set_level(logging.DEBUG)
    run_all(vault, events.append)
    ended = {event.name.value for event in events}
    assert {"job.completed", "job.failed", "job.retried", "job.cancelled", "job.enqueued"} <= ended
    assert len(hints) >= len(TASKS)
    assert caplog.records
    formatters = (TextFormatter(), JsonFormatter())
    lines = [formatter.format(record) for record in caplog.records for formatter in formatters]
    assert [line for line in lines if in_text(line)] == []
    assert [event for event in events if in_text(event)] == []
    assert [hint for hint in hints if in_text(hint)] == []


def test_a_secret_is_on_no_page_but_that_of_its_job(vault: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_APP", "vault")
    jobs = run_all(vault)
    for words in ("jobs list", "jobs counts --by task", "queues list", "workers list", "top", "jobs cancel --all --dry-run"):
        for form in ((), ("--json",)):
            done = run(*words.split(), *form)
            assert done.exit_code == 0, done.output
            assert not in_text(done.output), words
    for task, job in jobs.items():
        assert not in_text(run("jobs", "explain", job).output), task
    seen = {task for task, job in jobs.items() if in_text(run("jobs", "show", job).stdout)}
    assert seen == set(TASKS)


def run_all(vault: App, listen: Callable[[Event], object] = lambda event: None) -> dict[str, str]:
    """Run a job of every task to its end, and return their ids."""
    producer = App(vault.settings.url)  # without the code, so no signature checks what it sends
    for app in (vault, producer):
        app.on("*")(listen)
    jobs = {task: str(producer.enqueue(task, secret=SECRET).id) for task in TASKS}
    for _ in range(2):
        vault.run_due()
    producer.close()
    vault.close()
    return jobs
