"""How users build workflows. Checked with `mypy --strict` as `usage.py` is."""

from typing import Any, assert_type

from msgspec import Struct

from holdfast import App, Job
from holdfast._core.job import Failed
from holdfast._engine.workflows.builder import Workflow
from holdfast._engine.workflows.node import AtLeast, Node

app = App("memory://")


class Source(Struct):
    ref: str


@app.task
async def checkout(job: Job, ref: str) -> Source:
    return Source(ref)


@app.task
async def find_suites(source: Source) -> list[str]:
    return [source.ref]


@app.task
def sign(ref: str, tested: list[str] | Failed) -> bool:
    return isinstance(tested, Failed)


def release(w: Workflow, ref: str) -> Node[bool]:
    source = w.add(checkout.bind(ref=ref))
    assert_type(source, Node[Source])
    assert_type(source.output, Source)
    suites = w.add(find_suites.options(queue="q").bind(source=source.output), name="suites", on_failure="continue")
    assert_type(suites, Node[list[str]])
    signed = w.add(sign.bind(ref, suites.output), after=[source], when="finished")
    assert_type(signed, Node[bool])
    w.add(checkout.bind("x"), after=[source, suites], join=AtLeast(2))
    anything: list[Node[Any]] = [source, suites, signed]
    w.add(checkout.bind("x"), after=anything, join="any")

    find_suites.bind(source=suites.output)  # type: ignore[arg-type]
    sign.bind(ref=source.output, tested=[])  # type: ignore[arg-type]
    find_suites.bind()  # type: ignore[call-arg]
    w.add(checkout)  # type: ignore[call-overload]
    w.add(checkout.bind("x"), after=[ref])  # type: ignore[list-item]
    w.add(checkout.bind("x"), when="failed")  # type: ignore[call-overload]
    w.add(checkout.bind("x"), on_failure="retry")  # type: ignore[call-overload]
    return signed
