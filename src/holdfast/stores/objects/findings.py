"""What a check reports about a store in a bucket: its size, its objects, the clock, its leader, and what its writes cost."""

from collections.abc import Iterator
from datetime import datetime

from holdfast._core.answers import Check
from holdfast.stores.objects.election import LEADER_TTL
from holdfast.stores.objects.head import Head
from holdfast.stores.objects.limits import MANY_JOBS, MANY_RUN_BYTES, Limits

MOST_OFFSET = 5.0
"""The seconds by which this machine's clock may differ from the bucket's."""
DOLLARS_PER_WRITE = 5e-6
_FEWEST_COMMITS = 5
_MONTH = 30 * 24 * 60
_MIB = 1024 * 1024


def findings_of(head: Head, jobs: int, limits: Limits, *, now: datetime, bucket_now: datetime) -> Iterator[Check]:
    """Return what is right and wrong with a store. ``jobs``: those that are not archived. ``bucket_now``: the bucket's clock when this
    machine's showed ``now``."""
    yield _size(jobs, limits)
    yield _objects(head, limits)
    yield _clock((now - bucket_now).total_seconds())
    if head.epoch:
        yield _leader(head, bucket_now)
    if (rate := writes_per_minute(head, now)) is not None:
        dollars = rate * _MONTH * DOLLARS_PER_WRITE
        price = f"about ${dollars:.2f} a month at $5 per million; reads and refused writes cost more"
        yield Check("ok", "writes", f"{rate:.1f} writes of the head per minute, by its last {_newest(head)}: {price}")


def writes_per_minute(head: Head, now: datetime) -> float | None:
    """Return how often the head is written at present; ``None`` if it shows too few writes to tell."""
    if (commits := _newest(head)) < _FEWEST_COMMITS:
        return None
    seconds = (now - head.tail[0].at).total_seconds()
    return 60 * commits / seconds if seconds > 0 else None


def _newest(head: Head) -> int:
    """Return how many commits there were since the first one of the tail, which those without changes have left."""
    return head.version - head.tail[0].version + 1 if head.tail else 0


def _size(jobs: int, limits: Limits) -> Check:
    if jobs <= MANY_JOBS:
        return Check("ok", "size", f"{jobs} jobs that are not archived; the store takes up to {limits.jobs:,}")
    remedy = "keep fewer jobs waiting, or use a PostgreSQL store"
    if (excess := limits.excess_of_jobs(jobs + 1)) is not None:
        return Check(
            "error", "size", f"{jobs} jobs: the store takes no new ones, because it would have {excess.problem}", excess.remedy
        )
    shown = f"{jobs} jobs, and every process that opens the store keeps all of them in memory; it takes up to {limits.jobs:,}"
    return Check("warning", "size", shown, remedy)


def _objects(head: Head, limits: Limits) -> Check:
    size = head.run_size
    shown = (
        f"{len(head.tail)} writes of {head.tail_size / 1024:.0f} KiB in the head, {len(head.runs)} runs of {size / _MIB:.1f} MiB"
    )
    if (excess := limits.excess_of_runs(size)) is not None:
        return Check("error", "objects", f"the store takes no new jobs, because it has {excess.problem}", excess.remedy)
    if size <= MANY_RUN_BYTES:
        return Check("ok", "objects", shown)
    remedy = "keep payloads and results small, shorten the retention of tasks, or use a PostgreSQL store"
    return Check("warning", "objects", f"{shown}: every process reads all of it when it starts", remedy)


def _clock(ahead: float) -> Check:
    if abs(ahead) <= MOST_OFFSET:
        return Check("ok", "clock", "this machine's clock and the bucket's agree")
    message = f"this machine's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the bucket's"
    remedy = "set it by NTP: jobs start too early or too late by as much, and finished ones are forgotten so"
    return Check("warning", "clock", message, remedy)


def _leader(head: Head, bucket_now: datetime) -> Check:
    if head.broker is None:
        return Check("ok", "leader", f"no broker leads since epoch {head.epoch}: processes write to the bucket themselves")
    shown = f"the broker at {head.broker.url}, release {head.broker.release}, leads in epoch {head.epoch}"
    age = max(0.0, (bucket_now - head.tail[-1].at).total_seconds())
    if age <= LEADER_TTL + MOST_OFFSET:
        return Check("ok", "leader", f"{shown}, and wrote {age:.0f} s ago")
    remedy = "see the log of that broker, and start it, or another one, on this bucket"
    return Check("warning", "leader", f"{shown}, and has written nothing for {age:.0f} s", remedy)
