"""One claimed job becomes one transition, in every way that its handler can end."""

import asyncio
from typing import Any

import pytest

from holdfast._core.job import AttemptOutcome, Reason, State
from holdfast._core.lifecycle import Transition
from holdfast._core.outcome import Cancel, Fail, Retry, Snooze
from holdfast._core.payload import ERROR_TEXT_LIMIT
from holdfast._engine.service import run_until_done
from holdfast._engine.tasks.context import Job
from holdfast._engine.tasks.registry import TaskDefinition, define
from holdfast.errors import JobLost
from tests.engine.support import JOB, Bench, claim, until
from tests.event_loops import run


def outcome_of(task: TaskDefinition, payload: bytes = b"{}", **fields: int) -> Transition | None:
    """Run one job of this task; return its transition."""
    found: list[Transition | None] = []

    async def test() -> None:
        bench = Bench(task)
        bench.executor.start(claim(task, payload, **fields))
        await bench.until_ended()
        assert bench.executor.running == {}
        assert bench.reports.code_running == [True, False]
        found.append(bench.ended[0].transition)

    run(test())
    return found[0]


def returning(value: object, **options: Any) -> TaskDefinition:
    async def handler() -> Any:
        return value

    return define(handler, **options)


def raising(error: BaseException, **options: Any) -> TaskDefinition:
    async def handler() -> None:
        raise error

    return define(handler, **options)


def raising_in_thread(error: BaseException, **options: Any) -> TaskDefinition:
    def handler() -> None:
        raise error

    return define(handler, **options)


class Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError("broken")


class Hasty(Retry):
    def __init__(self) -> None:
        pass


class Wild(Snooze):
    def __init__(self) -> None:
        super().__init__("1s")
        self.for_ = "soon"


# results and outcomes


def test_a_handler_gets_its_payload_and_its_result_completes_the_job() -> None:
    async def add(a: int, b: int = 2) -> dict[str, int]:
        return {"sum": a + b}

    moved = outcome_of(define(add), b'{"a": 40}')
    assert moved is not None
    assert (moved.to, moved.result, moved.record) == (State.COMPLETED, b'{"sum":42}', None)


def test_a_handler_with_a_job_parameter_gets_the_job_first() -> None:
    async def describe(job: Job, name: str) -> list[object]:
        return [str(job.id), job.attempt, job.crashes, job.token.number, job.checkpoint_value, job.is_cancelled, name]

    moved = outcome_of(define(describe), b'{"name": "x"}', number=9)
    assert moved is not None
    assert moved.result == f'["{JOB}",1,0,9,null,false,"x"]'.encode()


@pytest.mark.parametrize("make", [returning, raising, raising_in_thread])
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Retry(after="10s", reason="busy"), (State.AVAILABLE, 10.0, 1, None, AttemptOutcome.FAILED, "Retry: busy")),
        (Snooze(for_="5m"), (State.AVAILABLE, 300.0, 0, None, AttemptOutcome.SNOOZED, "None")),
        (Cancel("not needed"), (State.CANCELLED, None, 0, Reason.BY_HANDLER, AttemptOutcome.CANCELLED, "Cancel: not needed")),
        (Fail("no such page"), (State.FAILED, None, 1, Reason.PERMANENT, AttemptOutcome.FAILED, "Fail: no such page")),
    ],
    ids=["retry", "snooze", "cancel", "fail"],
)
def test_an_outcome_means_the_same_returned_and_raised(make: Any, answer: BaseException, expected: tuple[Any, ...]) -> None:
    moved = outcome_of(make(answer))
    assert moved is not None
    assert (moved.to, moved.delay, moved.failures, moved.reason, moved.record, str(moved.error)) == expected


def test_the_only_outcome_in_a_group_counts_as_itself() -> None:
    moved = outcome_of(raising(ExceptionGroup("tasks", [ExceptionGroup("inner", [Snooze("5m")])])))
    assert moved is not None
    assert (moved.to, moved.record) == (State.AVAILABLE, AttemptOutcome.SNOOZED)


def test_an_outcome_beside_a_failure_in_a_group_is_a_failure() -> None:
    moved = outcome_of(raising(ExceptionGroup("tasks", [Snooze("5m"), KeyError("x")])))
    assert moved is not None
    assert moved.record is AttemptOutcome.FAILED


