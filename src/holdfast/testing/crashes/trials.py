"""``crash_at`` and ``freeze_at``: one job, a separate store, real workers, and how it ends."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import OperationalError
from typing import Any, NoReturn, TypeVar

from msgspec import structs

from holdfast._core.durations import Duration, seconds
from holdfast._core.job import PLACE_OF, Place, State
from holdfast._core.timing import LeaseTiming
from holdfast._core.view import JobView
from holdfast._engine.client.handle import Handle, handles_of
from holdfast._engine.operators.operators import Jobs
from holdfast._engine.tasks.task import PreparedJob
from holdfast._system import guard
from holdfast._system.clock import SystemClock, blocking_sleep
from holdfast.databases.sqlite import driver
from holdfast.errors import ConfigurationError, InsideEventLoop, Unsupported
from holdfast.opening import connections_of
from holdfast.sync import PORTAL
from holdfast.testing.crashes.freezing import FrozenProcesses
from holdfast.testing.crashes.plan import Blow, Entry, Plan
from holdfast.testing.crashes.recovery import Recovery, has_failed_again, problems_of, story_of
from holdfast.testing.crashes.trial_setup import plan_of
from holdfast.testing.crashes.workers import Crew

PAUSE = 0.005
Setup = Callable[[], object]
Answer = TypeVar("Answer")


def crash_at(
    point: str,
    job: PreparedJob[Any],
    *,
    ends: State | str = State.COMPLETED,
    setup: Setup | None = None,
    url: str | None = None,
    within: Duration = "20s",
) -> Recovery:
    """Run a job in a worker process that is killed (SIGKILL) at the first ``point``, and assert that one more attempt ends it.

    Raises ``AssertionError``, with what happened, when the point is not reached, when it ends otherwise than in the state
    ``ends``, needs more than one attempt more, or takes longer than ``within``. A point is what the handler calls
    ``point(…)``, a stage or message of its ``job.progress``, ``"checkpoint"`` or ``"enqueue"`` once one is durable.
    ``setup``, a function of a module, is called in each worker first: there it can install a fake. The store is a
    SQLite file in a temporary folder, or what ``url`` names.

    >>> recovery = crash_at("after charge", charge.bind(order=7))  # doctest: +SKIP
    >>> assert recovery.count("charged") == 1  # doctest: +SKIP
    """
    __tracebackhide__ = True
    with _trial(point, job, Blow.KILL, ends=ends, url=url, setup=setup, within=within) as trial:
        trial.start(processes=2)  # so that the second attempt need not wait for a process to start
        struck = trial.until_struck()
        return trial.recovery(struck, trial.until_ended(struck))


def freeze_at(
    point: str,
    job: PreparedJob[Any],
    *,
    ends: State | str = State.COMPLETED,
    setup: Setup | None = None,
    url: str | None = None,
    within: Duration = "20s",
    ttl: Duration = "1.5s",
) -> Recovery:
    """Freeze a job's worker and its supervisor at the first ``point`` for longer than their lease (``ttl``). Thaw them when
    another worker has ended the job. Assert that the zombie, which runs on from the point, changes nothing any more.

    As ``crash_at`` otherwise. It takes a little longer than the ``ttl``. What a zombie does outside of the store cannot
    be stopped, so this is the test of idempotency keys, fencing tokens and ``job.transaction()``.

    >>> recovery = freeze_at("before charge", charge.bind(order=7))  # doctest: +SKIP
    >>> assert recovery.count("charged") == 1  # doctest: +SKIP
    """
    __tracebackhide__ = True
    if not guard.sees_processes():
        raise Unsupported("freeze_at finds the processes of a worker in /proc, which is not there")
    with _trial(point, job, Blow.FREEZE, ends=ends, url=url, setup=setup, within=within) as trial:
        zombies = trial.start(processes=1, timing=LeaseTiming.of(ttl))
        struck = trial.until_struck()
        frozen = FrozenProcesses(struck.pid)
        try:
            trial.freeze(zombies, frozen)
            trial.start(processes=1)
            ended = trial.until_ended(struck)
            trial.thaw(zombies, frozen)
            return trial.recovery(struck, trial.require_untouched(struck, ended))
        finally:
            frozen.melt()


class Trial:
    """The job and the processes that run it."""

    def __init__(self, plan: Plan, ends: State, within: float) -> None:
        self._plan, self._ends, self._within = plan, ends, within
        self._clock = SystemClock()
        self._connections = connections_of(plan.settings)
        self._jobs = Jobs(self._connections.client)
        self._crews: list[Crew] = []

    def enqueue(self, job: PreparedJob[Any]) -> None:
        """Enqueue the job for the workers that start."""
        self._handle = PORTAL.run(self._enqueue(job))

    async def _enqueue(self, prepared: PreparedJob[Any]) -> Handle:
        job, client = prepared.new_job(), self._connections.client()
        return handles_of([job], await client.enqueue([job]), self._connections.client)[0]

    def start(self, processes: int, timing: LeaseTiming | None = None) -> Crew:
        """Start a supervisor and its workers; with leases of that timing, or the App's."""
        settings = self._plan.settings
        plan = structs.replace(self._plan, settings=structs.replace(settings, timing=timing or settings.timing))
        self._crews.append(Crew(plan.write(f"plan-{len(self._crews)}"), processes))
        return self._crews[-1]

    def close(self) -> None:
        """End all processes, and delete the folder."""
        for crew in self._crews:
            crew.end()
        PORTAL.run(self._connections.close())

    def until_struck(self) -> Entry:
        """Wait until a process has reached the point, and return its entry."""
        __tracebackhide__ = True

        def struck() -> Entry | None:
            counts = self._jobs.counts()  # asked first: what was noted before is there
            found = next((entry for entry in self._plan.journal.read() if entry.blow), None)
            if found is None and not any(counts[state] for state in State if not _is_end(state)):  # of a child neither
                self._fail(f"the job ended without reaching {self._plan.point!r}", self._handle)
            return found

        return self._until(struck, f"{self._plan.point!r} was not reached", self._handle)

    def until_ended(self, struck: Entry) -> JobView:
        """Wait until the job whose worker was killed or frozen has ended or is held."""
        __tracebackhide__ = True
        handle = self._of(struck)

        def ended() -> JobView | None:
            view = handle.get()
            if self._ends is State.COMPLETED and has_failed_again(view):
                self._fail(f"after {self._plan.point!r} the next attempt failed", handle)
            return view if _is_end(view.state) else None

        return self._until(ended, f"after {self._plan.point!r} the job did not end", handle)

    def recovery(self, struck: Entry, job: JobView) -> Recovery:
        """Return the recovery; raises ``AssertionError`` if it is not one."""
        __tracebackhide__ = True
        if problems := problems_of(job, self._ends):
            self._fail(f"after {self._plan.point!r} the job did not recover once: {'; '.join(problems)}", self._of(struck))
        return Recovery.of(job, struck, self._plan.journal.read())

    def freeze(self, crew: Crew, processes: FrozenProcesses) -> None:
        """Stop the supervisor and the workers at a moment when no process is inside a write of a SQLite file.

        A process that is stopped inside a write would block every other writer for as long.
        """
        __tracebackhide__ = True

        def frozen() -> bool:
            crew.freeze()
            processes.stop()
            if not _is_locked(self._plan.settings.url):
                return True
            processes.thaw()
            crew.thaw()
            return False

        self._until(frozen, f"at {self._plan.point!r} the file stays locked by an open transaction", self._handle)

    def thaw(self, crew: Crew, frozen: FrozenProcesses) -> None:
        """Let the frozen processes go on; return when the worker has noticed that it lost its job, and has ended."""
        __tracebackhide__ = True
        self._plan.thaw.touch()
        frozen.thaw()
        crew.thaw()
        self._until(lambda: frozen.is_gone, "the thawed worker did not end", self._handle)

    def require_untouched(self, struck: Entry, before: JobView) -> JobView:
        """Return the job after the zombie has ended. The zombie's result may be kept on its attempt, for people to read."""
        __tracebackhide__ = True
        after = self._of(struck).get()
        if _without_late(after) != _without_late(before):
            self._fail(f"the zombie changed the job, which was\n{before}\nand is\n{after}", self._of(struck))
        return after

    def _of(self, struck: Entry) -> Handle:
        if struck.job in (None, self._handle.id):
            return self._handle
        return Handle(struck.job, "", self._connections.client)  # a child

    def _until(self, look: Callable[[], Answer | None], complaint: str, handle: Handle) -> Answer:
        __tracebackhide__ = True
        deadline = self._clock.monotonic() + self._within
        while not (answer := look()):
            if problems := [problem for crew in self._crews for problem in crew.problems]:
                raise ConfigurationError(problems)
            if self._clock.monotonic() > deadline:
                self._fail(f"{complaint} within {self._within:g} s", handle)
            blocking_sleep(PAUSE)
        return answer

    def _fail(self, what: str, handle: Handle) -> NoReturn:
        __tracebackhide__ = True
        raise AssertionError(f"{what}\n{story_of(handle.get(), self._plan.journal.read())}")


