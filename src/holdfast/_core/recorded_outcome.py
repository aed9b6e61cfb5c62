"""What is recorded of the end of a job, as far as the jobs that take its result are concerned."""

from uuid import UUID

from msgspec import Struct

from holdfast._core.job import Failure, Reason, State
from holdfast._core.member import Input


class RecordedOutcome(Struct, frozen=True):
    """The outcome in a job's row. ``inputs``: those of a gate that has completed, which name the jobs whose results are its own."""

    state: State
    reason: Reason | None = None
    error: Failure | None = None
    result: bytes | None = None
    is_stub: bool = False
    inputs: tuple[Input, ...] = ()

    @property
    def is_list(self) -> bool:
        """Whether the result is the list of the results of items."""
        return not self.is_stub and any(each.is_each for each in self.inputs)

    @property
    def source(self) -> UUID | None:
        """The job whose result is that of this one, if it is another."""
        return self.inputs[0].parent if self.inputs and not (self.is_list or self.is_stub) else None
