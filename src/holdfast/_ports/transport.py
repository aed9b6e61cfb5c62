"""The port to transports, by which workers learn that work has come.

A transport may deliver jobs, but only the store owns them. It may drop, repeat, reorder or delay any hint, because workers
also poll the store.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID

from msgspec import Struct

from holdfast._core.answers import DueJob

MOST_DUE = 8
"""The most jobs of a queue that a hint names as due. Of more, a claim that looks at all lanes is the better one."""


class Hint(Struct, frozen=True, omit_defaults=True):
    """A hint that jobs of this queue may be due, or that these jobs changed; it carries ids only.

    Without a queue it is meant for every worker. With a queue and ids, these jobs are due now; ``rescued`` is then the reason
    why they were taken from the worker that had them.
    """

    queue: str = ""
    ids: tuple[UUID, ...] = ()
    rescued: str = ""


class ClaimSource(StrEnum):
    """What led to a claim.

    ``POLL``: the worker's own poll. ``DELIVERY``: a message sent when the job was enqueued or rescued. ``REDELIVERY``: a
    message that an earlier receiver did not acknowledge in time. ``SWEEP``: a message of a supervisor that found the job waiting.
    """

    POLL = "poll"
    DELIVERY = "delivery"
    REDELIVERY = "redelivery"
    SWEEP = "sweep"


class Delivery(Struct, frozen=True):
    """A job that was handed to this worker to claim. ``receipt``: what its transport acknowledges the message by."""

    job: UUID
    queue: str
    via: ClaimSource
    rescued: str = ""
    receipt: Any = None


class Deliveries(Protocol):
    """Hints that are kept, each handed to one worker at a time until a worker acknowledges it. No method ever raises."""

    @property
    def acks_on_finish(self) -> bool:
        """Whether a message is acknowledged only when its job has ended, not already when the job has been claimed."""
        ...

    async def fetch(self, queues: Sequence[str] | None, most: int) -> Sequence[Delivery]:
        """Ask for ``most`` jobs of these queues (``None``: of all), wait a few seconds for the first, and return all that came.

        That includes jobs that an earlier call asked for. With 0, return only what has already come.
        """
        ...

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge deliveries, so that they do not come again; if an acknowledgement is lost, its delivery comes again."""
        ...

    async def is_drained(self, queues: Sequence[str] | None) -> bool:
        """Return whether no message waits to be delivered; ``False`` also if no worker has subscribed yet, or it is unknown."""
        ...

    async def problem(self) -> str:
        """Return why no message can be delivered, with the remedy; empty if messages can, or if it is unknown."""
        ...

    async def republish(self, jobs: Sequence[DueJob]) -> None:
        """Publish again jobs that no worker has claimed; messages of several supervisors about one wait of a job count as one."""
        ...


class Transport(Protocol):
    """Carries hints between processes; never owns anything and never raises into its caller."""

    @property
    def deliveries(self) -> Deliveries | None:
        """The hints that are kept until acknowledged; ``None`` where hints only wake idle workers."""
        ...

    async def publish(self, hints: Sequence[Hint]) -> None:
        """Send the hints to listeners, without a guarantee; return soon, whether or not any worker received them."""
        ...

    async def subscribe(self, wake: Callable[[Hint], None]) -> None:
        """Call ``wake`` in the running loop, from now on, for each hint that is not kept as a delivery."""
        ...

    async def close(self) -> None:
        """Stop listening and close all connections."""
        ...
