"""A runner from inside: it runs handlers in its main thread and serves the pipe to the worker in another."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, NoReturn, TypeVar
from uuid import UUID

import pytest

from holdfast import App, Cancel, Fail, Failed, Retry
from holdfast._core.answers import Capabilities, Duplicate, EnqueueAnswer
from holdfast._core.job import Claim
from holdfast._core.outcome import Done, Invalid, Outcome, Raised, Suspend
from holdfast._core.steps import SignalTaken, StepList, StepRecord
from holdfast._engine.runners import messages
from holdfast._engine.runners.process import RunnerProcess
from holdfast._engine.tasks.around import around
from holdfast._engine.tasks.context import SyncJob
from holdfast._engine.tasks.lifespan import Lifespan
from holdfast._engine.tasks.registry import TaskDefinition, define
from holdfast._system.channel import SystemChannel
from holdfast.errors import ConfigurationError, JobLost, StoreUnavailable
from tests.engine.support import JOB, Held, claim, registry, until
from tests.event_loops import run

Message = TypeVar("Message")


class FakeWorkerLink:
    """A runner's link to its worker; `die` records that the runner would have ended."""

    def __init__(self, end: socket.socket) -> None:
        self.channel = SystemChannel(end)
        self.died = threading.Event()

    def memory(self) -> int:
        return 4711

    def die(self) -> None:
        self.died.set()


class Scene:
    """A runner in a thread, and the worker's end of its pipe."""

    def __init__(
        self, *tasks: Callable[..., Any] | TaskDefinition, lifespan: Lifespan | None = None, on_start: Any = None
    ) -> None:
        near, far = socket.socketpair()
        self.channel = SystemChannel(near)
        self.link = FakeWorkerLink(far)
        self.tasks = registry(*(task if isinstance(task, TaskDefinition) else define(task, process=True) for task in tasks))
        self.runner = RunnerProcess(self.link)
        self.error: BaseException | None = None
        self._lifespan, self._on_start = lifespan or Lifespan(), on_start
        self.thread = threading.Thread(target=self._run_until_shutdown)

    def _run_until_shutdown(self) -> None:
        try:
            self.runner.run(
                self.tasks,
                self._lifespan,
                open_store=Transactional,  # type: ignore[arg-type]
                idle=2.5,
                longest_nap=6.0,
                on_start=self._on_start,
            )
        except ConfigurationError as error:
            self.error = error
            self.runner.refuse(error)

    async def __aenter__(self) -> "Scene":
        self.thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.send(messages.Shutdown())
        if self.link.died.is_set():
            self.runner._inbox.put(None)
        await asyncio.to_thread(self.thread.join)
        self.channel.close()
        self.runner._loop.call_soon_threadsafe(self.runner._loop.stop)
        await asyncio.to_thread(self.runner._thread.join)
        self.runner._loop.close()
        self.link.channel.close()

    def send(self, message: messages.Message) -> None:
        self.channel.send(messages.encode(message))

    async def next(self, kind: type[Message]) -> Message:
        data = await self.channel.receive()
        assert data is not None
        message = messages.decode(data)
        assert isinstance(message, kind), message
        return message

    def claim(self, payload: bytes = b"{}", *, name: str = "handler", number: int = 1) -> Claim:
        task = self.tasks.get(name)
        assert task is not None
        return claim(task, payload, number=number)

    async def begin(self, payload: bytes = b"{}") -> None:
        await self.next(messages.Ready)
        self.send(messages.Run(self.claim(payload)))
        await self.next(messages.RunStarted)

    async def outcome(self) -> Outcome | None:
        ended = await self.next(messages.RunEnded)
        return None if ended.verdict is None else ended.verdict.outcome()


async def test_a_task_that_the_runner_lacks_is_reported_and_the_next_job_runs() -> None:
    async def handler() -> str:
        raise AssertionError

    def known() -> None: ...

    async with Scene(known) as scene:
        await scene.next(messages.Ready)
        scene.send(messages.Run(claim(define(handler))))
        await scene.next(messages.TaskMissing)
        scene.send(messages.Run(scene.claim(name="known")))
        await scene.next(messages.RunStarted)
        assert await scene.outcome() == Done(b"null")