@pytest.mark.parametrize("make", [returning, raising])
@pytest.mark.parametrize("answer", [Hasty(), Wild()], ids=["without its fields", "with a wrong field"])
def test_an_outcome_with_invalid_fields_is_a_failure_of_the_job(make: Any, answer: BaseException) -> None:
    moved = outcome_of(make(answer))
    assert moved is not None
    assert moved.record is AttemptOutcome.FAILED
    assert moved.error is not None
    assert moved.error.type in ("AttributeError", "ValueError")


@pytest.mark.parametrize(
    "reason", [ValueError("bad"), 7, None, "x" * 100_000, "\ud800", Broken()], ids=lambda value: type(value).__name__
)
def test_the_reason_of_an_outcome_is_text_that_every_store_can_write(reason: Any) -> None:
    moved = outcome_of(returning(Fail(reason)))
    assert moved is not None
    assert moved.error is not None
    assert type(moved.error.message) is str
    assert len(moved.error.message.encode()) <= ERROR_TEXT_LIMIT


# errors


def test_an_exception_spends_an_attempt_and_waits_the_backoff() -> None:
    moved = outcome_of(raising(KeyError("page")), failures=1)
    assert moved is not None
    assert (moved.to, moved.failures, moved.record) == (State.AVAILABLE, 2, AttemptOutcome.FAILED)
    assert 1.5 <= moved.delay <= 2.5
    assert moved.error is not None
    assert (moved.error.type, moved.error.message) == ("KeyError", "'page'")
    assert "in handler" in moved.error.traceback


def test_the_last_attempt_fails_the_job() -> None:
    moved = outcome_of(raising(KeyError("page")), failures=2)
    assert moved is not None
    assert (moved.to, moved.reason, moved.failures) == (State.FAILED, Reason.HANDLER_ERROR, 3)


@pytest.mark.parametrize("make", [raising, raising_in_thread])
@pytest.mark.parametrize(
    "error",
    [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), StopIteration(), GeneratorExit(), Broken()],
    ids=lambda error: type(error).__name__,
)
def test_any_exception_of_a_handler_is_a_failure_of_its_job_not_of_the_worker(make: Any, error: BaseException) -> None:
    moved = outcome_of(make(error))
    assert moved is not None
    assert moved.record is AttemptOutcome.FAILED
    assert moved.error is not None
    # Python itself does not let a coroutine raise StopIteration.
    assert moved.error.type == type(error).__name__ or isinstance(error, StopIteration)


def test_an_exception_whose_message_cannot_be_read_is_recorded_as_such() -> None:
    moved = outcome_of(raising(Broken()))
    assert moved is not None
    assert moved.error is not None
    assert moved.error.message == "(its message cannot be read: RuntimeError)"


def test_a_long_message_and_a_long_traceback_are_cut() -> None:
    moved = outcome_of(raising(ValueError("x" * 100_000)))
    assert moved is not None
    assert moved.error is not None
    assert len(moved.error.message.encode()) == ERROR_TEXT_LIMIT
    assert len(moved.error.traceback.encode()) <= ERROR_TEXT_LIMIT


def test_s17_a_traceback_shows_no_values_of_variables() -> None:
    async def handler(secret: str) -> None:
        token = secret + "!"
        raise ValueError(len(token))

    moved = outcome_of(define(handler), b'{"secret": "hunter2"}')
    assert moved is not None
    assert moved.error is not None
    assert "hunter2" not in moved.error.traceback


@pytest.mark.parametrize(("options", "error", "to"), [
    ({"fail_for": ValueError}, ValueError("x"), State.FAILED),
    ({"fail_for": ValueError}, KeyError("x"), State.AVAILABLE),
    ({"fail_for": ValueError}, ExceptionGroup("g", [KeyError("x"), ValueError("x")]), State.FAILED),
    ({"retry_for": OSError}, ConnectionError("x"), State.AVAILABLE),
    ({"retry_for": OSError}, KeyError("x"), State.FAILED),
], ids=["fail_for", "not fail_for", "fail_for in a group", "retry_for", "not retry_for"])  # fmt: skip
def test_retry_for_and_fail_for_decide_which_errors_are_retried(options: dict[str, Any], error: Exception, to: State) -> None:
    moved = outcome_of(raising(error, **options))
    assert moved is not None
    assert moved.to is to


@pytest.mark.parametrize("payload", [b"{}", b'{"n": "three"}', b"[]", b"not json", b'{"n": 1e999}'])
def test_l4_a_payload_that_does_not_fit_fails_the_job_before_its_code_runs(payload: bytes) -> None:
    async def handler(n: int) -> None:
        raise AssertionError("it ran")

    moved = outcome_of(define(handler), payload)
    assert moved is not None
    assert (moved.to, moved.reason, moved.failures) == (State.FAILED, Reason.PAYLOAD_INVALID, 1)


