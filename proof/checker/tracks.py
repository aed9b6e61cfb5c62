"""What the checker remembers of a job, a lease and a process."""

from uuid import UUID

from msgspec import Struct, field

from holdfast._core.job import Token
from proof.checker.history import Event, JobRow, LeaseRow


class JobTrack(Struct):
    row: JobRow | None = None
    is_reopening: bool = False
    is_forgotten: bool = False
    born_at: float = -1e9
    asked_at: dict[tuple[str, Token], float] = field(default_factory=dict)
    tokens: dict[Token, UUID | None] = field(default_factory=dict)
    claimed_by: dict[Token, str] = field(default_factory=dict)
    moved: dict[Token, Event] = field(default_factory=dict)
    running: dict[Token, str] = field(default_factory=dict)
    started: set[Token] = field(default_factory=set)
    unconfirmed: set[Token] = field(default_factory=set)
    orphaned_at: float | None = None
    was_in_care: bool = False


class LeaseTrack(Struct):
    row: LeaseRow
    at: float
    renewed_at: float
    is_ended: bool = False


class ProcessTrack(Struct):
    died_at: float | None = None
    thawed_at: float = -1e9  # infinity: it is frozen
