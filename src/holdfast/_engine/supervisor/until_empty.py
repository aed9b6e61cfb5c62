"""``--until-empty``: whether nothing is left to do for anybody."""

from collections.abc import Awaitable, Callable, Sequence

from holdfast._engine.supervisor.worker_handle import WorkerHandle

ROUNDS = 2


class UntilEmpty:
    """All must say twice that there is nothing to do: a job may go from one to another while they are asked.

    ``needs``: whether others than the workers have something to do, or will have.
    """

    def __init__(self, *needs: Callable[[], Awaitable[bool]]) -> None:
        self._needs = needs
        self._rounds = 0

    async def is_empty(self, wards: Sequence[WorkerHandle], *, is_recovering: bool) -> bool:
        """Look at what the workers have answered, and ask them again."""
        answers = [ward.is_idle for ward in wards]
        if None in answers:
            return False
        is_empty = bool(answers) and all(answers) and not is_recovering
        for is_needed in self._needs if is_empty else ():
            is_empty = is_empty and not await is_needed()
        self._rounds = self._rounds + 1 if is_empty else 0
        for ward in wards:
            if ward.is_ready:
                ward.ping()
        return self._rounds >= ROUNDS
