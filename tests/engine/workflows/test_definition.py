"""Workflows as users write and enqueue them: with ``@app.workflow``, by name, and in place."""

from contextlib import suppress
from dataclasses import dataclass

import pytest

from holdfast import ConfigurationError, Failed, Job, Node, NodeView, Workflow, each
from holdfast._core.job import State
from holdfast._engine.operators.operators import Jobs
from holdfast._engine.tasks.around_enqueue import NewJobView
from holdfast._engine.workflows.handle import WorkflowHandle
from holdfast.errors import InsideEventLoop, JobFailed, JobNotFound, PayloadInvalid, UniqueConflict, Unsupported
from tests.engine.workflows.stores import new_app


@dataclass
class Source:
    ref: str


class Scene:
    """An App with a few tasks and the workflow ``release``, which publishes what it has checked out."""

    def __init__(self) -> None:
        self.app = app = new_app()

        @app.task
        async def checkout(ref: str) -> Source:
            if ref == "missing":
                raise ValueError("no such ref")
            return Source(ref)

        @app.task(max_attempts=1)
        def publish(source: Source) -> list[Source]:
            return [source]

        @app.workflow(queue="ci", priority=3, key="ref", deadline="2h", retention="1d")
        def release(w: Workflow, ref: str, depth: int = 1) -> Node[list[Source]]:
            source = w.add(checkout.bind(ref=ref))
            return w.add(publish.bind(source=source.output))

        self.checkout, self.publish, self.release = checkout, publish, release


def nodes_of(handle: WorkflowHandle[object]) -> dict[str, NodeView]:
    return {node.name: node for node in handle.nodes()}


def test_a_workflow_runs_and_its_result_has_the_type_of_the_node_it_returned() -> None:
    at = Scene()
    handle = at.release.enqueue(ref="main")
    before = nodes_of(handle)
    assert [(each.name, each.state, each.after) for each in before.values()] == [
        ("checkout", State.AVAILABLE, ()),
        ("publish", State.BLOCKED, ("checkout",)),
    ]
    assert at.app.run_due() == 2
    assert handle.result(timeout=1) == [Source("main")]
    assert handle.get().state is State.COMPLETED
    assert Jobs(at.app._connections.client).get(before["publish"].job).result == [{"ref": "main"}]


def test_nodes_and_the_workflow_have_its_queue_key_priority_and_options() -> None:
    at = Scene()
    handle = at.release.options(tags=["nightly"], headers={"tenant": "acme"}, delay="1h").enqueue("main")
    root, first = handle.get(), at.app.jobs.get(nodes_of(handle)["checkout"].job)
    assert (root.task, root.queue, root.key, root.priority, root.payload) == ("release", "ci", "main", 3, {"ref": "main"})
    assert (first.queue, first.key, first.priority, first.tags) == ("ci", "main", 3, ("nightly",))
    assert (first.state, first.headers, first.workflow) == (State.SCHEDULED, {"tenant": "acme"}, handle.id)


def test_by_name_the_graph_is_built_if_the_code_is_at_hand() -> None:
    at = Scene()
    handle = at.app.enqueue("release", ref="main")
    assert isinstance(handle, WorkflowHandle)
    at.app.run_due()
    assert handle.result(timeout=1) == [{"ref": "main"}] or handle.result(timeout=1) == [Source("main")]


def test_a_failed_workflow_names_the_nodes_that_did_not_complete() -> None:
    at = Scene()

    @at.app.workflow
    def broken(w: Workflow) -> None:
        w.add(at.publish.bind(source=Source("x")), name="fine")
        w.add(at.checkout.options(run_at=None).bind(ref="missing"), name="culprit")

    handle = broken.enqueue()
    at.app.run_due()
    at.app.jobs.retry(nodes_of(handle)["culprit"].job)
    at.app.run_due()
    at.app.jobs.retry(nodes_of(handle)["culprit"].job)
    at.app.run_due()
    at.app.jobs.cancel(nodes_of(handle)["culprit"].job)
    with pytest.raises(JobFailed, match="culprit did not complete") as raised:
        handle.result(timeout=1)
    assert raised.value.reason == "DEPENDENCY_FAILED"


