"""The result of a handle has the type that the task's function is annotated with."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypedDict
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel

from holdfast import App, Fail, Handle, PayloadInvalid, ResultInvalid, Retry

JOB = UUID("01890a5d-ac96-774b-bcce-b302099a8057")


@dataclass
class Report:
    commits: int
    at: datetime


class Row(TypedDict):
    name: str


class Receipt(msgspec.Struct):
    id: UUID


class Page(BaseModel):
    title: str


AT = datetime(2026, 5, 1, tzinfo=UTC)


def annotated(kind: Any, value: object) -> Callable[[], object]:
    def work() -> object:
        return value

    work.__annotations__["return"] = kind
    return work


@pytest.mark.parametrize(
    ("kind", "returned"),
    [
        (Report, Report(400, AT)),
        (list[Row], [{"name": "a"}]),
        (Receipt | None, Receipt(JOB)),
        (tuple[int, str], (1, "a")),
        (UUID, JOB),
        (datetime | Retry, AT),
        (Page, Page(title="a")),
        (type(None), None),
        (Fail | dict[str, int] | Retry, {"a": 1}),
        (Iterable[int], [1]),  # values of these types cannot be made from JSON: it stays as it is
        (Counter[str], {"a": 1}),
    ],
)
async def test_a_result_comes_back_as_the_type_of_the_annotation(kind: Any, returned: object) -> None:
    app = App("memory://")
    task = app.task(annotated(kind, returned))
    handle = await task.aenqueue()
    await app.arun_due()
    result = await handle.aresult()
    assert (result, type(result)) == (returned, type(returned))
    assert await task.handle(str(handle.id)).aresult() == returned


async def test_a_task_that_is_enqueued_by_name_and_the_view_have_plain_json() -> None:
    app = App("memory://")
    app.task(name="report")(annotated(Report, Report(400, AT)))
    handle: Handle = await app.aenqueue("report")
    await app.arun_due()
    plain = {"commits": 400, "at": "2026-05-01T00:00:00Z"}
    assert await handle.aresult() == (await handle.aget()).result == plain


async def test_a_result_that_does_not_fit_names_its_path_and_keeps_what_is_stored() -> None:
    app = App("memory://")
    task = app.task(name="report")(annotated(list[Report], [{"commits": "many"}]))
    handle = await task.aenqueue()
    await app.arun_due()
    with pytest.raises(ResultInvalid, match=r"the result of report: Expected `int`, got `str` - at `\$\[0\].commits`") as caught:
        await handle.aresult()
    assert (caught.value.result, isinstance(caught.value, PayloadInvalid)) == (b'[{"commits":"many"}]', True)
    assert await handle.plain().aresult() == [{"commits": "many"}]


async def test_an_error_of_your_own_constructor_is_one_of_the_result() -> None:
    @dataclass
    class Picky:
        a: int

        def __post_init__(self) -> None:
            raise KeyError("a")

    app = App("memory://")
    handle = await app.task(annotated(Picky, {"a": 1})).aenqueue()
    await app.arun_due()
    with pytest.raises(ResultInvalid):
        await handle.aresult()


def test_a_handle_of_an_id_was_not_created_by_this_call() -> None:
    task = App("memory://").task(annotated(int, 1))
    assert (task.handle(JOB).id, task.handle(str(JOB)).created) == (JOB, False)
