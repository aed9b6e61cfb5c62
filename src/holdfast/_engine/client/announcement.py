"""What follows a durable enqueue: an event for each job, and hints that wake idle workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from holdfast._engine.events import EventName
from holdfast._ports.transport import Hint

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
    await environment.transport.publish(hints_of(written, are_delivered=False))


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


def hints_of(jobs: Iterable[NewJob], *, are_delivered: bool) -> list[Hint]:
    """Return one hint for each queue that has some of these jobs.

    A transport that delivers hands each job to one worker, so its hints name the jobs, and only those that are due.
    """
    if not are_delivered:
        return [Hint(queue) for queue in dict.fromkeys([job.queue for job in jobs])]
    due: dict[str, list[UUID]] = {}
    for job in jobs:
        if job.run_at is None and job.delay <= 0:
            due.setdefault(job.queue, []).append(job.id)
    return [Hint(queue, tuple(ids)) for queue, ids in due.items()]
