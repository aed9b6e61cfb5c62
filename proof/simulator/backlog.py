"""A backlog: jobs that wait from the start of a world, enough to make later jobs wait for long."""

import random
from collections.abc import Collection, Mapping
from uuid import UUID

from holdfast._core.book.content import Snapshot
from holdfast._core.job import NewJob, State
from holdfast._engine.tasks.registry import TaskDefinition
from holdfast._system.clock import compose_uuid7
from proof.stores.statement_recorder import Seen

SLOW = ("silent", "long")  # tasks that keep their slots, so that a backlog stays one


def backlog(size: int, numbers: random.Random, known: Mapping[str, TaskDefinition], millis: int) -> list[NewJob]:
    """Return the jobs of the backlog, enqueued at that time on the wall clock."""
    return [
        NewJob(
            id=compose_uuid7(millis, 1 << 62 | number << 32 | numbers.getrandbits(32)),
            task=task.name,
            payload=b"{}",
            policy=task.policy,
            queue=task.queue,
        )
        for number, task in enumerate(known[numbers.choice(SLOW)] for _ in range(size))
    ]


def left_of(jobs: Collection[UUID], known: Snapshot | Seen) -> list[UUID]:
    """Return the jobs that still wait."""
    return [job for job in jobs if job in known.jobs and known.jobs[job].state is State.AVAILABLE]
