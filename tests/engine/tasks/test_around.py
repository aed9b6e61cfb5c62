"""Code around every enqueue and every handler: it can change what is enqueued, but neither leave a handler out nor hide its outcome."""

from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from typing import Any
from uuid import UUID

import pytest
from msgspec import Struct

from holdfast import App, ConfigurationError, Job, JobFailed, NewJobView, Snooze, SyncJob
from holdfast._engine.runners.current import current_job, current_mask

TENANT: ContextVar[str] = ContextVar("tenant", default="nobody")
Log = list[str]


def app_with_tasks() -> tuple[App, Log]:
    """Return an App with a task of each kind that runs here, and what these log."""
    app, log = App("memory://"), Log()

    @app.task(max_attempts=1)
    async def in_loop(job: Job, text: str = "") -> str:
        log.append(f"{job.task}:{TENANT.get()}:{text}")
        return TENANT.get()

    @app.task(max_attempts=1)
    def in_thread(job: SyncJob, text: str = "") -> str:
        log.append(f"{job.task}:{TENANT.get()}:{text}")
        return TENANT.get()

    return app, log


KINDS = pytest.mark.parametrize("task", ["in_loop", "in_thread"])


@KINDS
def test_a_header_set_around_the_enqueue_is_read_around_the_handler(task: str) -> None:
    app, log = app_with_tasks()

    @app.around_enqueue
    def tag(job: NewJobView) -> Iterator[None]:
        assert (job.task, job.queue, job.payload) == (task, "default", {"text": "hi"})
        job.headers["tenant"], job.key, job.priority, job.tags = "acme", "k", -3, ["tagged"]
        log.append("enqueue")
        yield
        log.append("enqueued")

    @app.around_run
    def scope(job: Job | SyncJob) -> Iterator[None]:
        reset = TENANT.set(job.headers["tenant"])
        yield
        log.append(f"left {job.key}")
        TENANT.reset(reset)

    handle = app.enqueue(task, text="hi")
    app.run_due()
    assert log == ["enqueue", "enqueued", f"{task}:acme:hi", "left k"]
    view = handle.get()
    assert (view.headers, view.key, view.priority, view.tags) == ({"tenant": "acme"}, "k", -3, ("tagged",))
    assert handle.result(timeout=1) == "acme"


@KINDS
def test_the_first_function_is_the_outermost_and_all_share_the_context_of_the_handler(task: str) -> None:
    app, log = app_with_tasks()

    def add(name: str) -> None:
        @app.around_run
        def sync(job: Job | SyncJob) -> Iterator[None]:
            TENANT.set(f"{TENANT.get()}>{name}")
            yield
            log.append(f"{name}<{TENANT.get()}")

        @app.around_run
        async def asynchronous(job: Job | SyncJob) -> AsyncIterator[None]:
            TENANT.set(f"{TENANT.get()}>a{name}")
            yield
            log.append(f"a{name}")

    add("1")
    add("2")
    app.enqueue(task)
    app.run_due()
    path = "nobody>1>a1>2>a2"
    assert log == [f"{task}:{path}:", "a2", f"2<{path}", "a1", f"1<{path}"]
    assert TENANT.get() == "nobody"


@KINDS
@pytest.mark.parametrize("is_async", [False, True])
def test_an_exception_of_the_handler_passes_through_and_cannot_be_hidden(task: str, is_async: bool) -> None:
    app, seen = App("memory://"), list[BaseException]()

    @app.task(max_attempts=1)
    async def in_loop() -> None:
        raise RuntimeError("boom")

    @app.task(max_attempts=1)
    def in_thread() -> None:
        raise RuntimeError("boom")

    async def hide_async(job: Any) -> AsyncIterator[None]:
        try:
            yield
        except RuntimeError as error:
            seen.append(error)

    def hide(job: Any) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            seen.append(error)

    app.around_run(hide_async if is_async else hide)
    handle = app.enqueue(task)
    app.run_due()
    assert [str(error) for error in seen] == ["boom"]
    with pytest.raises(JobFailed, match="boom"):
        handle.result(timeout=1)


