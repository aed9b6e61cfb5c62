"""How users build workflows. Checked with `mypy --strict` as `usage.py` is."""

from collections.abc import Sequence
from typing import Any, assert_type

from msgspec import Struct

from holdfast import (
    App,
    AtLeast,
    Failed,
    Handle,
    Job,
    JobCancelled,
    JobFailed,
    Node,
    NodeView,
    State,
    SyncJob,
    TaskGroup,
    Workflow,
    WorkflowHandle,
    each,
)

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


@app.task
async def measure(suite: str, depth: int = 1) -> int:
    return depth


@app.task
def total(sizes: Sequence[int | Failed]) -> int:
    return len(sizes)


@app.workflow
def nested(w: Workflow, ref: str) -> Node[int]:
    suites = w.add(find_suites.bind(Source(ref)))
    sizes = w.map(measure.bind(each(suites.output), depth=2), on_failure="continue")
    assert_type(sizes, Node[list[int]])
    assert_type(w.add(release.bind(ref), name="inner"), Node[bool])
    w.add(total.bind([w.add(measure.bind(suite)).output for suite in ("unit", "e2e")]), name="listed")
    total.bind([suites.output])  # type: ignore[list-item]
    measure.bind(suites.output)  # type: ignore[arg-type]
    measure.bind(each(sizes.output))  # type: ignore[arg-type]
    return w.add(total.bind(sizes.output))


@app.workflow
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


@app.workflow(name="nightly", on_failure="pause", deadline="2h", retention="30d", queue="q", priority=-1, key="ref", max_nodes=10)
def nightly(w: Workflow, ref: str, *, depth: int = 1) -> None:
    w.add(checkout.bind(ref))


def enqueue_workflows() -> None:
    handle = release.enqueue(ref="main")
    assert_type(handle, WorkflowHandle[bool])
    assert_type(handle.result(timeout="1m"), bool)
    assert_type(nightly.options(delay="1h", tags=["a"], unique_key="k").enqueue("main", depth=2), WorkflowHandle[None])
    plain: Handle = handle
    assert_type(plain.cancel(), State)
    assert_type(handle.nodes(), list[NodeView])
    assert_type(handle.pause(), State)
    assert_type(handle.resume(failed="continue"), State)
    assert_type(handle.retry(from_="build"), State)
    assert_type(handle.signal("approved", {"by": "ada"}), bool)
    release.bind("main")

    release.enqueue(ref=5)  # type: ignore[arg-type]
    release.enqueue()  # type: ignore[call-arg]
    release.options(queue=5)  # type: ignore[arg-type]
    release.bind(depth=5)  # type: ignore[call-arg]
    handle.resume(failed="ignore")  # type: ignore[arg-type]
    app.workflow(on_failure="retry")  # type: ignore[call-overload]
    app.workflow(depth=5)  # type: ignore[call-overload]


async def enqueue_in_a_loop() -> None:
    handle = await release.aenqueue("main")
    assert_type(await handle.aresult(), bool)
    async with app.workflow("in-place", on_failure="cancel", key="acme", unique_key="k") as w:
        w.returns(w.add(checkout.bind("x")))
    assert_type(await w.handle.aresult(), Any)
    with app.workflow("in-place", depth=5):  # type: ignore[call-overload]
        pass


@app.workflow  # type: ignore[arg-type]
def wrong(ref: str) -> None: ...


class Report(Struct):
    suite: str


@app.task
def test_suite(source: Source, suite: str) -> Report:
    return Report(suite)


@app.workflow
def mapped(w: Workflow, ref: str) -> Node[list[Report]]:
    source = w.add(checkout.bind(ref=ref))
    suites = w.add(find_suites.bind(source=source.output))
    tested = w.map(test_suite.bind(source=source.output, suite=each(suites.output)), on_failure="continue")
    assert_type(tested, Node[list[Report]])
    assert_type(w.map(checkout.bind(ref=each(suites.output))), Node[list[Source]])
    inner = w.add(release.bind(ref=ref), on_failure="pause")
    assert_type(inner, Node[bool])
    test_suite.bind(source=source.output, suite=each(tested.output))  # type: ignore[arg-type]
    each(source.output)  # type: ignore[arg-type]
    w.map(test_suite.bind(source=source.output, suite=each(suites.output)), join="any")  # type: ignore[call-overload]
    return tested


group = TaskGroup()


@group.workflow
def grouped(w: Workflow, ref: str) -> Node[Source]:
    return w.add(checkout.bind(ref))


@group.workflow(deadline="1h")
def grouped_with_options(w: Workflow, ref: str) -> Node[Source]:
    return w.add(checkout.bind(ref))


assert_type(grouped.enqueue("main"), WorkflowHandle[Source])
assert_type(grouped_with_options.enqueue(ref="main"), WorkflowHandle[Source])
grouped.enqueue(5)  # type: ignore[arg-type]


@app.task
async def parent(job: Job) -> None:
    source = await job.call(checkout.bind("main"))
    assert_type(source, Source)
    assert_type(await job.call(test_suite.bind(source=source, suite="a")), Report)
    assert_type(await job.call(release.bind(ref="main")), bool)
    assert_type(await job.gather([test_suite.bind(source=source, suite=each) for each in "ab"]), list[Report])
    assert_type(await job.gather([checkout.bind(each) for each in "ab"]), list[Source])
    both = await job.gather([checkout.bind(each) for each in "ab"], return_exceptions=True)
    assert_type(both, list[Source | JobFailed | JobCancelled])
    assert_type(await job.enqueue(checkout.options(detached=True), ref="x"), Handle)
    await job.call(checkout)  # type: ignore[call-overload]
    async for report in job.inputs("test", Report):
        assert_type(report, Report | Failed)
    async for plain in job.inputs("test"):
        assert_type(plain, Any | Failed)


@app.task
def blocking_parent(job: SyncJob) -> Report:
    source = job.call(checkout.bind("main"))
    assert_type(source, Source)
    assert_type(job.gather([checkout.bind(each) for each in "ab"]), list[Source])
    assert_type(list(job.inputs("test", list[int])), list[list[int] | Failed])
    return job.call(test_suite.bind(source=source, suite="a"))