async def test_code_around_a_run_shares_the_context_of_the_handler_in_the_order_of_registration() -> None:
    path: ContextVar[str] = ContextVar("path", default="")

    def sync(job: SyncJob) -> Iterator[None]:
        path.set(path.get() + f">{threading.current_thread() is scene.thread}")
        yield
        path.set(path.get() + "<")

    async def asynchronous(job: SyncJob) -> AsyncIterator[None]:
        path.set(path.get() + ">loop")
        yield
        ended.append(path.get())

    def handler() -> str:
        return path.get()

    ended: list[str] = []
    scene = Scene(handler)
    scene.tasks.around_run += [around(each, name="around_run", may_be_async=True) for each in (asynchronous, sync)]
    async with scene:
        await scene.begin()
        assert await scene.outcome() == Done(b'">loop>True"')
    assert ended == [">loop>True<"]


class Transactional:
    """A store with the only verb that these tests need."""

    capabilities = Capabilities("transactional", "kernel", caller_transaction=True)

    @contextmanager
    def blocking_transaction(self, job: object, token: object, *, idle: float, hook_due_at: object = None) -> Any:
        yield f"connection for {job} within {idle}"

    @contextmanager
    def transaction_within(self, connection: object, job: object, token: object, *, idle: float) -> Any:
        yield f"{connection} for {job} within {idle}"

    async def close(self) -> None: ...


def noop() -> None: ...


def outcome_of(handler: Callable[..., Any], payload: bytes = b"{}") -> Outcome | None:
    """Run one job of this handler in a runner; return the outcome that its worker receives."""
    found: list[Outcome | None] = []

    async def test() -> None:
        async with Scene(handler) as scene:
            await scene.begin(payload)
            found.append(await scene.outcome())

    run(test())
    return found[0]


def test_a_handler_gets_its_arguments_and_its_job_and_its_result_comes_back() -> None:
    def handler(job: SyncJob, a: int, b: int = 2) -> list[Any]:
        return [a + b, str(job.id), job.attempt, threading.current_thread().name]

    outcome = outcome_of(handler, b'{"a": 40}')
    assert isinstance(outcome, Done)
    assert b'[42,"%s",1,' % str(JOB).encode() in outcome.result
    assert b"holdfast-runner" not in outcome.result


def test_an_exception_comes_back_with_its_traceback_from_the_handler_on() -> None:
    def handler() -> NoReturn:
        secret = "hunter2"
        raise ValueError(f"no {len(secret)}")

    outcome = outcome_of(handler)
    assert isinstance(outcome, Raised)
    assert (outcome.failure.type, outcome.failure.message, outcome.is_final) == ("ValueError", "no 7", False)
    assert "in handler" in outcome.failure.traceback
    assert "runner_process" not in outcome.failure.traceback
    assert "hunter2" not in outcome.failure.traceback.replace('secret = "hunter2"', "")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), StopIteration(), asyncio.CancelledError()])
async def test_an_exit_out_of_a_handler_is_a_failure_of_its_job_and_the_runner_goes_on(error: BaseException) -> None:
    def handler(n: int) -> int:
        if n == 0:
            raise error
        return n

    async with Scene(handler) as scene:
        await scene.begin(b'{"n": 0}')
        outcome = await scene.outcome()
        assert isinstance(outcome, Raised)
        assert outcome.failure.type == type(error).__name__
        scene.send(messages.Run(scene.claim(b'{"n": 1}', number=2)))
        await scene.next(messages.RunStarted)
        assert await scene.next(messages.RunEnded) == messages.RunEnded(messages.OutcomeData.of(Done(b"1")), 4711)


def test_outcomes_that_a_handler_asks_for_reach_the_worker() -> None:
    def handler(how: str) -> object:
        match how:
            case "retry":
                return Retry(after="5s", reason="later")
            case "cancel":
                raise Cancel("enough")
        raise ExceptionGroup("all", [Fail("for good")])

    retry, cancel, fail = (outcome_of(handler, b'{"how": "%s"}' % how) for how in (b"retry", b"cancel", b"fail"))
    assert isinstance(retry, Retry)
    assert (retry.after, retry.reason) == (5.0, "later")
    assert isinstance(cancel, Cancel)
    assert cancel.reason == "enough"
    assert isinstance(fail, Fail)
    assert fail.reason == "for good"


