"""The answers of writes, from the rows read afterwards."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from uuid import UUID

import msgspec
from msgspec import structs

from holdfast._core.answers import Answer, BeatAnswer, Duplicate, EnqueueAnswer, ExpiredJob, Pruned, QueueView
from holdfast._core.encoding import instant
from holdfast._core.idempotency import is_duplicate_settle
from holdfast._core.job import State
from holdfast._core.lifecycle import Transition
from holdfast._core.origin import Origin
from holdfast._core.record import JobRecord
from holdfast._core.requests import QueueSettings
from holdfast.stores.sqlite.records import Row, attempt_of, record_of, settled_attempt_of

_ATTEMPT = 14  # columns


class Receipt(msgspec.Struct):
    """The answer that ``enqueue.sql`` keeps of a call with keys or a parent."""

    is_lost: bool
    duplicates: list[tuple[str, str, bool]]


def enqueued(found: Sequence[Row]) -> EnqueueAnswer:
    """Return the answer of an enqueue call from the row of ``receipt.sql``."""
    ((answer,),) = found
    if answer is None:
        return EnqueueAnswer()
    receipt = msgspec.json.decode(answer, type=Receipt, strict=False)
    if receipt.is_lost:
        return EnqueueAnswer(is_lost=True)
    return EnqueueAnswer({UUID(job): Duplicate(UUID(holder), is_same) for job, holder, is_same in receipt.duplicates})


def settled(transitions: Sequence[Transition], found: Iterable[Row]) -> tuple[Answer, ...]:
    """Return an answer for each transition, from all rows of ``exchange_answers.sql``: applied by this or an earlier settle, or not."""
    answers = [Answer.MISSING] * len(transitions)
    for place, *columns in found:
        transition = transitions[place]
        ended = settled_attempt_of(transition.job, transition.token, tuple(columns[:3]))
        row = None if columns[3] is None else record_of(columns[10], tuple(columns[3:]))
        if is_duplicate_settle(transition, row, ended):
            answers[place] = Answer.APPLIED
        elif row is not None or ended is not None:
            answers[place] = Answer.LOST
    return tuple(answers)


def beaten(leases: Sequence[UUID], found: Iterable[Row]) -> BeatAnswer:
    """Return the answer of a beat, from all rows of ``beat_answer.sql``: one for each living lease and cancelled job."""
    marked: defaultdict[UUID, list[UUID]] = defaultdict(list)
    elapsed: dict[UUID, float | None] = {}
    draining = set[UUID]()
    for lease, since, drains, job in found:
        elapsed[UUID(bytes=lease)] = None if since is None else since / 1e6
        if drains:
            draining.add(UUID(bytes=lease))
        if job is not None:
            marked[UUID(bytes=lease)].append(UUID(bytes=job))
    return BeatAnswer(
        alive=frozenset(elapsed),
        gone=frozenset(leases).difference(elapsed),
        cancelled={lease: tuple(jobs) for lease, jobs in marked.items()},
        elapsed=max((since for since in elapsed.values() if since is not None), default=None),
        draining=frozenset(draining),
    )


def one(found: Sequence[Row]) -> JobRecord | None:
    """Return a job from all rows of ``get.sql``: one for each attempt, or one without; None without rows."""
    if not found:
        return None
    state, job, columns = found[0][0], found[0][1], found[0][1:-_ATTEMPT]
    attempts = tuple(attempt_of(job, row[-_ATTEMPT:]) for row in found if row[-_ATTEMPT] is not None)
    return structs.replace(record_of(state, columns), attempts=attempts)


def states(found: Iterable[Row]) -> dict[UUID, State]:
    """Return the state of each job, from the rows of ``states.sql``."""
    return {UUID(bytes=job): State(state) for job, state in found}


def expired(touched: Iterable[Row]) -> tuple[ExpiredJob, ...]:
    """Return the expired jobs, from the rows of ``touched.sql`` after ``expire.sql``."""
    return tuple(ExpiredJob(UUID(bytes=job), task) for _, job, task in touched)


def pruned(touched: Iterable[Row]) -> Pruned:
    """Return what was pruned, from the rows of ``touched.sql`` after ``prune.sql``."""
    number = Counter(what for what, *_ in touched)
    return Pruned(number["job"], number["stub"], number["receipt"], number["lease"], number["attempt"], number["beat"])


def queues(found: Iterable[Row]) -> tuple[QueueView, ...]:
    """Return the queues, from all rows of ``queues.sql``."""
    views: dict[str, QueueView] = {}
    for name, state, number, paused, priority, weight, key_weights, origin in found:
        if state is not None:
            views.setdefault(name, QueueView(name=name, counts={})).counts[State(state)] = number
            continue
        paused_at = None if paused is None else instant(paused)
        weights = {} if key_weights is None else msgspec.json.decode(key_weights, type=dict[str, int])
        from_whom = Origin() if origin is None else msgspec.json.decode(origin, type=Origin)
        settings = QueueSettings(priority=priority, weight=weight, key_weights=weights, origin=from_whom)
        views[name] = QueueView(name=name, paused_at=paused_at, counts={}, settings=settings)
    return tuple(views.values())
