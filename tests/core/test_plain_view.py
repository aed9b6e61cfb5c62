"""Views as plain JSON, and as pydantic and FastAPI describe them."""

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from holdfast import App, JobView, NodeView, QueueView, ScheduleView, WorkflowView
from holdfast._core.limits import LimitView


async def job() -> JobView:
    app = App("memory://")

    @app.task(max_attempts=1)
    def broken(path: str) -> None:
        raise ValueError(path)

    handle = await broken.aenqueue("a.png")
    await app.arun_due()
    return await handle.aget()


async def test_a_view_is_a_dict_and_text_as_json_has_them() -> None:
    view = await job()
    fields = view.to_dict()
    assert (fields["id"], fields["state"], fields["payload"]) == (str(view.id), "failed", {"path": "a.png"})
    assert fields["attempts"][0]["outcome"] == "failed"
    assert json.loads(view.to_json()) == fields


@pytest.mark.filterwarnings("error")
async def test_pydantic_writes_a_view_as_it_writes_itself_and_reads_it_back() -> None:
    view, adapter = await job(), TypeAdapter(list[JobView])
    written = json.loads(adapter.dump_json([view]))
    assert written == [view.to_dict()]
    assert adapter.validate_python(written)


@pytest.mark.parametrize("kind", [JobView, LimitView, NodeView, QueueView, ScheduleView, WorkflowView])
@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_pydantic_describes_each_field_of_a_view(kind: Any, mode: Any) -> None:
    schema = TypeAdapter(kind).json_schema(mode=mode)
    assert set(schema["properties"]) == set(kind.__struct_fields__)


def test_a_schema_refers_to_the_views_within_a_view() -> None:
    schema = TypeAdapter(JobView).json_schema(mode="serialization")
    assert schema["properties"]["attempts"]["items"] == {"$ref": "#/$defs/AttemptView"}
    assert schema["properties"]["created_at"]["format"] == "date-time"
    assert "completed" in schema["$defs"]["State"]["enum"]