async def test_a_payload_that_does_not_fit_is_invalid_and_its_handler_does_not_run() -> None:
    def handler(n: int) -> NoReturn:
        raise AssertionError("it ran")

    async with Scene(handler) as scene:
        await scene.next(messages.Ready)
        scene.send(messages.Run(scene.claim(b'{"n": "text"}')))
        await scene.next(messages.RunStarted)
        outcome = await scene.outcome()
        assert isinstance(outcome, Invalid)
        assert outcome.reason == "PAYLOAD_INVALID"
        assert "$.n" in outcome.failure.message


def test_a_result_that_is_not_json_is_invalid() -> None:
    def handler() -> object:
        return object()

    outcome = outcome_of(handler)
    assert isinstance(outcome, Invalid)
    assert outcome.reason == "RESULT_INVALID"


async def test_fields_that_a_newer_release_wrote_are_named() -> None:
    def handler(n: int) -> int:
        return n

    async with Scene(handler) as scene:
        await scene.next(messages.Ready)
        scene.send(messages.Run(scene.claim(b'{"n": 1, "new": 2}')))
        assert (await scene.next(messages.RunStarted)).ignored == ()
        assert (await scene.next(messages.RunStarted)).ignored == ("new",)
        await scene.next(messages.RunEnded)


async def test_progress_is_sent_at_once_and_in_a_tight_loop_only_the_latest() -> None:
    def handler(job: SyncJob) -> None:
        for number in range(1000):
            job.progress(fraction=number / 1000, **({"stage": "walk"} if number == 1 else {}))

    async with Scene(handler) as scene:
        await scene.begin()
        first = await scene.next(messages.Progressed)
        assert first.fraction == 0.0
        sent = [first]
        while isinstance(message := messages.decode(await scene.channel.receive() or b""), messages.Progressed):
            sent.append(message)
        assert (sent[-1].fraction, isinstance(message, messages.RunEnded)) == (0.999, True)
        assert {each.stage for each in sent} == {None, "walk"}
        assert len(sent) < 100


async def test_a_checkpoint_returns_when_the_worker_reports_that_it_is_durable() -> None:
    order = list[str]()

    def handler(job: SyncJob) -> object:
        job.progress(stage="before")
        job.checkpoint({"next": 3})
        order.append("durable")
        return job.checkpoint_value

    async with Scene(handler) as scene:
        await scene.begin()
        assert (await scene.next(messages.Progressed)).stage == "before"
        asked = await scene.next(messages.Checkpointed)
        assert asked.data == b'{"next":3}'
        order.append("answered")
        scene.send(messages.CallAnswered(asked.call))
        assert await scene.outcome() == Done(b'{"next":3}')
    assert order == ["answered", "durable"]


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        (messages.CallProblem.LOST, JobLost),
        (messages.CallProblem.STOPPED, asyncio.CancelledError),
        (messages.CallProblem.UNAVAILABLE, StoreUnavailable),
    ],
)
def test_a_call_that_fails_raises_the_same_error_as_in_a_thread(
    problem: messages.CallProblem, error: type[BaseException]
) -> None:
    raised = list[type[BaseException]]()

    def handler(job: SyncJob) -> None:
        try:
            job.checkpoint(1)
        except BaseException as seen:
            raised.append(type(seen))

    async def test() -> None:
        async with Scene(handler) as scene:
            await scene.begin()
            scene.send(messages.CallAnswered((await scene.next(messages.Checkpointed)).call, problem, "so"))
            await scene.next(messages.RunEnded)

    run(test())
    assert raised == [error]