def test_a_failed_workflow_and_its_nodes_name_the_error_of_the_first_that_failed() -> None:
    app = new_app()

    @app.task(max_attempts=1)
    def fetch() -> int:
        raise ConnectionError("refused")

    @app.task
    def report(number: int) -> None: ...

    @app.workflow
    def nightly(w: Workflow) -> None:
        fetched = w.add(fetch.bind())
        w.add(report.bind(fetched.output))

    handle = nightly.enqueue()
    app.run_due()
    for job in (handle, report.handle(nodes_of(handle)["report"].job)):
        with pytest.raises(JobFailed, match=r"did not complete \(fetch: ConnectionError: refused\)$"):
            job.result(timeout=1)


@pytest.mark.parametrize("accepted_by", ["workflow", "node", "dependent"])
def test_the_result_of_a_workflow_that_completed_without_its_returned_node_is_the_failure_of_that_node(accepted_by: str) -> None:
    app = new_app()

    @app.task(max_attempts=1)
    def build() -> int:
        raise ValueError("no disk")

    @app.task
    def report(built: int | Failed) -> str:
        return "reported"

    @app.workflow(on_failure="continue" if accepted_by == "workflow" else "fail")
    def release(w: Workflow) -> Node[int]:
        if accepted_by == "workflow":
            return w.add(build.bind())
        if accepted_by == "node":
            return w.add(build.bind(), on_failure="continue")
        built = w.add(build.bind())
        w.add(report.bind(built.output), when="finished")
        return built

    handle = release.enqueue()
    for _ in range(3):
        app.run_due()
    assert handle.get().state is State.COMPLETED
    with pytest.raises(JobFailed) as raised:
        handle.result(timeout=1)
    assert (raised.value.reason, raised.value.error and raised.value.error.message) == ("HANDLER_ERROR", "no disk")


def test_a_workflow_that_returns_no_node_has_no_result() -> None:
    at = Scene()

    @at.app.workflow
    def quiet(w: Workflow) -> None:
        w.add(at.checkout.bind(ref="main"))

    handle = quiet.enqueue()
    at.app.run_due()
    assert handle.result(timeout=1) is None


def test_one_unfinished_workflow_may_have_a_unique_key() -> None:
    at = Scene()
    order = at.release.options(unique_key="main")
    first, second = order.enqueue("main"), order.enqueue("main")
    assert (first.created, second.created, second.id) == (True, False, first.id)
    with pytest.raises(UniqueConflict, match="workflow release"):
        order.enqueue("main", depth=2)
    first.cancel()
    second = order.enqueue("main")
    for start in (None, "checkout"):
        with pytest.raises(UniqueConflict) as raised:
            first.retry(from_=start)
        assert raised.value.job == second.id


def test_nothing_is_stored_if_the_arguments_or_the_graph_are_wrong() -> None:
    at = Scene()

    @at.app.workflow(max_nodes=1)
    def wide(w: Workflow) -> None:
        for ref in "ab":
            w.add(at.checkout.bind(ref=ref))

    @at.app.workflow
    def odd(w: Workflow) -> Node[int]:
        w.add(at.checkout.bind(ref="main"))
        return 5  # type: ignore[return-value]

    with pytest.raises(PayloadInvalid):
        at.release.enqueue(ref=5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="max_nodes"):
        wide.enqueue()
    with pytest.raises(ConfigurationError, match="5 is returned"):
        odd.enqueue()
    assert at.app.jobs.list() == []


def test_options_that_do_not_fit_a_workflow_are_refused_with_what_to_use() -> None:
    release = Scene().release
    with pytest.raises(ConfigurationError, match="deadline="):
        release.options(expires_in="1h")
    with pytest.raises(
        Unsupported, match=r"enqueue after your own commit|needs a sqlite3\.Connection|needs a connection of asyncpg"
    ):
        release.options(within=object()).enqueue("main")