@contextmanager
def _trial(
    point: str, job: PreparedJob[Any], blow: Blow, *, ends: str, url: str | None, setup: Setup | None, within: Duration
) -> Iterator[Trial]:
    if asyncio._get_running_loop() is not None:
        raise InsideEventLoop("asyncio.to_thread")
    if ends not in [state for state in State if _is_end(state)]:
        raise ConfigurationError([f"ends={ends!r}: use 'completed', 'failed', 'cancelled' or 'held'"])
    folder = tempfile.mkdtemp(prefix="holdfast-crash-")
    try:
        plan = plan_of(job, point=point, blow=blow, folder=folder, url=url, setup=setup)
        trial = Trial(plan, State(ends), seconds(within))
        try:
            trial.enqueue(job)
            yield trial
        finally:
            trial.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_end(state: State) -> bool:
    return PLACE_OF[state] is Place.FINISHED or state is State.HELD


def _without_late(job: JobView) -> JobView:
    plain = (structs.replace(each, late_result=None, late_at=None, error=None, error_key="") for each in job.attempts)
    return structs.replace(job, attempts=tuple(plain))


def _is_locked(url: str) -> bool:
    """Return whether a process is inside a write of a SQLite file. For a server return false: no client holds its files locked."""
    if not url.startswith("sqlite:"):
        return False
    with closing(driver.connect(Path(url.removeprefix("sqlite:///")), use_apsw=driver.is_apsw())) as connection:
        try:
            connection.execute("PRAGMA busy_timeout = 100")
            connection.execute("BEGIN IMMEDIATE")
        except OperationalError:
            return True
        return False
