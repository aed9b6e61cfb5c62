"""One read of outcomes for the many jobs that a worker has claimed in one exchange, which ask for them one after the other."""

import asyncio
from collections.abc import Mapping, Sequence
from uuid import UUID

from holdfast._core.workflow import Output
from holdfast._engine.client.outputs import PAGE, Read
from holdfast._engine.service import yield_to_loop


class SharedOutputs:
    """Joins the reads that are asked for before the next one is sent. Each outcome is read after it was asked for."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._asked: list[UUID] = []
        self._jobs = 0
        self._next: asyncio.Task[Mapping[UUID, Output]] | None = None

    def ask(self, ids: Sequence[UUID]) -> asyncio.Task[Mapping[UUID, Output]]:
        """Return the read of these outcomes, and of all others that it joins. Its error is that of all that share it."""
        if self._next is None or len(self._asked) >= PAGE:
            self._asked = []
            self._next = asyncio.create_task(self._send(self._asked))
            self._next.add_done_callback(_retrieve)
        self._asked += ids
        self._jobs += 1
        return self._next

    async def read(self, ids: Sequence[UUID]) -> Mapping[UUID, Output]:
        """Return the outcomes of these jobs. Raises what the read raises, for all that share it."""
        found = await asyncio.shield(self.ask(ids))  # one job that is stopped must not end the read of the others
        return {job: found[job] for job in ids if job in found}

    async def _send(self, asked: list[UUID]) -> Mapping[UUID, Output]:
        jobs = 0
        while jobs < self._jobs and len(asked) < PAGE:  # each turn of the loop begins another job of the exchange
            jobs = self._jobs
            await yield_to_loop()
        if self._asked is asked:
            self._next = None
        return await self._read(list(dict.fromkeys(asked)))


def _retrieve(task: asyncio.Task[Mapping[UUID, Output]]) -> None:
    """Take the error of a read whose jobs were all stopped, so that asyncio does not report it."""
    if not task.cancelled():
        task.exception()
