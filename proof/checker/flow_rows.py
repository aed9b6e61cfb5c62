"""What a history records of workflows, steps and signals."""

from datetime import datetime
from uuid import UUID

from msgspec import Struct

from holdfast._core.job import Reason
from holdfast._core.workflow import Edge


class FlowRow(Struct, frozen=True, kw_only=True):
    """The state of a workflow. ``edges``: of all its members; they never change."""

    is_paused: bool = False
    ended_for: Reason | None = None
    deadline_at: datetime | None = None
    edges: tuple[Edge, ...] = ()


class StepRow(Struct, frozen=True):
    """The record of a step. ``result``: ``None`` for a wait whose time was over."""

    name: str
    nth: int
    result: str | None = None


class SignalRow(Struct, frozen=True):
    """A signal that a job has not consumed. ``call``: the id of the call that sent it."""

    call: UUID
    name: str
    value: str = ""
