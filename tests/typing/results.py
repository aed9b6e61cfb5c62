"""What a handle's result is, for twelve return types. Checked with `mypy --strict`, and with pyright by hand before a release."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypedDict, assert_type
from uuid import UUID

import msgspec

from holdfast import App, Cancel, Fail, Handle, Job, Retry, Snooze, SyncJob, Task

app = App("memory://")


@dataclass
class Report:
    commits: int


class Row(TypedDict):
    name: str


class Receipt(msgspec.Struct):
    id: UUID


@app.task
def number() -> int:
    return 1


@app.task(queue="slow")
async def text(job: Job, name: str) -> str:
    return name


@app.task
def nothing(job: SyncJob) -> None: ...


@app.task
async def report(url: str) -> Report:
    return Report(1)


@app.task
def rows(job: SyncJob) -> list[Row]:
    return []


@app.task
async def receipt() -> Receipt | None:
    return None


@app.task
def pair() -> tuple[int, str]:
    return 1, ""


@app.task
async def when() -> datetime | Retry:
    return Retry()


@app.task
def key(job: SyncJob) -> UUID | Snooze | Cancel | Fail:
    return Fail()


@app.task
def choice() -> Literal["a", "b"]:
    return "a"


@app.task
def plain() -> Any:
    return {}


@app.task
def many() -> Sequence[dict[str, float]]:
    return ()


def results(id: UUID, handle: Handle) -> None:
    assert_type(number.enqueue(), Handle[int])
    assert_type(number.enqueue().result(), int)
    assert_type(text.enqueue("a").result("5s"), str)
    assert_type(text.options(queue="q").enqueue(name="a").result(), str)
    nothing_returned: Handle[None] = nothing.enqueue()
    nothing_returned.cancel()
    assert_type(report.enqueue("u").result(), Report)
    assert_type(rows.enqueue().result(), list[Row])
    assert_type(receipt.enqueue().result(), Receipt | None)
    assert_type(pair.enqueue().result(), tuple[int, str])
    assert_type(when.enqueue().result(), datetime)
    assert_type(key.enqueue().result(), UUID)
    assert_type(choice.enqueue(), Handle[Literal["a", "b"]])
    assert_type(plain.enqueue().result(), Any)
    assert_type(many.enqueue_many([{}])[0].result(), Sequence[dict[str, float]])
    assert_type(report.handle(id).result(), Report)
    assert_type(app.enqueue("report", url="u"), Handle)
    assert_type(handle.result(), Any)
    number.enqueue().result().upper()  # type: ignore[attr-defined]


async def awaited() -> None:
    assert_type(await (await report.aenqueue("u")).aresult(), Report)
    assert_type(await when.handle("01890a5d-ac96-774b-bcce-b302099a8057").aresult(), datetime)


def takes(task: Task[[], int, []], typed: Task[[], int, [], int]) -> None:
    assert_type(task.enqueue().result(), Any)
    assert_type(typed.enqueue().result(), int)
