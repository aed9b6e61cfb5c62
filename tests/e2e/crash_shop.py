"""A shop whose jobs are killed and frozen by tests of the crash kit; its bank and its own App's store are far away."""

import subprocess
import time
from pathlib import Path

from holdfast import App, Backoff, Fail, Job, SyncJob
from holdfast.testing import point

app = App("sqlite:////nowhere/shop.db", ttl="10s")
late = App("memory://")


class Bank:
    """A service outside of the store that books each key once."""

    def __init__(self, book: Path) -> None:
        self._book = book

    def charge(self, order: int, key: str) -> None:
        """Book a payment, unless its key has been booked."""
        if key not in self.keys():
            with self._book.open("a") as book:
                book.write(f"{key}\n")
            point("money moved")

    def keys(self) -> list[str]:
        """List the keys of all payments."""
        return self._book.read_text().splitlines() if self._book.exists() else []


@app.task
async def charge(job: Job, order: int, book: str) -> str:
    point("before charge")
    Bank(Path(book)).charge(order, key=str(job.id))
    point("after charge")
    return str(job.token)


@app.task
async def charge_twice(job: Job, order: int, book: str) -> None:
    Bank(Path(book)).charge(order, key=f"{job.id}-{job.attempt}")
    point("after charge")


@app.task(on_crash="hold")
def print_letter(address: str) -> None:
    point("printed")


@app.task(on_crash="fail")
def greet(name: str) -> None:
    point("greeted")


@app.task(backoff=Backoff.fixed("1h"))
def charge_or_raise(order: int, book: str) -> None:
    with Path(book).open("x"):
        point("after charge")


@app.task
async def refuse() -> None:
    point("asked")
    raise Fail("no")


@app.task
def copy(job: SyncJob, chunks: int) -> int:
    start = (job.checkpoint_value or {"next": 0})["next"]
    job.progress(stage="copy", message=f"from {start}")
    for chunk in range(start, chunks):
        job.checkpoint({"next": chunk + 1})
    return start


@app.task(process=True)
def compute(job: SyncJob) -> int:
    point("computed")
    return job.attempt


@app.task
async def newsletter(job: Job) -> str:
    return str((await job.enqueue(letter, to="ada")).id)


@app.task
async def forward() -> None:
    await letter.aenqueue(to="bob")


@app.task
async def letter(to: str) -> str:
    point("sealed")
    return to


@app.task
def remember(job: SyncJob, order: int) -> None:
    with job.transaction() as connection:
        connection.execute("UPDATE orders SET paid = paid + 1 WHERE id = ?", [order])
        point("inside")
    point("paid")


@app.task
def insist(job: SyncJob, folder: str) -> str:
    """Write where only the owner may, and record the result."""
    point("insist")
    try:
        job.checkpoint({"by": job.attempt})
    except BaseException as error:
        Path(folder, f"refused-{job.attempt}").write_text(type(error).__name__)
        raise
    return f"attempt {job.attempt}"


@late.task
def greet_from_memory() -> None:
    point("greeted")


@app.task
def meddle(job: SyncJob) -> None:
    point("asleep")
    if job.attempt == 1:
        app.jobs.retry(job.id)


@app.task
def leave_a_child(pid_file: str) -> None:
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    Path(pid_file).write_text(str(child.pid))
    point("left")


@app.task
def block(lock: str, locked: str) -> None:
    Path(lock).touch()
    while not Path(locked).exists():
        time.sleep(0.01)
    point("blocked")


@app.task
def wait_for_ever() -> None:
    while True:
        time.sleep(0.01)


def charge_a_fake() -> None:
    """Install a bank that does not exist, for ``setup``."""
    Bank.charge = lambda self, order, key: point("fake money moved")  # type: ignore[method-assign]


def break_down() -> None:
    """Fail in every worker, for ``setup``."""
    raise RuntimeError("no fake today")
