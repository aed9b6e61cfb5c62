"""The optional part of the store port by which an operator drains one worker."""

from typing import Protocol
from uuid import UUID

from holdfast._core.audit import AuditNote


class Draining(Protocol):
    """The verb that asks a worker to drain. The answer to its next beat passes this on, in the statement of the beat."""

    async def request_drain(self, lease: UUID, *, by: AuditNote | None = None) -> bool:
        """Let a lease drain from now on, as a beat of its supervisor can do; it then ends free. Repeatable.

        ``False``, and nothing is recorded, if the lease has ended or there is none.
        """
        ...
