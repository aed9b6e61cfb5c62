"""The answers of verbs, from the rows that their statements return."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from holdfast._core.answers import Answer, Duplicate, EnqueueAnswer
from holdfast._core.encoding import failure_of, headers_in, inputs_of, rescue_of
from holdfast._core.idempotency import is_duplicate_settle
from holdfast._core.job import ActiveJob, AttemptOutcome, Claim, NewJob, Reason, State, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.member import Input
from holdfast._core.policy import Policy
from holdfast._core.record import AttemptRecord, JobRecord, SettledAttempt
from holdfast._core.recorded_outcome import RecordedOutcome
from holdfast._core.requests import ClaimRequest
from holdfast.errors import HoldfastError
from holdfast.stores.postgres import parameters as packing
from holdfast.stores.postgres.records import Row

ALL = EnqueueAnswer()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STATES = {state.value: state for state in State}
_ACTIVE = (State.CLAIMED, State.RUNNING)


class Receipt(Struct):
    """The answer that ``enqueue.sql`` keeps of a call with keys or a parent: jobs whose keys other jobs have, these, their digests."""

    is_lost: bool
    holders: list[tuple[UUID, UUID, str]]


def enqueued(found: Sequence[Any], jobs: Sequence[NewJob]) -> EnqueueAnswer:
    """Return the answer from the row of ``enqueue.sql`` or ``enqueue_plain.sql``; ``HoldfastError`` for an id that exists."""
    keyed = [job for job in jobs if job.unique_key is not None]
    ((answer, is_known, _),) = found
    if is_known:
        raise HoldfastError("enqueue: a job of that id exists already; each job needs its own id")
    if answer is None and not keyed:
        return ALL
    receipt = Receipt(False, []) if answer is None else msgspec.json.decode(answer, type=Receipt)
    if receipt.is_lost:
        return EnqueueAnswer(is_lost=True)
    if not keyed:
        return ALL
    held = {job: (holder, digest) for job, holder, digest in receipt.holders}
    firsts = packing.firsts_of(keyed)
    duplicates = {}
    for job in keyed:
        first = firsts[packing.key_of(job)]
        if first.id in held:
            holder, digest = held[first.id]
            duplicates[job.id] = Duplicate(holder, digest == packing.digest(job))
        elif first is not job:
            duplicates[job.id] = Duplicate(first.id, first.payload == job.payload)
    return EnqueueAnswer(duplicates)


def claims_of(found: Iterable[Row], request: ClaimRequest) -> tuple[Claim, ...]:
    """Return the claims from the rows of ``exchange.sql``."""
    state = State.RUNNING if request.limit > 0 else State.CLAIMED
    claim, lease, policies = request.claim, request.lease, request.tasks
    claims = []
    for row in found:
        job, number, task, queue, key, attempt, failures, crashes, checkpoint, rescue, hook, payload, priority, extra, *rest = row
        flow, inputs, ended, waited, *_ = rest
        taken = () if inputs is None else inputs_of(inputs)
        hold = ActiveJob(
            id=job,
            token=Token(claim, number),
            lease=lease,
            task=task,
            state=state,
            attempt=attempt,
            failures=failures,
            crashes=crashes,
            policy=policies[task],
            queue=queue,
            flow=flow,
        )
        body, rescued = payload or b"", None if rescue is None else rescue_of(rescue)
        claims.append(
            Claim(
                job=hold,
                payload=body,
                checkpoint=checkpoint,
                rescue=rescued,
                hook_due_at=hook,
                key=key,
                priority=priority,
                headers=headers_in(extra),
                inputs=taken,
                results=_results_of(taken, dict(ended)) if ended else (),
                waited=waited,
            )
        )
    return tuple(claims)


def _results_of(taken: Sequence[Input], ended: Mapping[UUID, bytes]) -> tuple[bytes | None, ...]:
    """Return the results that a job takes; those of its other parents are there as well."""
    return tuple([ended.get(each.parent) for each in taken])


def settled(transitions: Sequence[Transition], found: Iterable[Row], refused: Collection[int] = ()) -> tuple[Answer, ...]:
    """Return an answer for each transition, from all rows of ``exchange_answers.sql``: applied by this or an earlier settle, or not.
    ``refused``: the claim numbers of those whose precondition failed."""
    answers = [Answer.MISSING] * len(transitions)
    for row in found:
        place = row["place"] - 1
        transition = transitions[place]
        ended, left = _ended_of(transition, row), _left_of(transition, row)
        if is_duplicate_settle(transition, left, ended):
            answers[place] = Answer.APPLIED
        elif left is not None and left.state in _ACTIVE and left.token == transition.token and left.token.number not in refused:
            answers[place] = Answer.BUSY
        elif left is not None or ended is not None:
            answers[place] = Answer.LOST
    return tuple(answers)


def _ended_of(transition: Transition, row: Row) -> SettledAttempt | None:
    if row["requested_state"] is None:
        return None
    if row["outcome"] is None:
        return SettledAttempt(State(row["requested_state"]), None)
    record = AttemptRecord(
        job=transition.job,
        token=transition.token,
        attempt=0,
        worker="",
        outcome=AttemptOutcome(row["outcome"]),
        error=failure_of(row["attempt_error"]),
    )
    return SettledAttempt(State(row["requested_state"]), record)


def _left_of(transition: Transition, row: Row) -> JobRecord | None:
    """Return the job as it is now, or None if it is gone."""
    if row["state"] is None:
        return None
    return structs.replace(outcome_of(transition.job, row), failures=row["failures"], crashes=row["crashes"])


def recorded_outcome_of(row: Row) -> RecordedOutcome:
    """Return the outcome of a job from its columns in ``outcomes.sql``."""
    return RecordedOutcome(
        state=_STATES[row["state"]],
        reason=None if row["reason"] is None else Reason(row["reason"]),
        error=failure_of(row["error"]),
        result=row["result"],
        is_stub=row["is_stub"],
        inputs=inputs_of(row["inputs"]),
    )


def outcome_of(job: UUID, row: Row) -> JobRecord:
    """Return a job with its outcome; all other fields are placeholders."""
    return JobRecord(
        id=job,
        token=Token(row["claim_id"], row["claim_number"]),
        task="",
        queue="",
        priority=0,
        state=_STATES[row["state"]],
        payload=b"",
        policy=Policy(),
        attempt=0,
        failures=0,
        crashes=0,
        created_at=_EPOCH,
        available_at=_EPOCH,
        reason=None if row["reason"] is None else Reason(row["reason"]),
        error=failure_of(row["error"]),
        result=row["result"],
        cancel_requested=row["cancel_requested"],
        is_stub=row["is_stub"],
    )
