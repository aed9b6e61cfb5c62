"""A process of a trial from inside: the user's App, moved to the trial's store, with its points armed.

``holdfast.testing.crashes.trial_process:app`` is what a worker of a trial runs, and its runner processes run.
"""

import importlib.util
import os
import signal
import sys
from functools import cache
from operator import attrgetter

from holdfast._core.job import Json, NewJob
from holdfast._engine.client.handle import Handle
from holdfast._engine.runners.current import current_job
from holdfast._engine.tasks.child_spec import ChildSpec
from holdfast._engine.tasks.imports import import_module
from holdfast._engine.tasks.job_context import JobContext
from holdfast._system.clock import SystemClock, blocking_sleep
from holdfast.app import App
from holdfast.errors import ConfigurationError
from holdfast.testing import points
from holdfast.testing.crashes.plan import Blow, Entry, Plan

PAUSE = 0.002


def __getattr__(name: str) -> App:
    """Make ``app`` when a worker asks for it, so that importing this module does nothing."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return _enter()
    except ConfigurationError:
        raise
    except Exception as error:  # above all not an AttributeError: that would mean that there is no such name here
        raise ConfigurationError([f"a worker cannot import the App of the test: {type(error).__name__}: {error}"]) from error


@cache
def _enter() -> App:
    plan = Plan.read()
    sys.path[:] = plan.path
    for name, file in plan.modules.items():
        _import(name, file)
    app = _find(plan.target)
    assert isinstance(app, App)
    app.load()
    if app.registry.get(plan.task) is None:
        known = ", ".join(app.registry.names()) or "none"
        remedy = "register it when its module is imported, not inside of a test"
        raise ConfigurationError([f"task {plan.task} is not there in a worker, which knows {known}: {remedy}"])
    app._move(plan.settings)
    if plan.setup is not None:
        _set_up(plan.setup)
    reached = Trap(plan).reached
    points.watch(reached)
    _watch_jobs()
    return app


def _import(name: str, file: str | None) -> None:
    """Import it by its name or, as pytest does with ``--import-mode=importlib``, by its file."""
    try:
        import_module(name, "to import in a worker")
    except ConfigurationError as error:
        if file is None or error.__cause__ is not None:  # it is there, and failed
            raise
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


def _find(place: str) -> object:
    module, _, attribute = place.partition(":")
    return attrgetter(attribute)(sys.modules[module])


def _set_up(place: str) -> None:
    function = _find(place)
    assert callable(function)
    try:
        function()
    except Exception as error:
        raise ConfigurationError([f"setup={place} failed in a worker: {type(error).__name__}: {error}"]) from error


class Trap:
    """Notes every point, and strikes the first process to reach the one that it waits at."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._clock = plan, SystemClock()

    def reached(self, name: str) -> None:
        """Note a point that the code running here and now has reached."""
        plan, hold = self._plan, current_job()
        blow = plan.blow if name == plan.point and self._is_first() else None
        job, attempt = (None, None) if hold is None else (hold.id, hold.attempt)
        plan.journal.add(Entry(point=name, job=job, attempt=attempt, pid=os.getpid(), time=self._clock.wall(), blow=blow))
        if blow is Blow.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        elif blow is Blow.FREEZE:
            while not plan.thaw.exists():  # stopped here from outside, while no process is inside a write
                blocking_sleep(PAUSE)

    def _is_first(self) -> bool:
        try:
            self._plan.mark.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def _watch_jobs() -> None:
    """Make points of a handler's progress reports, too, so that its code needs no change."""
    progress, save, enqueue = JobContext._progress, JobContext._save, JobContext._enqueue

    async def watched_progress(self: JobContext, stage: str | None, fraction: float | None, message: str | None) -> None:
        await progress(self, stage, fraction, message)
        for text in (stage, message):
            if text is not None:
                points.point(text)

    async def watched_save(self: JobContext, value: Json) -> None:
        await save(self, value)
        points.point("checkpoint")

    async def watched_enqueue(self: JobContext, child: ChildSpec, job: NewJob) -> Handle:
        handle = await enqueue(self, child, job)
        points.point("enqueue")
        return handle

    JobContext._progress = watched_progress  # type: ignore[method-assign]
    JobContext._save = watched_save  # type: ignore[method-assign]
    JobContext._enqueue = watched_enqueue  # type: ignore[method-assign]
