"""The optional part of the store port that decides which jobs run next: settings of queues, and limits."""

from typing import Protocol

from holdfast._core.audit import AuditNote
from holdfast._core.limits import Limit, LimitView, Scope
from holdfast._core.origin import Origin
from holdfast._core.requests import QueueSettings


class Lanes(Protocol):
    """The verb that sets how the lanes of a queue are served."""

    async def set_queue(self, queue: str, settings: QueueSettings | None, *, by: AuditNote | None = None) -> None:
        """Set the priority and the weights of a queue; ``None``: as if none had been set.

        The jobs of the queue that wait get its new priority in the same write; those that run keep theirs until they end.
        """
        ...


class Limits(Protocol):
    """The verbs of limits. The store keeps them and judges them in each claim: no worker counts."""

    async def limits(self, key: str | None = None) -> tuple[LimitView, ...]:
        """Return all limits by scope, each with what is used of it, also by the jobs of this key."""
        ...

    async def set_limit(self, scope: Scope, limit: Limit | None, origin: Origin, *, by: AuditNote | None = None) -> None:
        """Set the limit of a scope; ``None``: remove it, and forget its rates.

        It holds for each claim that begins after the answer. A claim that is under way may exceed it once. Lowering a limit stops no
        job that runs.

        A claim of the kind ``PLAIN`` and one of delivered jobs leave out all jobs that a limit counts. One of the kind ``LIMITED`` takes
        only such jobs, by turns of the lanes that all limits allow, judged together in the write: each taken job has a slot and
        a start of each rate, by the rules of ``_core/limits`` and ``_core/limited_claim``. ``next_due`` counts no job whose slots are
        all taken, and knows when a rate allows the next start. Active jobs count until they are moved, also those of dead workers.
        """
        ...
