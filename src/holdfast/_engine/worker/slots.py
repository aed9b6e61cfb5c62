"""How many handlers of each kind can be started now, and what to claim for them."""

from msgspec import Struct

from holdfast._core.policy import Policy
from holdfast._core.prefetch import STARTED_TIME
from holdfast._core.requests import IsolatedJobs
from holdfast._engine.runners.pool import RunnerPool
from holdfast._engine.tasks.registry import Registry, RunnerKind
from holdfast._engine.worker.executor import Executor
from holdfast._engine.worker.options import WorkerOptions


class ClaimPlan(Struct, frozen=True):
    """What the next claim asks for. ``leaves_out``: a kind of handler that has free slots is not among ``tasks``."""

    tasks: dict[str, Policy]
    limit: int
    leaves_out: bool = False


class Slots:
    """The slots of one worker."""

    def __init__(self, registry: Registry, executor: Executor, options: WorkerOptions, pool: RunnerPool | None = None) -> None:
        self._executor, self._options, self._pool = executor, options, pool
        self._kinds = {kind: registry.policies(kind) for kind in RunnerKind}
        quick = [kind for kind in (RunnerKind.LOOP, RunnerKind.THREAD) if self._runs(kind)]
        self.kinds_ahead = tuple(quick) or (RunnerKind.PROCESS,)
        """The kinds of handlers whose jobs may be claimed ahead of free slots: runner processes only if there are no others."""
        self._all_ahead = {name: policy for kind in self.kinds_ahead for name, policy in self._kinds[kind].items()}
        self._kind_of = {task: kind for kind in self.kinds_ahead for task in self._kinds[kind]}
        self._is_wide = False
        self.is_for_all = False
        """Whether the last plan included every kind of handler."""

    @property
    def size(self) -> int:
        """Number of handlers that may run at once, of all kinds."""
        return self._options.concurrency

    @property
    def size_ahead(self) -> int:
        """Number of slots of the scarcest kind whose jobs may be claimed ahead."""
        return min(map(self._size_of, self.kinds_ahead))

    def tasks_ahead(self, now: float) -> dict[str, Policy]:
        """Return the tasks whose jobs the next claim may take ahead of free slots."""
        return self._all_ahead if self._are_threads_quick(now) else self._kinds[RunnerKind.LOOP]

    @property
    def can_start(self) -> bool:
        """Whether handlers that were claimed ahead can be started: no runner process starts for a while after one could not."""
        return self._pool is None or RunnerKind.PROCESS not in self.kinds_ahead or self._pool.free(0) > 0

    def are_mixed(self, now: float) -> bool:
        """Return whether there are jobs that the next claim cannot take ahead: isolated ones, and handlers of another kind."""
        others = {*filter(self._runs, RunnerKind)}.difference(self.kinds_ahead)
        return bool(others) or not self._are_threads_quick(now) or self._options.isolated is IsolatedJobs.INCLUDE

    def kind_ahead(self, task: str) -> RunnerKind:
        """Return where the handler of a job runs that was claimed ahead. One whose task is not known is returned when it begins."""
        return self._kind_of.get(task, self.kinds_ahead[0])

    def free_ahead(self, kind: RunnerKind) -> int:
        """Return how many handlers of this kind can begin now, beside those that wait for a thread."""
        unbegun = self._executor.unbegun
        in_all = self.size - len(self._executor.running) + unbegun
        if kind is RunnerKind.LOOP:
            return in_all
        count = self._executor.count(kind) - (unbegun if kind is RunnerKind.THREAD else 0)
        return min(in_all, self._size_of(kind) - count)

    def _are_threads_quick(self, now: float) -> bool:
        """Return whether jobs for threads would soon begin: jobs on the event loop that are claimed with them must not wait for these.

        A handler that runs for longer than one write starts work for is not quick. A worker without handlers on the event loop has no
        other jobs to take.
        """
        if len(self.kinds_ahead) == 1:
            return True
        running = [
            each for each in self._executor.running.values() if each.kind is RunnerKind.THREAD and each.begun_at is not None
        ]
        is_free = self._executor.unbegun > 0 or len(running) < self._options.threads
        return is_free and all(now - each.begun_at < STARTED_TIME for each in running if each.begun_at is not None)

    def _size_of(self, kind: RunnerKind) -> int:
        runners = {RunnerKind.THREAD: self._options.threads, RunnerKind.PROCESS: self._options.runners}
        return min(self.size, runners.get(kind, self.size))

    def _runs(self, kind: RunnerKind) -> bool:
        return bool(self._kinds[kind]) and (kind is not RunnerKind.PROCESS or self._pool is not None)

    def free(self) -> int:
        """Return how many jobs of any kind can be started: the free slots of the scarcest kind."""
        return min(self._free().values(), default=0)

    def plan(self, *, was_full: bool) -> ClaimPlan:
        """Return the tasks with a free slot and how many jobs to claim: at most the free slots of the scarcest kind.

        After a claim that was full, the next one leaves out the scarcest kinds, so that they do not slow the others down.
        """
        free = self._free()
        most = max(free.values(), default=0)
        self._is_wide = was_full and not self._is_wide
        asked = [kind for kind in free if free[kind] == most] if self._is_wide else list(free)
        self.is_for_all = {*filter(self._runs, RunnerKind)} <= {*asked}
        tasks = {name: policy for kind in asked for name, policy in self._kinds[kind].items()}
        limit = min((free[kind] for kind in asked), default=0)
        if self._options.most is not None:
            limit = min(limit, self._options.most - self._executor.started)
        return ClaimPlan(tasks, limit, leaves_out=len(asked) < len(free))

    def _free(self) -> dict[RunnerKind, int]:
        in_all = self.size - len(self._executor.running)
        runners = 0 if self._pool is None else self._pool.free(self._executor.count(RunnerKind.PROCESS))
        free = {
            RunnerKind.LOOP: in_all,
            RunnerKind.THREAD: min(in_all, self._options.threads - self._executor.count(RunnerKind.THREAD)),
            RunnerKind.PROCESS: min(in_all, runners),
        }
        return {kind: number for kind, number in free.items() if number > 0 and self._kinds[kind]}
