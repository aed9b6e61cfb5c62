"""How workers learn that work has come. It may deliver; only the store owns: whatever it drops, repeats, reorders or
delays, polling runs underneath."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID

from msgspec import Struct

from holdfast._core.answers import DueJob


class Hint(Struct, frozen=True, omit_defaults=True):
    """Ids only: jobs of this queue may be due, or these jobs changed. Without a queue it is meant for everybody.

    With a queue and ids these jobs are due now; ``rescued`` then says why they were taken from the worker that had them.
    """

    queue: str = ""
    ids: tuple[UUID, ...] = ()
    rescued: str = ""


class ClaimSource(StrEnum):
    """What led to a claim: the worker's own look, a message of whoever enqueued or rescued the job, a message that an
    earlier receiver did not acknowledge in time, or one of a supervisor that found the job waiting."""

    POLL = "poll"
    DELIVERY = "delivery"
    REDELIVERY = "redelivery"
    SWEEP = "sweep"


class Delivery(Struct, frozen=True):
    """A job that was handed to this worker to claim. ``receipt``: how its transport knows the message again."""

    job: UUID
    queue: str
    via: ClaimSource
    rescued: str = ""
    receipt: Any = None


class Deliveries(Protocol):
    """Hints that are kept and handed each to one worker, until one acknowledges it. No method ever raises."""

    @property
    def acks_on_finish(self) -> bool:
        """Whether a message is acknowledged when its job has ended, and not already when it has been claimed."""
        ...

    async def fetch(self, queues: Sequence[str] | None, most: int) -> Sequence[Delivery]:
        """Ask for ``most`` jobs of these queues (``None``: of all) and wait a few seconds for the first; then all that came,
        also what was asked for before. 0: only what has come."""
        ...

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """These need not come again. One that is lost on the way lets them come again."""
        ...

    async def is_drained(self, queues: Sequence[str] | None) -> bool:
        """Whether nothing waits to be handed out; ``False`` also if there is nobody to hand it to, or no telling."""
        ...

    async def republish(self, jobs: Sequence[DueJob]) -> None:
        """Publish these jobs for whom nobody came; several tellers of one wait of a job count as one."""
        ...


class Transport(Protocol):
    """Carries hints between processes; never owns anything and never raises into its caller."""

    @property
    def deliveries(self) -> Deliveries | None:
        """Those that are kept until acknowledged; ``None`` where hints merely wake whoever is idle."""
        ...

    async def publish(self, hints: Sequence[Hint]) -> None:
        """Tell listeners, as well as it goes; returns soon, whether or not anybody heard it."""
        ...

    async def subscribe(self, wake: Callable[[Hint], None]) -> None:
        """From now on call ``wake`` in the running loop for each hint that is not delivered but wakes."""
        ...

    async def close(self) -> None:
        """Stop listening and leave nothing behind."""
        ...