def test_the_error_of_a_payload_names_the_path() -> None:
    async def handler(sizes: list[int]) -> None: ...

    moved = outcome_of(define(handler), b'{"sizes": [1, "two"]}')
    assert moved is not None
    assert "$.sizes[1]" in str(moved.error)


class Exits:
    """A user's type that raises `SystemExit` while its value is read."""

    def __init__(self, n: int) -> None:
        self.n = n

    @classmethod
    def model_validate_json(cls, value: object) -> "Exits":
        raise SystemExit(1)


def test_a_type_of_the_users_that_exits_while_its_value_is_read_fails_its_job_only() -> None:
    async def handler(value: Exits) -> None: ...

    moved = outcome_of(define(handler), b'{"value": {"n": 1}}')
    assert moved is not None
    assert moved.error is not None
    assert moved.error.type == "SystemExit"


async def test_s16_fields_of_a_newer_release_are_ignored_with_an_event() -> None:
    async def handler(n: int) -> int:
        return n

    task = define(handler)
    bench = Bench(task)
    bench.executor.start(claim(task, b'{"n": 1, "extra": 2}'))
    await bench.until_ended()
    assert bench.log.of("payload.fields_ignored") == [{"job": JOB, "task": "handler", "fields": "extra"}]
    moved = bench.ended[0].transition
    assert moved is not None
    assert moved.to is State.COMPLETED


@pytest.mark.parametrize(
    "value", [object(), float("nan"), "x" * 300_000, {1: object()}], ids=["object", "nan", "large", "nested"]
)
def test_a_result_that_is_not_json_or_too_large_is_not_retried(value: object) -> None:
    moved = outcome_of(returning(value))
    assert moved is not None
    assert (moved.to, moved.reason) == (State.FAILED, Reason.RESULT_INVALID)


def test_job_lost_in_a_group_ends_the_attempt_without_an_outcome() -> None:
    assert outcome_of(raising(BaseExceptionGroup("tasks", [KeyError("x"), JobLost("gone")]))) is None


async def test_the_claim_of_an_unknown_task_is_released_unrun() -> None:
    bench = Bench()
    task = returning(1)
    bench.executor.start(claim(task))
    moved = bench.ended[0].transition
    assert moved is not None
    assert (moved.to, moved.record, bench.reports.code_running) == (State.AVAILABLE, None, [])


# the loop survives


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()], ids=["SystemExit", "KeyboardInterrupt"])
def test_an_exit_out_of_a_child_task_of_a_handler_does_not_end_the_loop(error: BaseException) -> None:
    loop = asyncio.new_event_loop()
    bench: list[Bench] = []

    async def handler() -> str:
        async def child() -> None:
            raise error

        task = asyncio.ensure_future(child())
        await until(task.done)
        assert task.exception() is error
        return "still here"

    async def main() -> None:
        task = define(handler)
        bench.append(Bench(task))
        bench[0].executor.start(claim(task))
        await bench[0].until_ended()

    try:
        run_until_done(loop, main())
    finally:
        loop.close()
    moved = bench[0].ended[0].transition
    assert moved is not None
    assert moved.result == b'"still here"'


def test_an_error_of_the_worker_itself_is_raised_out_of_the_loop() -> None:
    async def main() -> None:
        raise ValueError("a bug of the worker")

    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(ValueError, match="a bug of the worker"):
            run_until_done(loop, main())
    finally:
        loop.close()


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_the_start_of_a_handler_is_an_event_before_its_first_line(kind: str) -> None:
    seen = list[str]()

    async def on_loop() -> None:
        seen.append("code")

    def in_thread() -> None:
        seen.append("code")

    task = define(on_loop if kind == "loop" else in_thread, name="handler")
    bench = Bench(task)
    bench.log.events.on("job.started", lambda event: seen.append(event.name))
    bench.executor.start(claim(task), is_announced=True)
    assert seen == []
    await bench.until_ended()
    assert seen == ["job.started", "code"]
    (fields,) = bench.log.of("job.started")
    assert 0 <= fields.pop("waited") < 10
    worker = bench.executor._lease.worker
    assert fields == {"job": JOB, "task": "handler", "queue": "default", "attempt": 1, "worker": worker}
