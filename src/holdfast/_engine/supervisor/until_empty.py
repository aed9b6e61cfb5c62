"""``--until-empty``: the check that no worker and no service has anything left to do."""

from collections.abc import Awaitable, Callable, Sequence

from holdfast._engine.supervisor.worker_handle import WorkerHandle

ROUNDS = 2


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
