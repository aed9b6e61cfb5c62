"""The optional part of the store port by which workers claim jobs ahead of their free slots."""

from typing import Protocol
from uuid import UUID


class Prefetching(Protocol):
    """The verbs for jobs that a worker claims ahead of its free slots: one write on its lease starts many of them.

    A claimed job of the lease is running once its claim number is at most the number through which the lease has started its jobs:
    with one more attempt, which started when the job was claimed. Every verb reads and settles it as such.
    """

    async def start_through(self, lease: UUID, number: int, voids: int) -> bool:
        """Start the claimed jobs of the lease through this claim number, which is that of a job it has.

        It lands only if the lease has not ended and has this number of voids; else the answer is ``False``, and nothing changes.
        Repeatable: a smaller number than before is answered ``True``, and starts nothing more.
        """
        ...

    async def void(self, lease: UUID, voids: int) -> int | None:
        """Raise the voids of the lease to this number, so that no ``start_through`` with fewer voids lands any more.

        Return the number through which it has started its jobs, 0 if none; ``None`` if the lease has ended or never existed.
        Repeatable. Then transitions with the precondition ``VOIDED`` and this number of voids return its other claimed jobs to their
        queues. Such a transition lands only if the lease still has that number, and the job is claimed and has not started, judged
        in the same write. The caller sends the worker the number of voids only after that, so that none of them can start.
        """
        ...