def test_everything_that_is_wrong_with_a_definition_is_reported_at_once() -> None:
    app = new_app()
    with pytest.raises(ConfigurationError) as raised:

        @app.workflow(
            name="a b",
            key="missing",
            on_failure="retry",  # type: ignore[call-overload]
            deadline="0s",
            retention="x",
            max_nodes=0,
        )
        async def wrong(w: Workflow, ref: str) -> None: ...

    words = ("name=", "plain `def`", "on_failure=", "max_nodes=", "deadline=", "retention:", "key=")
    found = raised.value.problems
    assert [word for word in words if not any(word in problem for problem in found)] == []
    with pytest.raises(ConfigurationError, match="has no option 'retries'"):
        app.workflow(retries=5)  # type: ignore[call-overload]
    with pytest.raises(ConfigurationError, match="takes the graph first"):
        app.workflow(lambda: None)  # type: ignore[arg-type, misc]


def test_a_name_belongs_to_one_task_or_workflow() -> None:
    at = Scene()
    with pytest.raises(ConfigurationError, match="registered twice"):

        @at.app.workflow(name="checkout")
        def other(w: Workflow) -> None: ...


def test_code_around_the_enqueue_sees_the_workflow_and_its_nodes_inherit_what_it_sets() -> None:
    at, seen = Scene(), []

    @at.app.around_enqueue
    def tenant(job: NewJobView):  # type: ignore[no-untyped-def]
        seen.append(job.task)
        job.headers["tenant"] = "acme"
        yield

    handle = at.release.enqueue("main")
    assert seen == ["release"]
    assert at.app.jobs.get(nodes_of(handle)["publish"].job).headers == {"tenant": "acme"}


def test_a_block_stores_its_workflow_when_it_ends() -> None:
    at = Scene()
    with at.app.workflow("in-place", on_failure="cancel", deadline="2h", key="acme") as w:
        source = w.add(at.checkout.bind(ref="main"))
        w.returns(w.add(at.publish.bind(source=source.output)))
        with pytest.raises(ConfigurationError, match="at the end of its block"):
            _ = w.handle
    at.app.run_due()
    assert w.handle.result(timeout=1) == [Source("main")]
    assert (w.handle.get().task, w.handle.get().key) == ("in-place", "acme")


@pytest.mark.parametrize("has_failed", [False, True])
def test_nodes_that_are_added_after_the_end_of_a_block_are_refused(has_failed: bool) -> None:
    at = Scene()
    w = at.app.workflow("in-place")
    with suppress(ZeroDivisionError), w:
        source = w.add(at.checkout.bind(ref="main"))
        _ = 1 / (not has_failed)
    for late in (lambda: w.add(at.checkout.bind(ref="x")), lambda: w.map(at.checkout.bind(ref="x")), lambda: w.returns(source)):
        with pytest.raises(ConfigurationError, match=r"workflow in-place: w\..* after .* inside"):
            late()


def test_nodes_that_are_added_after_the_function_of_a_workflow_are_refused() -> None:
    at, kept = Scene(), list[Workflow]()

    @at.app.workflow
    def leaky(w: Workflow) -> None:
        kept.append(w)
        w.add(at.checkout.bind(ref="main"))

    leaky.enqueue()
    with pytest.raises(ConfigurationError, match=r"workflow leaky: w.add\(…\) after its graph was complete"):
        kept[0].add(at.checkout.bind(ref="late"))


def test_a_block_that_raises_stores_nothing() -> None:
    at = Scene()
    w = at.app.workflow("in-place")

    def build() -> None:
        with w:
            w.add(at.checkout.bind(ref="main"))
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        build()
    assert at.app.jobs.list() == []


