"""``--until-empty``: the check that no worker and no service has anything left to do."""

from collections.abc import Awaitable, Callable, Sequence

from holdfast._core.job import State
from holdfast._core.limits import ScopeKind
from holdfast._core.requests import JobFilter
from holdfast._engine.store_defaults import limits, offers
from holdfast._engine.supervisor.worker_handle import WorkerHandle
from holdfast._ports.limits import Limits
from holdfast._ports.store import Store

ROUNDS = 2
LOOKED = 100
"""The most waiting jobs of a limit that are looked at."""


class UntilEmpty:
    """The check that nothing is left to do.

    All must answer so twice in a row: a job may go from one to another while they are asked.
    ``needs``: functions that return whether anything other than the workers has something to do, or will have.
    """

    def __init__(self, *needs: Callable[[], Awaitable[bool]]) -> None:
        self._needs = needs
        self._rounds = 0

    async def is_empty(self, workers: Sequence[WorkerHandle], *, is_recovering: bool) -> bool:
        """Evaluate what the workers have answered and ping them again; return whether nothing is left to do."""
        answers = [worker.is_idle for worker in workers]
        if None in answers:
            return False
        is_empty = bool(answers) and all(answers) and not is_recovering
        for is_needed in self._needs if is_empty else ():
            is_empty = is_empty and not await is_needed()
        self._rounds = self._rounds + 1 if is_empty else 0
        for worker in workers:
            if worker.is_ready:
                worker.ping()
        return self._rounds >= ROUNDS


async def has_limited_jobs(store: Store, tasks: Callable[[], Sequence[str]], queues: Callable[[], Sequence[str] | None]) -> bool:
    """Return whether jobs of these tasks and queues wait for slots that other workers hold: no worker sees them until a slot is free."""
    held = [view.scope for view in await limits(store).limits() if view.active] if offers(store, Limits) else []
    if not held:
        return False
    known, served = set(tasks()), queues()
    paused = {queue.name for queue in await store.queues(most=0) if queue.paused_at is not None}
    for scope in held:
        which = JobFilter(
            state=State.AVAILABLE,
            task=scope.name if scope.kind is ScopeKind.TASK else None,
            queue=scope.name if scope.kind is ScopeKind.QUEUE else None,
            limit=LOOKED,
        )
        for row in await store.list(which):
            if row.task in known and row.queue not in paused and (served is None or row.queue in served):
                return True
    return False
