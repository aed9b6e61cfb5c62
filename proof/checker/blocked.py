"""Jobs that a worker has claimed ahead are soon with other workers when its event loop is blocked."""

from uuid import UUID

from msgspec import Struct

from holdfast._core.job import State
from proof.checker.history import IN_CARE, Event, JobRow, LeaseRow
from proof.checker.verdicts import CheckContext, Seers

NEVER = float("inf")


class _Claimed(Struct, frozen=True):
    """A claimed job whose code has not begun: its worker's process, and since when."""

    process: str
    since: float


class Blocked:
    """L16. Only the time after all faults counts, or only workers of a healthy core: else the supervisor may be gone."""

    def __init__(self, context: CheckContext) -> None:
        self._context, self._expect = context, context.expect
        self._processes: dict[UUID, str] = {}
        self._claimed: dict[UUID, _Claimed] = {}
        self._blocked: dict[str, tuple[float, float]] = {}
        self._cared = set[str]()
        self._calm_since = 0.0 if context.rules.is_always_calm else NEVER

    def seers(self) -> Seers:
        """Return the events that these rules read; none where no jobs are claimed ahead."""
        if self._context.rules.void_bound is None:
            return {}
        seen: Seers = {"lease": self._see_lease, "job": self._see_job, "loop.blocked": self._see_block}
        seen |= {"worker.ready": self._see_ready}
        return seen | {"process.end": self._see_death, "calm": self._see_calm}

    def finish(self) -> None:
        """Check the jobs that are claimed at the end."""
        for job in list(self._claimed):
            self._expect_returned(job)

    def _see_calm(self, event: Event) -> None:
        self._calm_since = min(self._calm_since, event.time)

    def _see_ready(self, event: Event) -> None:
        if event.note == IN_CARE:
            self._cared.add(event.process)

    def _see_lease(self, event: Event) -> None:
        if event.lease is not None and isinstance(event.after, LeaseRow):
            self._processes[event.lease] = event.after.process

    def _see_job(self, event: Event) -> None:
        assert event.job is not None
        row = event.after
        is_claimed = isinstance(row, JobRow) and row.state is State.CLAIMED
        if event.job in self._claimed and not is_claimed:
            self._expect_returned(event.job)
            del self._claimed[event.job]
        elif event.job not in self._claimed and isinstance(row, JobRow) and is_claimed and row.lease in self._processes:
            self._claimed[event.job] = _Claimed(self._processes[row.lease], event.time)

    def _see_block(self, event: Event) -> None:
        for job, claimed in self._claimed.items():
            if claimed.process == event.process:
                self._expect_returned(job)
        self._blocked[event.process] = event.time, event.time + float(event.note)

    def _see_death(self, event: Event) -> None:
        if event.process in self._blocked:
            since, until = self._blocked[event.process]
            self._blocked[event.process] = since, min(until, event.time)

    def _expect_returned(self, job: UUID) -> None:
        bound, claimed = self._context.rules.void_bound or 0.0, self._claimed[job]
        since, until = self._blocked.get(claimed.process, (0.0, 0.0))
        is_left = self._context.rules.is_always_calm and claimed.process not in self._cared
        if is_left or claimed.process in self._context.apps:  # no supervisor looks after its event loop
            return
        took = min(until, self._context.now) - max(since, claimed.since, self._calm_since)
        self._expect("L16", took <= bound, job, "it was claimed by {}, which was blocked for {:.2f} s", claimed.process, took)
