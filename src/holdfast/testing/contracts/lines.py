"""Ranges: what a claim leaves out hides nothing that it may take, neither in its range nor in those behind it."""

from datetime import UTC, datetime
from uuid import UUID

from holdfast._core.requests import IsolatedJobs
from holdfast.testing.contracts.isolating import with_last_try
from holdfast.testing.contracts.scene import Part, Scene, story

TASK = "last"  # that of with_last_try
ROOM, EVER = 3, 1e6
URGENT, PLAIN, PATIENT = LINES = (-1, 0, 1)
LONG_AGO = datetime(1970, 1, 2, tzinfo=UTC)
CROWDS = ("due later", "expired", "running", "of another task", "in another queue", "last tries")


async def crowd(at: Scene, kind: str) -> None:
    """Make jobs that wait, or waited, longer than others in the two most urgent ranges, and that no claim here may take."""
    for priority in (URGENT, PLAIN) * ROOM:
        if kind == "last tries":
            await with_last_try(at, priority=priority)
            continue
        task, queue = "other" if "task" in kind else TASK, "other" if "queue" in kind else "default"
        delay, expires_in = EVER if kind == "due later" else 0.0, 1.0 if kind == "expired" else None
        await at.enqueue(at.new(task=task, queue=queue, priority=priority, delay=delay, expires_in=expires_in))
    if kind == "running":
        assert len(await at.claim(await at.lease(), 2 * ROOM, tasks=[TASK])) == 2 * ROOM
    at.advance(2.0)


async def claims_them_all(at: Scene, lines: dict[int, list[UUID]], isolated: IsolatedJobs = IsolatedJobs.EXCLUDE) -> None:
    """Claim them in their order, with a limit that ends within a range, at its end and behind it."""
    await at.enqueue(at.new(task=TASK, priority=URGENT, delay=EVER))  # so that this range is always looked at first
    urgent, plain, patient = (lines[priority] for priority in LINES)
    lease, first = await at.lease(), ROOM - 1
    for limit, expected in (
        (first, urgent[:first]),
        (ROOM, [*urgent[first:], *plain[:first]]),
        (ROOM, [*plain[first:], *patient[:first]]),
    ):
        claims = await at.claim(lease, limit, tasks=[TASK], queues=("default",), isolated=isolated)
        assert [claim.job.id for claim in claims] == expected


class LineContract(Part):
    """What a waiting job is promised, with any others before it."""

    @story
    async def test_jobs_that_are_left_out_hide_no_other(self, at: Scene) -> None:
        for kind in CROWDS:
            await crowd(at, kind)
            lines = {}
            for priority in LINES:
                jobs = [at.new(task=TASK, priority=priority, expires_in=EVER if place else None) for place in range(ROOM)]
                lines[priority] = list(await at.enqueue(*jobs))
            await claims_them_all(at, lines)
            await at.store.delete([row.id for row in await at.store.list(at.everything)])

    @story
    async def test_jobs_that_are_left_out_hide_no_isolated_attempt(self, at: Scene) -> None:
        for expires_in in (None, EVER):
            lines = {priority: [(await with_last_try(at, priority=priority)).id for _ in range(ROOM)] for priority in LINES}
            for priority in (URGENT, PLAIN) * ROOM:
                (job,) = await at.enqueue(at.new(task=TASK, priority=priority, expires_in=expires_in))
                await at.store.reschedule([job], run_at=LONG_AGO)
            await claims_them_all(at, lines, IsolatedJobs.ONLY)
            await at.store.delete([row.id for row in await at.store.list(at.everything)])

    @story
    async def test_jobs_of_one_queue_hide_none_of_another(self, at: Scene) -> None:
        _, first, second = await at.enqueue(
            at.new(queue="a", priority=9), at.new(queue="b", priority=URGENT), at.new(queue="b", priority=PLAIN)
        )
        assert [claim.job.id for claim in await at.claim(await at.lease(), 2)] == [first, second]
