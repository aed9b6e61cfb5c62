"""How many handlers of each kind can be started now, and what to claim for them."""

from msgspec import Struct

from holdfast._core.policy import Policy
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
        self._is_wide = False
        self.is_for_all = False
        """Whether the last plan included every kind of handler."""

    @property
    def size(self) -> int:
        """Number of handlers that may run at once, of all kinds."""
        return self._options.concurrency

    @property
    def kind_ahead(self) -> RunnerKind:
        """The kind of handlers whose jobs may be claimed ahead of free slots: those on the event loop, if there are any."""
        return next((kind for kind in RunnerKind if self._runs(kind)), RunnerKind.LOOP)

    @property
    def tasks_ahead(self) -> dict[str, Policy]:
        """The tasks of that kind."""
        return self._kinds[self.kind_ahead]

    @property
    def size_ahead(self) -> int:
        """Number of slots for that kind."""
        runners = {RunnerKind.THREAD: self._options.threads, RunnerKind.PROCESS: self._options.runners}
        return min(self.size, runners.get(self.kind_ahead, self.size))

    @property
    def can_start(self) -> bool:
        """Whether handlers of that kind can be started: no runner process starts for a while after one could not."""
        return self._pool is None or self.kind_ahead is not RunnerKind.PROCESS or self._pool.free(0) > 0

    @property
    def are_mixed(self) -> bool:
        """Whether there are jobs that cannot be claimed ahead: isolated ones, and handlers of another kind."""
        return sum(map(self._runs, RunnerKind)) > 1 or self._options.isolated is IsolatedJobs.INCLUDE

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
