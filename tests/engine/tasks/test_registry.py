"""A handler's signature and options are checked once, at registration; the error names all problems together."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from holdfast._core.policy import Backoff, CrashPolicy, Policy
from holdfast._core.timing import LeaseTiming
from holdfast._engine.tasks.context import Job, SyncJob
from holdfast._engine.tasks.registry import Registry, define
from holdfast.errors import ConfigurationError, PayloadInvalid


async def analyze(job: Job, repo_url: str, limit: int = 100) -> None: ...


def shrink(job: SyncJob, path: str) -> None: ...


def plain(path: str) -> None: ...


async def plain_async() -> None: ...


@pytest.mark.parametrize(
    ("function", "is_async", "takes_job"),
    [(analyze, True, True), (shrink, False, True), (plain, False, False), (plain_async, True, False)],
)
def test_a_definition_is_read_from_the_signature(function: Callable[..., Any], is_async: bool, takes_job: bool) -> None:
    task = define(function)
    assert (task.name, task.is_async, task.takes_job) == (function.__name__, is_async, takes_job)
    assert "job" not in task.payload.fields


def test_a_task_without_options_has_the_documented_defaults() -> None:
    task = define(analyze)
    assert (task.queue, task.priority, task.retry_for, task.fail_for) == ("default", 0, (), ())
    assert task.policy == Policy(3, 3, Backoff.exponential("1s", cap="1h"), CrashPolicy.RETRY, 7 * 86400.0)


def test_options_are_kept_in_the_policy() -> None:
    task = define(
        analyze,
        name="a",
        queue="q",
        priority=-5,
        max_attempts=1,
        max_crashes=20,
        backoff=Backoff.fixed("10s"),
        on_crash="hold",
        retention=0,
    )
    assert (task.name, task.queue, task.priority) == ("a", "q", -5)
    assert task.policy == Policy(1, 20, Backoff.fixed("10s"), CrashPolicy.HOLD, 0.0)


async def sync_in_async(job: SyncJob) -> None: ...


def async_in_sync(job: Job) -> None: ...


async def job_second(path: str, job: Job) -> None: ...


async def job_optional(job: Job | None = None) -> None: ...


async def job_untyped(job) -> None: ...  # type: ignore[no-untyped-def]


async def generator(path: str) -> AsyncIterator[int]:
    yield 1


class Class:
    pass


@pytest.mark.parametrize(
    ("function", "remedy"),
    [
        (sync_in_async, "write `job: Job`"),
        (async_in_sync, "write `job: SyncJob`"),
        (job_second, "move 'job' to the front"),
        (job_optional, "write `job: Job`"),
        (job_untyped, "write `job: Job` to receive the job"),
        (generator, "cannot yield"),
        (Class, "is not a function"),
        (5, "is not a function"),
        (lambda: None, "letters, digits"),
    ],
)
def test_a_handler_that_cannot_work_is_refused_with_the_remedy(function: Any, remedy: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        define(function)
    assert remedy in str(caught.value)


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        define(
            sync_in_async,
            name="no spaces",
            queue="",
            priority="high",  # type: ignore[arg-type]
            max_attempts=0,
            max_crashes=1.5,  # type: ignore[arg-type]
            backoff="1s",  # type: ignore[arg-type]
            retry_for="ValueError",  # type: ignore[arg-type]
            on_crash="maybe",
            on_changed_steps="ask",
            retention="soon",
        )
    named = [problem.removeprefix("task no spaces: ") for problem in caught.value.problems]
    for option in (
        "name=",
        "queue=",
        "priority=",
        "max_crashes=",
        "backoff=",
        "retry_for=",
        "on_crash=",
        "on_changed_steps='ask': use 'hold', 'fail' or 'restart'",
        "retention:",
        "in `async def`",
    ):
        assert any(problem.startswith(option) for problem in named), option


def test_budgets_below_one_are_refused() -> None:
    with pytest.raises(ConfigurationError) as caught:
        define(analyze, max_attempts=0, max_crashes=0)
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("retry_for", "fail_for", "error", "is_final"),
    [
        ((), (), ValueError(), False),
        ((), ValueError, ValueError(), True),
        ((), (ValueError,), KeyError(), False),
        (TimeoutError, (), TimeoutError(), False),
        ((TimeoutError,), (), ValueError(), True),
        ((OSError,), (TimeoutError,), TimeoutError(), True),
        ((OSError,), (TimeoutError,), ConnectionError(), False),
    ],
)
def test_which_exceptions_end_a_job_for_good(retry_for: Any, fail_for: Any, error: Exception, is_final: bool) -> None:
    assert define(analyze, retry_for=retry_for, fail_for=fail_for).is_final(error) is is_final


def test_the_key_of_a_job_is_a_field_of_its_payload() -> None:
    assert define(analyze).key_of(b'{"repo_url":"a"}') == ""
    task = define(analyze, key="repo_url")
    keys = [task.key_of(payload) for payload in (b'{"repo_url":"a"}', b'{"repo_url":7}', b'{"repo_url":null}', b"{}")]
    assert keys == ["a", "7", "", ""]


@pytest.mark.parametrize("value", ['"a\\n"', "true", "1.5", "[]", f'"{"a" * 201}"'])
def test_a_value_that_cannot_be_a_key_is_refused_at_enqueue(value: str) -> None:
    with pytest.raises(PayloadInvalid, match="the key 'repo_url'"):
        define(analyze, key="repo_url").key_of(f'{{"repo_url":{value}}}'.encode())


def test_a_key_names_a_parameter_of_the_handler() -> None:
    with pytest.raises(ConfigurationError, match="key='tenant': use the name of a parameter"):
        define(analyze, key="tenant")


def test_a_name_belongs_to_one_task() -> None:
    registry = Registry()
    registry.add(define(analyze))
    registry.add(define(shrink))
    with pytest.raises(ConfigurationError, match="registered twice"):
        registry.add(define(plain, name="analyze"))
    assert registry.names() == ("analyze", "shrink")
    assert registry.policies() == {"analyze": Policy(), "shrink": Policy()}
    assert registry.get("nowhere") is None


def test_a_progress_within_below_beat_plus_margin_is_refused_when_a_worker_starts() -> None:
    tasks = Registry()
    tasks.add(define(plain, name="hasty", progress_within="10s"), define(plain, name="calm", progress_within="12s"))
    (problem,) = tasks.problems(LeaseTiming.of("30s"))
    assert problem.startswith("task hasty: progress_within >= beat + margin is broken: 10s, 6s + 5s")


def test_a_timeout_below_progress_within_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="timeout >= progress_within is broken"):
        define(plain, timeout="5s", progress_within="10s")
