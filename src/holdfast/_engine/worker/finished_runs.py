"""Handlers whose code has stopped, on their way from the executor to the exchange."""

from collections.abc import Iterator
from uuid import UUID

from msgspec import Struct

from holdfast._core.job import Claim, State, Token
from holdfast._core.lifecycle import Transition
from holdfast._engine.service import Signal


class FinishedRun(Struct, frozen=True):
    """A handler whose code has stopped. ``transition`` is ``None`` if it returned nothing and its job had another owner.

    ``pause``: seconds for which the worker keeps the claim before it releases it, or before it tries a locked row again.
    ``refusals``: how often the store has refused the outcome in a separate write. ``seconds``: how long the code ran, and ``waited``:
    for how long the job was due before that. ``sensitive``: the names that its task declares, whose values no log shows."""

    claim: Claim
    transition: Transition | None
    pause: float = 0.0
    refusals: int = 0
    seconds: float | None = None
    waited: float | None = None
    sensitive: frozenset[str] = frozenset()

    @property
    def key(self) -> tuple[UUID, Token]:
        """The job's id and the attempt's token."""
        return self.claim.job.id, self.claim.job.token

    @property
    def is_plain(self) -> bool:
        """Whether no job can become due by this outcome: neither this one again nor another one."""
        return self.transition is not None and self.transition.to is State.COMPLETED and not self.transition.has_flow


class FinishedRuns:
    """The queue of finished runs between the executor and the exchange, in order."""

    def __init__(self) -> None:
        self.wake = Signal()
        self._runs: list[FinishedRun] = []

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[FinishedRun]:
        return iter(self._runs)

    def add(self, run: FinishedRun) -> None:
        """Add a run, and wake the exchange."""
        self._runs.append(run)
        self.wake.set()

    def take(self) -> list[FinishedRun]:
        """Remove and return all runs."""
        runs, self._runs = self._runs, []
        return runs
