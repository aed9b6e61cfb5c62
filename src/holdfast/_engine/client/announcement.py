"""What follows a durable enqueue: an event for each job, and hints that wake idle workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from holdfast._engine.events import EventName
from holdfast._ports.transport import MOST_DUE, Hint

if TYPE_CHECKING:
    from holdfast._core.job import NewJob
    from holdfast._core.workflow import NewFlow
    from holdfast._engine.environment import Environment


async def announce(environment: Environment, written: Sequence[NewJob]) -> None:
    """Emit ``job.enqueued`` for these durable jobs, and wake idle workers."""
    _report(environment, written)
    await _publish(environment, written)


async def announce_dependents(environment: Environment, written: Sequence[NewJob]) -> None:
    """Emit ``job.enqueued`` for these durable jobs, and let workers look: if their parents have ended, they may start."""
    _report(environment, written)
    await environment.transport.publish([Hint(queue) for queue in dict.fromkeys([job.queue for job in written])])


async def announce_flow(environment: Environment, new: NewFlow) -> None:
    """Emit ``job.enqueued`` for the members of a durable workflow and for its root; wake workers for the members that may start."""
    _report(environment, [each.job for each in (*new.members, new.root)])
    blocked = {edge.child for edge in new.edges}
    await _publish(environment, [each.job for each in new.members if each.job.id not in blocked])


def _report(environment: Environment, written: Sequence[NewJob]) -> None:
    if (tallies := environment.events.tallies) is not None:
        tallies.enqueued(written)
    if environment.events.has_listener(EventName.JOB_ENQUEUED):
        for job in written:
            environment.events.emit(EventName.JOB_ENQUEUED, job=job.id, task=job.task, queue=job.queue)


async def _publish(environment: Environment, written: Sequence[NewJob]) -> None:
    transport = environment.transport
    await transport.publish(hints_of(written, are_delivered=transport.deliveries is not None))


def hints_of(jobs: Sequence[NewJob], *, are_delivered: bool) -> list[Hint]:
    """Return one hint for each queue that has some of these jobs.

    A transport that delivers hands each job to one worker, so its hints name the jobs, and only those that are due. Other hints name the
    jobs of a queue if all of them are due, and few: workers that rest then claim these, which costs PostgreSQL half of a look at all lanes.
    """
    if len(jobs) == 1 and (job := jobs[0]).run_at is None and job.delay <= 0:
        return [Hint(job.queue, (job.id,))]
    due: dict[str, list[UUID]] = {}
    others = set[str]()
    for job in jobs if are_delivered or len(jobs) <= MOST_DUE else ():
        if job.run_at is None and job.delay <= 0:
            due.setdefault(job.queue, []).append(job.id)
        else:
            others.add(job.queue)
    if are_delivered:
        return [Hint(queue, tuple(ids)) for queue, ids in due.items()]
    queues = dict.fromkeys([job.queue for job in jobs])
    return [Hint(queue, () if queue in others else tuple(due.get(queue, ()))) for queue in queues]