@KINDS
@pytest.mark.parametrize("when", ["before", "after", "never yields", "twice"])
def test_an_exception_around_the_handler_is_the_failure_of_the_attempt(task: str, when: str) -> None:
    app, log = app_with_tasks()

    @app.around_run
    def broken(job: Any) -> Iterator[None]:
        if when == "before":
            raise ValueError("broken before")
        if when == "never yields":
            return
        yield
        if when == "after":
            raise ValueError("broken after")
        yield

    handle = app.enqueue(task)
    app.run_due()
    with pytest.raises(JobFailed):
        handle.result(timeout=1)
    assert bool(log) is (when in ("after", "twice")), "the handler ran only if its surroundings let it begin"


@KINDS
def test_answers_of_the_code_around_the_handler_count_like_the_handlers_own(task: str) -> None:
    app, log = app_with_tasks()

    @app.around_run
    def later(job: Any) -> Iterator[None]:
        raise Snooze(1000.0)
        yield

    handle = app.enqueue(task)
    app.run_due()
    assert (handle.get().state, log) == ("scheduled", [])


@KINDS
def test_the_payload_is_read_inside(task: str) -> None:
    app, seen = App("memory://"), list[str]()

    class Text(Struct):
        value: str

        def __post_init__(self) -> None:
            seen.append(TENANT.get())

    @app.task
    async def in_loop(text: Text) -> None: ...

    @app.task
    def in_thread(text: Text) -> None: ...

    for each in (in_loop, in_thread):
        each.definition.function.__annotations__["text"] = Text

    @app.around_run
    def scope(job: Any) -> Iterator[None]:
        TENANT.set("acme")
        yield

    handle = app.enqueue(task, text={"value": "hi"})
    seen.clear()
    app.run_due()
    assert (handle.get().state, seen) == ("completed", ["acme"])


@KINDS
def test_the_code_around_a_run_sees_no_error_of_a_payload_that_does_not_fit(task: str) -> None:
    app, log = app_with_tasks()

    @app.around_run
    def scope(job: Any) -> Iterator[None]:
        yield
        log.append("left")

    producer = App("memory://")
    producer._connections = app._connections
    handle = producer.enqueue(task, text=7)
    app.run_due()
    assert (handle.get().reason, log) == ("PAYLOAD_INVALID", ["left"])


@KINDS
def test_unknown_fields_of_a_payload_are_reported_from_inside(task: str) -> None:
    app, _ = app_with_tasks()
    ignored: list[object] = []
    app.on("payload.fields_ignored")(lambda event: ignored.append(event.fields["fields"]))

    @app.around_run
    def scope(job: Any) -> Iterator[None]:
        yield

    producer = App("memory://")
    producer._connections = app._connections
    producer.enqueue(task, text="hi", extra=1)
    app.run_due()
    assert ignored == ["extra"]


@KINDS
def test_children_inherit_the_headers_and_the_enqueue_sees_the_context_of_their_parent(task: str) -> None:
    app, children = App("memory://"), list[Any]()

    @app.task
    async def child() -> None: ...

    @app.task
    async def in_loop(job: Job) -> None:
        TENANT.set("acme")
        children.append(await job.enqueue(child.options(headers={"own": "2"})))

    @app.task
    def in_thread(job: SyncJob) -> None:
        TENANT.set("acme")
        children.append(job.enqueue(child.options(headers={"own": "2"})))

    @app.around_enqueue
    def tag(job: NewJobView) -> Iterator[None]:
        job.headers["by"] = TENANT.get()
        yield

    parent = (in_loop if task == "in_loop" else in_thread).options(headers={"trace": "1", "own": "1"})
    parent.enqueue()
    app.run_due()
    assert children[0].get().headers == {"trace": "1", "own": "2", "by": "acme"}


def every_way(app: App) -> dict[str, Any]:
    """Return each way to enqueue from outside of an event loop."""

    @app.task
    async def work(n: int = 0) -> None: ...

    return {
        "by name": lambda: app.enqueue("work"),
        "by task": lambda: work.enqueue(1),
        "many": lambda: work.enqueue_many([{"n": 1}, {"n": 2}]),
        "with options": lambda: work.options(delay="1h").enqueue(),
    }


