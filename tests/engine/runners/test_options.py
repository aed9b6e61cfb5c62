"""Tasks with ``process=True``: which handlers are allowed, where a runner finds their App, and what a crash costs."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from msgspec import structs

from holdfast import App, Job, SyncJob
from holdfast._core.job import AttemptOutcome, State
from holdfast._core.lifecycle import Precondition, runner_crashed
from holdfast._engine.runners.options import RunnerOptions, Runners, has_process_tasks, importable
from holdfast._engine.tasks.registry import RunnerKind, define
from holdfast.errors import ConfigurationError
from tests.engine.runners_support import processed
from tests.engine.support import claim


async def on_the_loop(job: Job) -> None: ...


def in_thread(job: SyncJob) -> None: ...


@pytest.mark.parametrize(
    ("function", "process", "kind"),
    [
        (on_the_loop, False, RunnerKind.LOOP),
        (in_thread, False, RunnerKind.THREAD),
        (in_thread, True, RunnerKind.PROCESS),
    ],
)
def test_where_a_handler_runs_follows_from_its_kind_and_one_option(
    function: Callable[..., Any], process: bool, kind: RunnerKind
) -> None:
    assert define(function, process=process).kind is kind


def test_a_coroutine_in_a_process_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigurationError) as error:
        define(on_the_loop, process=True)
    assert error.value.problems == [
        "task on_the_loop: process=True is for blocking code: write `def` with a `SyncJob`, or leave process=True out"
    ]


def test_a_handler_in_a_process_takes_a_sync_job() -> None:
    def handler(job: Job) -> None: ...

    with pytest.raises(ConfigurationError, match="`job: SyncJob`, because it runs in a process"):
        define(handler, process=True)


def test_process_is_true_or_false() -> None:
    with pytest.raises(ConfigurationError, match="process='yes': use True"):
        define(in_thread, process="yes")  # type: ignore[arg-type]


def test_every_problem_of_runners_is_reported_at_once() -> None:
    async def on_start() -> None: ...

    wrong = {"max_jobs": 0, "max_memory": "1 parsec", "max_growth": 0, "kill_after": "soon", "on_start": on_start}
    with pytest.raises(ConfigurationError) as error:
        Runners(**wrong)  # type: ignore[arg-type]
    assert [problem.split("=")[0].split(":")[1].strip() for problem in error.value.problems] == [
        "max_jobs",
        "on_start",
        "max_memory",
        "max_growth",
        "kill_after",
    ]
    with pytest.raises(ConfigurationError, match="start_timeout: must be greater than zero"):
        Runners(start_timeout=0)
    with pytest.raises(ConfigurationError, match="pass Runners"):
        App("memory://", runners={"max_jobs": 1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("runners", "wear"),
    [
        (Runners(max_jobs=10, max_growth="4MiB"), 0.7),
        (Runners(max_jobs=7), 1.0),
        (Runners(max_memory="4MB"), 0.75),
        (Runners(max_memory="2MB"), 1.5),
        (Runners(max_growth="2MiB"), 0.5),
        (Runners(max_growth=None), 0.007),
    ],
)
def test_a_process_wears_by_jobs_memory_or_growth(runners: Runners, wear: float) -> None:
    assert runners.wear(jobs=7, memory=3_000_000, growth=1_048_576) == wear


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = ModuleType("shop.tasks")
    monkeypatch.setitem(sys.modules, "shop.tasks", made)
    return made


def test_the_app_of_an_embedded_worker_is_found_in_the_module_of_its_handlers(module: ModuleType) -> None:
    app = App("memory://")

    def resize() -> None: ...

    resize.__module__ = "shop.tasks"
    assert not has_process_tasks(app.registry)
    app.task(process=True)(resize)
    assert has_process_tasks(app.registry)
    module.__dict__["jobs"] = app
    assert importable(app, app.registry) == "shop.tasks:jobs"


def test_an_app_that_a_runner_could_not_import_is_refused_with_the_remedy(module: ModuleType) -> None:
    app = App("memory://")
    app.task(process=True)(in_thread)
    with pytest.raises(ConfigurationError, match="process=True on in_thread: a runner process must import the App"):
        importable(app, app.registry)


def test_an_app_of_a_script_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App("memory://")
    app.task(process=True)(in_thread)
    main = sys.modules["__main__"]
    monkeypatch.setitem(sys.modules, "__mp_main__", main)  # An import of multiprocessing does the same.
    monkeypatch.setattr(main, "app", app, raising=False)
    monkeypatch.setattr(main, "__spec__", None)
    with pytest.raises(ConfigurationError, match="not in a script"):
        importable(app, app.registry)


def test_options_survive_the_command_line() -> None:
    options = RunnerOptions(target="shop.tasks:app", path=("a", "b"), log_level="debug", log_format="json")
    assert RunnerOptions.decode(options.encode()) == options


@pytest.mark.parametrize(
    ("on_crash", "crashes", "to"),
    [("retry", 0, State.AVAILABLE), ("retry", 2, State.FAILED), ("fail", 0, State.FAILED), ("hold", 0, State.HELD)],
)
def test_s9_the_crash_of_a_runner_is_charged_like_that_of_a_worker_but_settled_by_the_owner(
    on_crash: str, crashes: int, to: State
) -> None:
    active = structs.replace(claim(processed(on_crash=on_crash)).job, crashes=crashes)
    moved = runner_crashed(active, "SIGSEGV", jitter=0.0)
    assert (moved.to, moved.crashes, moved.failures) == (to, crashes + 1, 0)
    assert (moved.precondition, moved.record, moved.signal) == (Precondition.TOKEN, AttemptOutcome.CRASHED, "SIGSEGV")
    assert moved.token == active.token


def test_only_the_first_crash_is_retried_at_once() -> None:
    task = processed(max_crashes=9)
    active_jobs = (structs.replace(claim(task).job, crashes=crashes) for crashes in range(4))
    waits = [runner_crashed(active, "SIGSEGV", jitter=0.0).delay for active in active_jobs]
    assert waits == [None, 1.0, 2.0, 4.0]
