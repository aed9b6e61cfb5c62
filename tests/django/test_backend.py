"""``HoldfastBackend`` with Django's own words, on each kind of database."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import django
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core import checks
from django.core.management import call_command
from django.db import transaction
from django.tasks import TaskResultStatus, default_task_backend, task, task_backends
from django.tasks.exceptions import InvalidTask, InvalidTaskBackend, TaskResultDoesNotExist, TaskResultMismatch
from django.tasks.signals import task_enqueued, task_finished, task_started
from django.utils.module_loading import import_string

from holdfast import App
from holdfast.errors import InsideEventLoop, UniqueConflict
from holdfast.integrations.django import HoldfastTask, task_options
from tests.django.conftest import use
from tests.django.shop import tasks
from tests.django.shop.models import Order

SOON = datetime(2200, 1, 1, tzinfo=UTC)


def test_a_task_is_a_job_and_its_result_follows_it(app: App) -> None:
    result = tasks.add.enqueue(1, 2, 3, 4)
    job = app.jobs.get(result.id)
    assert (job.task, job.payload) == ("tests.django.shop.tasks.add", {"args": [1, 2, 3, 4], "kwargs": {}})
    assert (result.status, result.attempts, result.is_finished) == (TaskResultStatus.READY, 0, False)
    assert tasks.add.get_result(result.id) == result
    assert app.run_due() == 1
    result.refresh()
    assert (result.status, result.return_value, result.errors) == (TaskResultStatus.SUCCESSFUL, 10, [])
    assert result.enqueued_at - timedelta(seconds=1) <= result.started_at == result.last_attempted_at <= result.finished_at
    assert len(result.worker_ids) == 1


def test_an_awaited_task_runs_with_the_orm(app: App) -> None:
    Order.objects.create(number=1, shipped=5)

    async def enqueue() -> Any:
        result = await tasks.aadd.aenqueue(1, second=2)
        await app.arun_due()
        await result.arefresh()
        return await tasks.aadd.aget_result(result.id)

    assert asyncio.run(enqueue()).return_value == 8
    asyncio.run(app.aclose())


def test_priority_queue_and_time_are_those_of_the_job(app: App) -> None:
    result = tasks.add.using(priority=7, queue_name="mail", run_after=SOON).enqueue(1)
    job = app.jobs.get(result.id)
    assert (job.priority, job.queue, job.state, job.available_at) == (-7, "mail", "scheduled", SOON)
    found = tasks.add.get_result(result.id).task
    assert (found.priority, found.queue_name, found.run_after, found.func) == (7, "mail", SOON, tasks.add.func)
    late, soon = tasks.add.enqueue(1), tasks.add.using(priority=100).enqueue(2)
    app.run_due()
    assert soon.task.get_result(soon.id).started_at < late.task.get_result(late.id).started_at


def test_a_failure_is_retried_and_both_attempts_are_in_the_result(app: App) -> None:
    result = tasks.second_try.enqueue()
    app.run_due()
    result.refresh()
    assert result.return_value == [2, 2, ["builtins.LookupError"]]
    assert [each.exception_class for each in result.errors] == [LookupError]
    assert result.errors[0].traceback.splitlines()[1].endswith("in second_try")
    assert result.errors[0].traceback.endswith("LookupError: not yet\n")
    assert (result.attempts, result.status) == (2, TaskResultStatus.SUCCESSFUL)
    assert result.started_at < result.last_attempted_at


def test_what_ends_a_job_without_an_exception_is_an_error_that_can_be_imported(app: App) -> None:
    failed, cancelled, broken = tasks.refuse.enqueue("no"), tasks.add.enqueue(1), tasks.unreadable.enqueue()
    app.jobs.cancel(cancelled.id)
    app.run_due()
    for each in (failed, cancelled, broken):
        each.refresh()
        assert each.status == TaskResultStatus.FAILED
        with pytest.raises(ValueError, match="Task failed"):
            _ = each.return_value
    assert [each.errors[0].exception_class for each in (failed, broken)] == [ValueError, TypeError]
    assert cancelled.errors[0].exception_class is import_string("holdfast.errors.JobFailed")


def test_a_job_waiting_to_run_again_is_ready(app: App) -> None:
    result = tasks.later.enqueue()
    app.run_due()
    result.refresh()
    assert (result.status, result.attempts, result.finished_at) == (TaskResultStatus.READY, 1, None)


def test_unknown_results_are_those_that_django_names(app: App) -> None:
    other = tasks.add.enqueue(1)
    with pytest.raises(TaskResultMismatch):
        tasks.aadd.get_result(other.id)
    for unknown in ("123", "01890a5d-ac96-774b-bcce-b302099a8057"):
        with pytest.raises(TaskResultDoesNotExist):
            default_task_backend.get_result(unknown)
    foreign = app.enqueue("tests.elsewhere", to="ada")
    with pytest.raises(TaskResultDoesNotExist, match="IMPORTS"):
        default_task_backend.get_result(str(foreign.id))


def test_a_loop_is_not_blocked(app: App) -> None:
    async def enqueue() -> None:
        with pytest.raises(InsideEventLoop):
            tasks.add.enqueue(1)

    asyncio.run(enqueue())


def test_signals_are_sent_once_and_a_retry_is_not_an_end(app: App) -> None:
    seen: list[tuple[str, Any, int]] = []

    def receive(sender: Any, signal: Any, task_result: Any, **_: Any) -> None:
        names = {task_enqueued: "enqueued", task_started: "started", task_finished: "finished"}
        assert sender is type(task_backends["default"])
        seen.append((names[signal], task_result.status.value, task_result.attempts))

    for each in (task_enqueued, task_started, task_finished):
        each.connect(receive)
    try:
        for each, arguments in ((tasks.second_try, ()), (tasks.aadd, (1, 2)), (tasks.refuse, ("no",))):
            each.enqueue(*arguments)
            app.run_due()
    finally:
        for each in (task_enqueued, task_started, task_finished):
            each.disconnect(receive)
    once = [("enqueued", "READY", 0), ("started", "RUNNING", 1)]
    assert seen == [
        *once,
        ("started", "RUNNING", 2),
        ("finished", "SUCCESSFUL", 2),
        *once,
        ("finished", "SUCCESSFUL", 1),
        *once,
        ("finished", "FAILED", 1),
    ]


def test_a_receiver_that_raises_fails_no_job(app: App) -> None:
    def receive(**_: Any) -> None:
        raise OSError("mail is away")

    task_started.connect(receive)
    try:
        result = tasks.add.enqueue(1)
        app.run_due()
    finally:
        task_started.disconnect(receive)
    result.refresh()
    assert result.return_value == 1


def test_the_context_has_the_job(app: App) -> None:
    Order.objects.create(number=3)
    result = tasks.ship.enqueue(3)
    app.run_due()
    result.refresh()
    assert result.return_value is True
    assert (app.jobs.get(result.id).stage, Order.objects.get(number=3).shipped) == ("ship", 1)


def of_a_time(when: datetime) -> None:
    """Take what is not JSON."""


def of_anything(when: "NoSuchName", also: datetime | None = None, *, how: object = 1) -> None:  # type: ignore[name-defined] # noqa: F821
    """Take what may be JSON."""


@task_options(timeout="never")
def limited() -> None:
    """Stand below an option that cannot work."""


@task_options(max_attempts=7, timeout="1m", on_crash="hold")
def chosen() -> None:
    """Stand below options that can work."""


@pytest.mark.usefixtures("app")
def test_a_task_that_no_worker_could_run_is_refused() -> None:
    with pytest.raises(InvalidTask, match="when is a datetime, which is not JSON"):
        HoldfastTask(func=of_a_time, priority=0, backend="default", queue_name="default", run_after=None)
    HoldfastTask(func=of_anything, priority=0, backend="default", queue_name="default", run_after=None)
    with pytest.raises(InvalidTask, match="timeout"):
        HoldfastTask(func=limited, priority=0, backend="default", queue_name="default", run_after=None)
    with pytest.raises(InvalidTask, match="Queue 'cellar' is not valid"):
        tasks.add.using(queue_name="cellar")
    with pytest.raises(TypeError, match="Unsupported type"):
        tasks.add.enqueue(SOON)
    with pytest.raises(Exception, match="task_options has no option 'tries'"):
        task_options(tries=5)


def test_options_of_a_task_are_the_policy_of_its_jobs(app: App) -> None:
    made = HoldfastTask(func=chosen, priority=0, backend="default", queue_name="default", run_after=None, max_crashes=4)
    job = app.jobs.get(made.enqueue().id)
    assert (job.max_attempts, job.max_crashes) == (7, 4)
    policy = app.registry.policies()[made.module_path]
    assert (policy.timeout, policy.on_crash) == (60.0, "hold")


def test_the_decorator_of_django_6_1_takes_them() -> None:
    if django.VERSION < (6, 1):
        with pytest.raises(TypeError, match="max_attempts"):
            task(max_attempts=5)(tasks.add.func)
    else:
        assert task(max_attempts=5, timeout="1m")(tasks.add.func).max_attempts == 5


@pytest.mark.parametrize(
    ("made", "args", "kwargs", "problem"),
    [
        (tasks.add, (), {}, "tests.django.shop.tasks.add: missing a required argument: 'first'"),
        (tasks.ship, (1, 2), {}, "tests.django.shop.tasks.ship: too many positional arguments"),
        (tasks.aadd, (1,), {"third": 2}, "tests.django.shop.tasks.aadd: "),
    ],
)
def test_arguments_that_the_task_does_not_take_are_refused_at_the_enqueue(
    app: App, made: Any, args: Any, kwargs: Any, problem: str
) -> None:
    with pytest.raises(TypeError, match=problem):
        made.enqueue(*args, **kwargs)
    assert app.jobs.list() == []


def test_a_second_enqueue_with_the_same_unique_parameters_returns_the_first_job(app: App) -> None:
    announced = list[str]()

    def receive(sender: Any, task_result: Any, **_: Any) -> None:
        announced.append(task_result.id)

    task_enqueued.connect(receive)
    try:
        first, again, other = tasks.charge.enqueue(7), tasks.charge.enqueue(order=7), tasks.charge.enqueue(8)
        with transaction.atomic():
            joined = tasks.charge.enqueue(order=7)
    finally:
        task_enqueued.disconnect(receive)
    assert first.id == again.id == joined.id != other.id
    assert announced == [first.id, other.id]
    with pytest.raises(UniqueConflict):
        tasks.charge.enqueue(7, cents=5)
    assert app.run_due() == 2
    again.refresh()
    assert again.return_value == "7: 100"
    assert tasks.charge.enqueue(7).id != first.id


def test_a_unique_parameter_that_the_task_lacks_is_refused() -> None:
    with pytest.raises(InvalidTask, match="unique_by: 'order' is no parameter of the handler"):
        HoldfastTask(func=undecided, priority=0, backend="default", queue_name="default", run_after=None, unique_by=("order",))


def undecided() -> None:
    """Stand below no options."""


@task_options(max_attempts=2)
def decided() -> None:
    """Stand below an option that is stronger."""


@pytest.mark.usefixtures("database")
def test_options_of_all_tasks_are_weaker_than_those_of_one(options: Callable[..., None]) -> None:
    options(URL="memory://", TASK_OPTIONS={"max_attempts": 9})
    made = [
        HoldfastTask(func=each, priority=0, backend="default", queue_name="default", run_after=None)
        for each in (undecided, decided)
    ]
    jobs = [task_backends["default"].app.jobs.get(each.enqueue().id) for each in made]
    assert [job.max_attempts for job in jobs] == [9, 2]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"DATBASE": "default"}, "there is no 'DATBASE'"),
        ({"TRANSACTION": "never"}, "TRANSACTION='never'"),
        ({"TASK_OPTIONS": {"tries": 1}}, "no option 'tries'"),
        ({"IMPORTS": "shop"}, "imports"),
        ({"SETTINGS": 7}, "SETTINGS=7"),
    ],
)
def test_options_that_do_not_exist_are_refused(options: Callable[..., None], given: dict[str, Any], problem: str) -> None:
    options(**given)
    with pytest.raises(InvalidTaskBackend, match=problem):
        _ = default_task_backend.alias


@pytest.mark.usefixtures("database")
def test_system_checks_find_what_is_wrong_with_the_settings(options: Callable[..., None]) -> None:
    assert [each for each in checks.run_checks() if each.id.startswith("holdfast.E")] == []
    options(["a b"])
    assert [each.id for each in checks.run_checks() if each.id.startswith("holdfast.")] == ["holdfast.E001"]
    options(["default"], DATABASE="attic")
    (found,) = [each for each in checks.run_checks() if each.id.startswith("holdfast.")]
    assert (found.id, "'attic' is not in DATABASES" in found.msg) == ("holdfast.E002", True)


def test_a_file_whose_transactions_lock_too_late_is_reported_with_the_line_that_ends_it(sqlite: Any) -> None:
    sqlite["OPTIONS"].pop("transaction_mode")
    use(sqlite)
    (found,) = [each for each in checks.run_checks() if each.id.startswith("holdfast.")]
    exec(found.hint, {"DATABASES": settings.DATABASES})
    assert (found.id, settings.DATABASES["default"]["OPTIONS"]) == (
        "holdfast.W002",
        {"transaction_mode": "IMMEDIATE", "timeout": 20},
    )
    assert [each for each in checks.run_checks() if each.id.startswith("holdfast.")] == []


@pytest.mark.usefixtures("app")
@pytest.mark.parametrize(("database", "ids"), [("sqlite", ["holdfast.E003"]), ("postgresql", [])], indirect=["database"])
def test_now_is_refused_where_it_would_wait_for_itself(options: Callable[..., None], ids: list[str]) -> None:
    options(TRANSACTION="now")
    assert [each.id for each in checks.run_checks() if each.id.startswith("holdfast.")] == ids


def test_a_database_may_be_checked_too(app: App, capsys: pytest.CaptureFixture[str]) -> None:
    tasks.add.using(queue_name="mail").enqueue(1)
    call_command("check", databases=["default"])
    assert "workers" in capsys.readouterr().err


def test_enqueue_in_an_asynchronous_view(app: App) -> None:
    async def view() -> Any:
        return await sync_to_async(tasks.add.enqueue)(1)

    assert asyncio.run(view()).status == TaskResultStatus.READY
