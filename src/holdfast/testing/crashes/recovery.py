"""How a job that was hurt ended, and whether that is a recovery."""

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct

from holdfast._core.job import AttemptOutcome, State
from holdfast._core.view import AttemptView, JobView
from holdfast.testing.crashes.plan import Entry


class Recovery(Struct, frozen=True, kw_only=True):
    """A job whose worker was killed or frozen, and how the job is now.

    ``seconds``: from the kill, or the freeze, until the job's code ran again or, if it did not, until the interrupted attempt had ended.

    ``reached``: every point that was reached, in order, by all attempts together.

    >>> recovery = crash_at("after charge", charge.bind(order=7))  # doctest: +SKIP
    >>> recovery.job.result, recovery.seconds, recovery.count("charged")  # doctest: +SKIP
    ({'paid': 12}, 0.03, 1)
    """

    job: JobView
    seconds: float
    reached: tuple[str, ...]

    def count(self, point: str) -> int:
        """Count how often a point was reached. Put a point where something happens that must happen only once."""
        return self.reached.count(point)

    @classmethod
    def of(cls, job: JobView, struck: Entry, entries: Sequence[Entry]) -> "Recovery":
        """Make the recovery from the job's record in the store and the journal of points."""
        record = _cut_short(job)[0]
        again = job.started_at if job.attempt > record.attempt else record.ended_at
        seconds = (again or record.ended_at or job.created_at).timestamp() - struck.time
        return cls(job=job, seconds=max(0.0, seconds), reached=tuple(entry.point for entry in entries))


def problems_of(job: JobView, ends: State) -> list[str]:
    """List the reasons why this is not a recovery."""
    found = []
    if job.state is not ends:
        error = "" if job.error is None else f": {job.error.type}: {job.error.message}"
        reason = "" if job.reason is None else f" ({job.reason})"
        found.append(f"it is {job.state}{reason}, not {ends}{error}")
    cut = _cut_short(job)
    if not cut:
        found.append("no attempt was cut short: its worker gave it up before, for which a longer ttl gives less reason")
    elif len(cut) > 1:
        found.append(f"{len(cut)} attempts were cut short, not 1")
    after = job.attempt - cut[0].attempt if cut else 0
    if after > 1 or (after < 1 and ends is State.COMPLETED):
        found.append(f"{after} attempts followed, not 1")
    return found


def has_failed_again(job: JobView) -> bool:
    """Return whether an attempt after the interrupted one has failed, so that it did not recover at once."""
    cut = _cut_short(job)
    return any(record.outcome is AttemptOutcome.FAILED and record.attempt > cut[0].attempt for record in job.attempts if cut)


def story_of(job: JobView, entries: Sequence[Entry]) -> str:
    """Describe what happened, line by line."""
    steps = [(entry.time, f"{_by(entry)} reached {entry.point!r}{_blow(entry)}") for entry in entries]
    for record in job.attempts:
        error = "" if record.error is None else f": {record.error.type}: {record.error.message}"
        steps.append((_seconds(record.ended_at), f"attempt {record.attempt} {record.outcome}{error}"))
    if job.finished_at is not None:
        steps.append((_seconds(job.finished_at), f"the job {job.state} with attempt {job.attempt}"))
    else:
        steps.append((max([_seconds(job.available_at), *(time for time, _ in steps)]), f"the job is {job.state}"))
    began = job.created_at.timestamp()
    return "\n".join(f"  {time - began:6.3f} s  {text}" for time, text in sorted(steps, key=lambda each: each[0]))


def _cut_short(job: JobView) -> list[AttemptView]:
    return [record for record in job.attempts if record.outcome is AttemptOutcome.CRASHED]


def _by(entry: Entry) -> str:
    return f"process {entry.pid}" if entry.attempt is None else f"attempt {entry.attempt} (process {entry.pid})"


def _blow(entry: Entry) -> str:
    return "" if entry.blow is None else f", and was {entry.blow}"


def _seconds(time: datetime | None) -> float:
    return (time or datetime.max.replace(tzinfo=UTC)).timestamp()