@pytest.mark.parametrize("way", every_way(App("memory://")))
def test_an_enqueue_that_is_refused_around_it_writes_nothing(way: str) -> None:
    app = App("memory://")

    @app.around_enqueue
    def refuse(job: NewJobView) -> Iterator[None]:
        raise PermissionError("no tenant")
        yield

    with pytest.raises(PermissionError, match="no tenant"):
        every_way(app)[way]()
    assert app.jobs.list() == []


@pytest.mark.parametrize("way", every_way(App("memory://")))
def test_an_error_of_the_enqueue_passes_through_the_code_around_it(way: str) -> None:
    app, seen = App("memory://"), list[str]()

    @app.around_enqueue
    def outer(job: NewJobView) -> Iterator[None]:
        try:
            yield
        except ConfigurationError as error:
            seen.append(error.problems[0])

    @app.around_enqueue
    def too_large(job: NewJobView) -> Iterator[None]:
        job.headers["blob"] = "x" * 5000
        yield

    with pytest.raises(ConfigurationError, match="at most 4,096"):
        every_way(app)[way]()
    assert seen[0].startswith("headers: 5,004 bytes")
    assert app.jobs.list() == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"key": "a\nb"}, "key="),
        ({"priority": "high"}, "priority="),
        ({"tags": "urgent"}, "tags="),
        ({"headers": {"tenant": 7}}, "headers: 'tenant': it is a int"),
        ({"headers": {7: "tenant"}}, "headers: 7: it is a int"),
        ({"headers": {"tenant": "\ud800"}}, "headers: 'tenant': it has a lone surrogate, which UTF-8 cannot encode"),
        ({"headers": "tenant"}, "headers='tenant'"),
    ],
    ids=str,
)
def test_a_change_that_does_not_fit_is_refused(change: dict[str, Any], problem: str) -> None:
    app = App("memory://")

    @app.around_enqueue
    def wrong(job: NewJobView) -> Iterator[None]:
        for name, value in change.items():
            setattr(job, name, value)
        yield

    with pytest.raises(ConfigurationError) as caught:
        app.enqueue("work")
    assert caught.value.problems[0].startswith(problem)


async def test_async_callers_keep_their_context() -> None:
    app = App("memory://")

    @app.task
    async def work() -> None: ...

    @app.around_enqueue
    def tag(job: NewJobView) -> Iterator[None]:
        job.headers["tenant"] = TENANT.get()
        yield

    TENANT.set("acme")
    for handle in (await work.aenqueue(), await app.aenqueue("work"), *await work.aenqueue_many([{}])):
        assert (await handle.aget()).headers == {"tenant": "acme"}


def plain(job: object) -> None: ...


async def coroutine(job: object) -> None: ...


async def async_generator(job: object) -> AsyncIterator[None]:
    yield


def without_job() -> Iterator[None]:
    yield


@pytest.mark.parametrize("wrong", [plain, coroutine, without_job, 7], ids=["plain", "coroutine", "without a job", "a number"])
def test_what_does_not_yield_once_with_one_job_is_refused(wrong: Any) -> None:
    app = App("memory://")
    for register in (app.around_enqueue, app.around_run):
        with pytest.raises(ConfigurationError, match=r"around_\w+: .*one job"):
            register(wrong)


def test_an_enqueue_has_no_event_loop_to_wait_on() -> None:
    with pytest.raises(ConfigurationError, match=r"around_enqueue: .*write a `def` of one job"):
        App("memory://").around_enqueue(async_generator)


@KINDS
def test_the_code_around_a_handler_and_the_handler_log_for_their_job(task: str) -> None:
    app, _ = app_with_tasks()
    seen: list[UUID | None] = []

    @app.around_run
    def note(job: Job | SyncJob) -> Iterator[None]:
        current, mask = current_job(), current_mask()
        seen.append(None if current is None or mask is None else current.id)
        yield

    job = app.enqueue(task).id
    app.run_due()
    assert seen == [job]