async def test_a_block_in_a_loop_is_async() -> None:
    at = Scene()
    with pytest.raises(InsideEventLoop, match="use `async with"):
        at.app.workflow("in-place").__enter__()
    async with at.app.workflow("in-place", unique_key="k") as w:
        w.add(at.checkout.bind(ref="main"))
    assert [each.name for each in await w.handle.anodes()] == ["checkout"]
    handle = await at.release.aenqueue("main")
    await at.app.arun_due()
    assert await handle.aresult(timeout=1) == [Source("main")]
    await at.app.aclose()


def test_a_handle_pauses_resumes_cancels_and_retries_its_workflow() -> None:
    at = Scene()
    handle = at.release.enqueue("main")
    assert handle.pause() is State.BLOCKED
    assert at.app.run_due() == 0
    assert nodes_of(handle)["checkout"].is_paused
    assert handle.resume() is State.BLOCKED
    assert handle.cancel() is State.CANCELLED
    assert handle.retry() is State.BLOCKED
    at.app.run_due()
    assert handle.retry(from_="publish") is State.BLOCKED
    assert at.app.run_due() == 1
    with pytest.raises(ConfigurationError, match="no node 'deploy'"):
        handle.retry(from_="deploy")
    with pytest.raises(ConfigurationError, match="failed="):
        handle.resume(failed="ignore")  # type: ignore[arg-type]


def test_a_retry_from_what_a_map_has_read_is_refused_and_one_from_the_map_repeats_its_items() -> None:
    app, ran = new_app(), list[str]()

    @app.task
    async def find(job: Job) -> list[int]:
        ran.append("find")
        return [*range(job.attempt + 1)]

    @app.task
    async def double(number: int) -> int:
        ran.append(f"double {number}")
        return 2 * number

    @app.task
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    @app.workflow
    def doubled(w: Workflow) -> Node[int]:
        found = w.add(find.bind())
        return w.add(total.bind(w.map(double.bind(each(found.output)), name="items").output))

    handle = doubled.enqueue()
    app.run_due()
    assert handle.result() == 2
    with pytest.raises(ConfigurationError, match="'items' ran over the old list"):
        handle.retry(from_="find")
    assert handle.get().state is State.COMPLETED
    ran.clear()
    handle.retry(from_="items")
    app.run_due()
    assert (sorted(ran), handle.result()) == (["double 0", "double 1"], 2)


def test_a_retry_from_a_nested_workflow_repeats_its_nodes() -> None:
    app, ran = new_app(), list[str]()

    @app.task
    async def step(name: str) -> str:
        ran.append(name)
        return name

    @app.workflow
    def inner(w: Workflow) -> Node[str]:
        return w.add(step.bind("inner"), after=[w.add(step.bind("first"))])

    @app.workflow
    def outer(w: Workflow) -> Node[str]:
        return w.add(step.bind("last"), after=[w.add(inner.bind(), name="in", after=[w.add(step.bind("before"))])])

    handle = outer.enqueue()
    app.run_due()
    ran.clear()
    handle.retry(from_="in")
    app.run_due()
    assert ran == ["first", "inner", "last"]


def test_a_plain_job_is_not_a_workflow() -> None:
    at = Scene()
    job = at.checkout.enqueue("main")
    with pytest.raises(JobNotFound, match="plain job"):
        WorkflowHandle[None](job.id, "default", at.app._connections.client).nodes()


def test_a_node_that_waits_for_a_signal_gets_it_by_its_handle() -> None:
    app = new_app()

    @app.task
    async def approve(job: Job) -> object:
        return await job.wait_for("approved")

    @app.workflow
    def release(w: Workflow) -> Node[object]:
        return w.add(approve.bind())

    early, handle = release.enqueue(), release.enqueue()
    assert not handle.signal("approved", "too early")
    assert early.signal("approved", "kept", node="approve")
    app.run_due()
    assert nodes_of(handle)["approve"].awaits == "approved"
    assert handle.signal("approved", "yes")
    app.run_due()
    assert (early.result(timeout=1), handle.result(timeout=1)) == ("kept", "yes")
