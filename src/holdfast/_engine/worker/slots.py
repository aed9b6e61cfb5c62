"""How many handlers of each kind can be started now, and what to claim for them."""

from holdfast._core.policy import Policy
from holdfast._engine.runners.pool import RunnerPool
from holdfast._engine.tasks.registry import Registry, RunnerKind
from holdfast._engine.worker.executor import Executor


class Slots:
    """Of one worker."""

    def __init__(
        self, registry: Registry, executor: Executor, *, concurrency: int, threads: int, pool: RunnerPool | None
    ) -> None:
        self._executor, self._pool = executor, pool
        self._concurrency, self._threads = concurrency, threads
        self._kinds = {kind: registry.policies(kind) for kind in RunnerKind}
        self._is_wide = False
        self.is_for_all = False
        """Whether what was asked for last left no kind out."""

    def free(self) -> int:
        """For how many jobs, of whatever kind they turn out to be."""
        return min(self._free().values(), default=0)

    def plan(self, was_full: bool) -> tuple[dict[str, Policy], int, bool]:
        """Tasks with a free slot, how many to claim, never more than the scarcest kind has room for, and whether that is left out.

        After a claim that was full because of that, the next one leaves the scarcest out, so that it slows nobody down.
        """
        free = self._free()
        most = max(free.values(), default=0)
        self._is_wide = was_full and not self._is_wide
        asked = [kind for kind in free if free[kind] == most] if self._is_wide else list(free)
        ours = [kind for kind in RunnerKind if self._kinds[kind] and (kind is not RunnerKind.PROCESS or self._pool is not None)]
        self.is_for_all = set(ours) <= set(asked)
        tasks = {name: policy for kind in asked for name, policy in self._kinds[kind].items()}
        return tasks, min((free[kind] for kind in asked), default=0), len(asked) < len(free)

    def _free(self) -> dict[RunnerKind, int]:
        """Of the kinds that have any."""
        in_all = self._concurrency - len(self._executor.running)
        runners = 0 if self._pool is None else self._pool.free(self._executor.count(RunnerKind.PROCESS))
        free = {
            RunnerKind.LOOP: in_all,
            RunnerKind.THREAD: min(in_all, self._threads - self._executor.count(RunnerKind.THREAD)),
            RunnerKind.PROCESS: min(in_all, runners),
        }
        return {kind: number for kind, number in free.items() if number > 0 and self._kinds[kind]}