async def test_a_child_is_enqueued_by_the_worker() -> None:
    app = App("memory://")

    @app.task
    def other(n: int) -> None: ...

    def handler(job: SyncJob) -> object:
        return str(job.enqueue(other.options(queue="q"), n=1).id)

    async with Scene(handler) as scene:
        await scene.begin()
        asked = await scene.next(messages.Enqueued)
        assert (asked.child.task, asked.child.payload, asked.child.queue) == ("other", b'{"n":1}', "q")
        scene.send(messages.CallAnswered(asked.call, answer=EnqueueAnswer({asked.child.id: Duplicate(JOB, is_same=True)})))
        assert await scene.outcome() == Done(f'"{JOB}"'.encode())


async def test_the_outcomes_of_parents_go_through_the_pipe() -> None:
    def handler(job: SyncJob) -> object:
        return [each.reason if isinstance(each, Failed) else each for each in job.inputs("build", int)]

    async with Scene(handler) as scene:
        await scene.begin()
        asked = await scene.next(messages.ParentsAsked)
        scene.send(messages.CallAnswered(asked.call, parents={"build": (JOB, UUID(int=9))}))
        asked = await scene.next(messages.OutcomesAsked)
        assert asked.children == (JOB, UUID(int=9))
        scene.send(messages.CallAnswered(asked.call, outcomes={JOB: b"7"}))
        assert await scene.outcome() == Done(b'[7,"RESULT_NOT_AVAILABLE"]')


async def test_s22_steps_and_waits_go_through_the_pipe_and_a_suspension_is_the_outcome() -> None:
    def handler(job: SyncJob) -> object:
        found = [job.step("charge", lambda: {"id": 1}), job.step("ship", str, 7)]
        try:
            job.wait_for("go", timeout="1h")
        except BaseException:
            return found
        return None

    known = StepRecord(name="charge", nth=1, place=0, is_sequential=True, result=b'{"id":0}')
    old = StepRecord(name="old", nth=1, place=2, is_sequential=False, result=b"1")
    async with Scene(handler) as scene:
        await scene.begin()
        now = datetime(2024, 5, 1, tzinfo=UTC)
        asked = await scene.next(messages.StepsAsked)
        scene.send(messages.CallAnswered(asked.call, steps=StepList((known, old), now)))
        asked = await scene.next(messages.StepRecorded)
        assert asked.record == StepRecord(name="ship", nth=1, place=1, is_sequential=True, result=b'"7"')
        scene.send(messages.CallAnswered(asked.call))
        asked = await scene.next(messages.StepRecorded)
        assert asked.record.name == ":until:go"
        assert 3600.0 <= int(asked.record.result or b"") / 1e6 - now.timestamp() < 3660.0
        scene.send(messages.CallAnswered(asked.call))
        asked = await scene.next(messages.SignalAsked)
        assert (asked.name, asked.record.key, asked.record.result) == ("go", (":wait_for:go", 1), None)
        scene.send(messages.CallAnswered(asked.call, taken=SignalTaken()))
        ended = await scene.next(messages.RunEnded)
        assert ended.unused_steps == ("'old' (use 1)",)
        assert ended.verdict is not None
        outcome = ended.verdict.outcome()
        assert isinstance(outcome, Suspend)
        assert (outcome.awaits, 3500.0 < outcome.for_ <= 3600.0) == ("go", True)


@pytest.mark.parametrize("looks", [True, False])
async def test_a_cancelled_handler_can_see_it_and_its_return_value_decides(looks: bool) -> None:
    held = Held()

    def handler(job: SyncJob) -> str | None:
        held.wait_here()
        return None if looks and job.is_cancelled else "done"

    async with Scene(handler) as scene:
        await scene.begin()
        await until(held.come.is_set)
        scene.send(messages.CancelRequested())
        await until(lambda: scene.runner._work is not None and scene.runner._work.is_stopped)
        held.set()
        assert await scene.outcome() == (None if looks else Done(b'"done"'))


async def test_s3_every_call_of_a_handler_that_lost_its_job_raises_job_lost() -> None:
    held, raised = Held(), list[str]()

    def handler(job: SyncJob) -> None:
        held.wait_here()
        calls = (job.alive, lambda: job.progress(fraction=1.0), lambda: job.checkpoint(1), lambda: job.transaction().__enter__())
        for call in calls:
            try:
                call()
            except JobLost as error:
                raised.append(type(error).__name__)
        job.alive()

    async with Scene(handler) as scene:
        await scene.begin()
        await until(held.come.is_set)
        scene.send(messages.JobLostNotice())
        await until(lambda: scene.runner._work is not None and scene.runner._work.is_stopped)
        held.set()
        assert await scene.outcome() is None
    assert raised == ["JobLost"] * 4


