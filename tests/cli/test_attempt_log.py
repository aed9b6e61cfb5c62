"""What a worker logs about its jobs: the same sentences for loop, threads and processes, and no secret of a job."""

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import App
from holdfast._processes.loading import load_app
from holdfast._processes.logs import JsonFormatter, TextFormatter
from tests.cli.support import url

SECRET = "c4n4ry-0f-th3-m1ne"
CARD = 4929123456781234

SHOP = """
import logging
from pydantic import BaseModel, SecretStr
from holdfast import App, Backoff, Fail, Snooze

app = App({url!r})

class Login(BaseModel):
    user: str
    phrase: SecretStr

def charge(secret, pin, login):
    logging.getLogger("bank").warning("charging %s", secret)
    raise KeyError(f"{{secret}} {{pin}} {{login.phrase.get_secret_value()}}")

@app.task(max_attempts=2, backoff=Backoff.fixed("0ms"), sensitive=("pin",))
async def loop(password: str, pin: int, login: Login) -> None:
    charge(password, pin, login)

@app.task(max_attempts=2, backoff=Backoff.fixed("0ms"), sensitive=("pin",))
def thread(password: str, pin: int, login: Login) -> None:
    charge(password, pin, login)

@app.task(max_attempts=2, backoff=Backoff.fixed("0ms"), sensitive=("pin",), process=True)
def process(password: str, pin: int, login: Login) -> None:
    charge(password, pin, login)

@app.task
async def mail(to: str) -> None: ...
"""

GOLDEN = """\
warning {task} ID failed in TIME, attempt 1 of 2, again at once: KeyError: 'hidden hidden hidden' (FOLDER/shop.py:14 in charge)
error   {task} ID failed for good, attempt 2 of 2: KeyError: 'hidden hidden hidden'
Traceback (most recent call last):
  File "FOLDER/shop.py", line {line}, in {task}
    charge(password, pin, login)
  File "FOLDER/shop.py", line 14, in charge
    raise KeyError(f"{{secret}} {{pin}} {{login.phrase.get_secret_value()}}")
KeyError: 'hidden hidden hidden'
"""
LINES = {"loop": 18, "thread": 22, "process": 26}


@pytest.fixture
def shop(folder: Path) -> Iterator[App]:
    """Make an App with a job of each kind that raises its secrets, and one that completes."""
    (folder / "shop.py").write_text(SHOP.format(url=url(folder)))
    app = load_app("shop")
    secrets = {"password": SECRET, "pin": CARD, "login": {"user": "ada", "phrase": f"{SECRET}-too"}}
    for task in LINES:
        app.enqueue(task, **secrets)
    app.enqueue("mail", to="ada")
    yield app
    app.close()


def log_of(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "holdfast.cli", "worker", "shop:app", "--until-empty", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    return done.stderr


def about(task: str, log: str, folder: Path) -> str:
    """Return the lines of one task without times, ids and folders, with what follows each."""
    whole = re.findall(rf"^\d\d:\d\d:\d\d\.\d\d\d ((?:\w+ +){task} .*\n(?:(?!\d\d:\d\d:).*\n)*)", log, re.MULTILINE)
    text = "".join(whole).replace(str(folder), "FOLDER").replace(folder.name, "FOLDER")
    text = re.sub(r"^ +[~^]+\n", "", text, flags=re.MULTILINE)
    return re.sub(r"in (?:under )?[\d.]+ m?s", "in TIME", re.sub(rf"{task} [0-9a-f]{{6}}", f"{task} ID", text))


def test_a_worker_logs_each_job_in_a_sentence_and_no_secret(shop: App, folder: Path) -> None:
    log = log_of(folder)
    for task, line in LINES.items():
        assert about(task, log, folder) == GOLDEN.format(task=task, line=line)
        assert len(re.findall(rf"warning bank: charging hidden job=\S+ task={task} attempt=[12] worker=\S+\n", log)) == 2
    assert about("mail", log, folder) == "info    mail ID completed in TIME\n"
    assert not re.search(rf"{SECRET}|{CARD}", log)


def test_a_worker_logs_the_same_as_json(shop: App, folder: Path) -> None:
    log = log_of(folder, "--log-format", "json")
    documents = [json.loads(line) for line in log.splitlines()]
    for task in LINES:
        retried, failed = [each for each in documents if each.get("task") == task and "event" in each]
        charged = [each for each in documents if each.get("task") == task and each["logger"] == "bank"]
        assert [(each["message"], each["worker"]) for each in charged] == [("charging hidden", failed["worker"])] * 2
        assert (retried["event"], retried["level"], failed["event"], failed["level"]) == (
            *("job.retried", "warning"),
            *("job.failed", "error"),
        )
        error = {"type": "KeyError", "message": "'hidden hidden hidden'", "where": f"{folder.name}/shop.py:14 in charge"}
        assert retried["error"] == failed["error"] == error
        assert (failed["queue"], failed["attempt"], 0 < failed["duration"] < 30) == ("default", 2, True)
        assert 0 <= failed["waited"] < 30
        assert "traceback" not in retried
        assert failed["traceback"].endswith("KeyError: 'hidden hidden hidden'")
    assert not re.search(rf"{SECRET}|{CARD}", log)


class Recorder(logging.Handler):
    """A handler that formats each record as a worker does."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += [TextFormatter().format(record), JsonFormatter().format(record)]


def test_the_operator_chooses_what_has_a_line_and_what_it_shows(shop: App, folder: Path) -> None:
    log = log_of(folder, "--log-jobs", "all", "--log-errors", "type")
    assert re.findall(r"mail \w{6} (started|completed)", log) == ["started", "completed"]
    assert re.findall(r"failed for good, .*", log) == ["failed for good, attempt 2 of 2: KeyError"] * 3
    assert "Traceback" not in log


def test_a_worker_inside_an_application_masks_its_records_too(shop: App) -> None:
    recorder = Recorder()
    logging.getLogger("holdfast").addHandler(recorder)
    try:
        for _ in range(2):
            shop.run_due()
    finally:
        logging.getLogger("holdfast").removeHandler(recorder)
    assert len([line for line in recorder.lines if "hidden hidden hidden" in line]) == 12
    assert not re.search(rf"{SECRET}|{CARD}", "\n".join(recorder.lines))
