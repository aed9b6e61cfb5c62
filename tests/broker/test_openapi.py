"""The OpenAPI document is true: requests made from it, right ones and wrong ones, get the answers that it promises, and never a 5xx."""

import json
import urllib.request
from collections.abc import Iterator

import pytest
from openapi_spec_validator import validate

from holdfast import App
from holdfast.http.managed import Managed
from holdfast.http.management import management
from holdfast.http.openapi import PREFIX
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeClock
from tests.broker.support import running

ABOUT = ("heartbeat", "checkpoint", "complete", "fail", "snooze", "release", "cancel")
CALLS = [("/jobs", "post"), ("/jobs/claim", "post"), ("/jobs/{id}", "get"), ("/stats", "get")]
CALLS += [(f"/jobs/{{id}}/{verb}", "post") for verb in ABOUT]
MANAGEMENT = [
    (each.path, each.method.lower())
    for each in management(Managed.of_app(App("memory://")))
    if (each.path, each.method.lower()) not in CALLS
]


@pytest.fixture(scope="module")
def document() -> Iterator[str]:
    """Return the URL of the document of a running broker."""
    clock = FakeClock()
    with running(MemoryStore(clock), clock) as broker:
        yield f"{broker.url}{PREFIX}/openapi.json"


@pytest.mark.timeout(180)
@pytest.mark.parametrize("is_right", [True, False], ids=["right", "wrong"])
@pytest.mark.parametrize(("path", "method"), [*CALLS, *(pytest.param(*call, marks=pytest.mark.prove) for call in MANAGEMENT)])
def test_each_call_answers_as_the_document_promises(document: str, path: str, method: str, is_right: bool) -> None:
    from tests.broker.conformance import check_answers  # noqa: PLC0415 - schemathesis takes seconds to load

    check_answers(document, PREFIX + path, method, is_right=is_right)


def test_the_document_is_valid_and_names_each_call(document: str) -> None:
    with urllib.request.urlopen(document) as answer:
        found = json.loads(answer.read())
    validate(found)
    assert found["openapi"] == "3.1.0"
    calls = {(path.removeprefix(PREFIX), method) for path, methods in found["paths"].items() for method in methods}
    assert calls == {*CALLS, *MANAGEMENT}
    ids = [each["operationId"] for methods in found["paths"].values() for each in methods.values()]
    assert len(ids) == len(set(ids)) == len(calls)