async def test_a_thread_that_a_handler_left_behind_cannot_write_progress_of_the_next_job() -> None:
    held, raised = Held(), list[str]()
    threads = list[threading.Thread]()

    def linger(job: SyncJob) -> None:
        held.wait_here()
        try:
            job.progress(message="from the past")
        except JobLost as error:
            raised.append(type(error).__name__)

    def handler(job: SyncJob, n: int) -> None:
        if n == 0:
            threads.append(threading.Thread(target=linger, args=(job,)))
            threads[0].start()
        else:
            held.set()
            threads[0].join()

    async with Scene(handler) as scene:
        await scene.begin(b'{"n": 0}')
        await scene.outcome()
        await until(held.come.is_set)
        scene.send(messages.Run(scene.claim(b'{"n": 1}', number=2)))
        await scene.next(messages.RunStarted)
        assert await scene.outcome() == Done(b"null")
    assert raised == ["JobLost"]


def test_handlers_see_what_the_lifespan_yielded_once_per_runner() -> None:
    order = list[str]()

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[dict[str, int]]:
        order.append("open")
        yield {"answer": 42}
        order.append("close")

    def handler(job: SyncJob) -> object:
        order.append("job")
        return job.state["answer"]

    async def test() -> None:
        async with Scene(handler, lifespan=Lifespan(lifespan)) as scene:
            await scene.begin()
            assert await scene.outcome() == Done(b"42")
            scene.send(messages.Run(scene.claim(number=2)))
            await scene.next(messages.RunStarted)
            await scene.outcome()
        assert order == ["open", "job", "job", "close"]

    run(test())


async def test_on_start_runs_once_in_the_handlers_thread_before_the_runner_is_ready() -> None:
    seen = list[Any]()

    def handler() -> None:
        seen.append(threading.get_ident())

    async with Scene(handler, on_start=lambda: seen.append(threading.get_ident())) as scene:
        await scene.begin()
        await scene.next(messages.RunEnded)
        scene.send(messages.Run(scene.claim(number=2)))
        await scene.next(messages.RunStarted)
        await scene.next(messages.RunEnded)
    assert len(seen) == 3
    assert len(set(seen)) == 1


async def test_an_on_start_that_fails_is_reported_to_the_worker_and_the_lifespan_is_left() -> None:
    left = list[str]()

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        yield
        left.append("lifespan")

    def on_start() -> None:
        raise SystemExit("no model")

    async with Scene(noop, lifespan=Lifespan(lifespan), on_start=on_start) as scene:
        refused = await scene.next(messages.Refused)
        assert refused.problems == ("on_start failed: SystemExit: no model; no job can run in a process that it did not prepare",)
    assert left == ["lifespan"]


def test_a_lifespan_that_fails_is_reported_to_the_worker() -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        raise OSError("no database")
        yield

    async def test() -> None:
        async with Scene(noop, lifespan=Lifespan(lifespan)) as scene:
            (problem,) = (await scene.next(messages.Refused)).problems
            assert "no database" in problem

    run(test())


def test_a_transaction_uses_the_runners_own_connection() -> None:
    def handler(job: SyncJob) -> str:
        with job.transaction() as connection:
            return str(connection)

    assert outcome_of(handler) == Done(f'"connection for {JOB} within 2.5"'.encode())


def test_a_transaction_uses_the_connection_that_the_handler_gives() -> None:
    def handler(job: SyncJob) -> str:
        with job.transaction(within="mine") as connection:
            return str(connection)

    assert outcome_of(handler) == Done(f'"mine for {JOB} within 2.5"'.encode())


async def test_a_runner_dies_when_its_pipe_closes() -> None:
    async with Scene(noop) as scene:
        await scene.next(messages.Ready)
        assert not scene.link.died.is_set()
        scene.channel.close()
        await until(scene.link.died.is_set)
