"""What a history records of lanes: limits, settings of queues, and what each claim asked for and got."""

from collections.abc import Mapping
from uuid import UUID

from msgspec import Struct

from holdfast._core.job import Token
from holdfast._core.limits import Limit, Scope
from holdfast._core.requests import ClaimKind, IsolatedJobs


class LimitRow(Struct, frozen=True):
    """The limit of a scope."""

    scope: Scope
    limit: Limit


class QueueRow(Struct, frozen=True):
    """How long the turns of a queue's lanes are."""

    queue: str
    weight: int = 1
    key_weights: Mapping[str, int] = {}


class ClaimRow(Struct, frozen=True, kw_only=True):
    """A claim as the store made it. ``at``: microseconds of the store's clock.

    ``is_named``: it asked for delivered jobs only. ``is_entitled``: its lease was valid, and it might hold one more job.
    ``is_whole``: by its answer no lane was left out.
    """

    at: int
    lease: UUID
    room: int
    tasks: tuple[str, ...] = ()
    kind: ClaimKind = ClaimKind.PLAIN
    queues: tuple[str, ...] | None = None
    isolated: IsolatedJobs = IsolatedJobs.EXCLUDE
    is_named: bool = False
    is_entitled: bool = True
    is_whole: bool = True
    taken: tuple[tuple[UUID, Token], ...] = ()

    @property
    def is_short(self) -> bool:
        """Whether it could have taken more jobs."""
        return len(self.taken) < self.room
