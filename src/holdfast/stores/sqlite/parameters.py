"""Packing of values into parameters: a blob of fixed records, a blob of their data, and JSON for rare or shared values.

A record is 72 bytes: job (16), claim (16), claim number (19 digits), then the start (11 digits, 0: no value) and the length
(10 digits) of the job's payload, result or checkpoint in the other blob. Numbers are digits, because SQL can read no other numbers out
of a blob.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import Struct

from holdfast._core.encoding import extra_text, failure_text
from holdfast._core.job import ALL_BUT_PAYLOAD, PLACE_OF, NewJob, Place, State, Token
from holdfast._core.lifecycle import Precondition, Transition
from holdfast._core.policy import LONGEST_HOOK_DELAY
from holdfast._core.requests import (
    AttemptNote,
    BeatNote,
    ClaimRequest,
    IsolatedJobs,
    NewLease,
    ProgressUpdate,
    QueueSettings,
    merged_notes,
)
from holdfast._core.text import json_text, storable_text
from holdfast.databases.sqlite.values import Values, micros, micros_of

_RECORD = b"%b%b%019d%011d%010d"
_UNOWNED = bytes(16)
INLINE = 512
"""Payloads up to this many bytes stay in the job's row."""
_ONLY_ID = (_RECORD % (_UNOWNED, _UNOWNED, 0, 0, 0))[16:]
"""The rest of a record that holds only the id of a job."""
_NO_TOKEN = Token(None, 0)
NO_CLAIM: Values = {
    "lease": None,
    "voids": None,
    "claim_id": None,
    "tasks": "{}",
    "running": 0,
    "room": 0,
    "ranges": None,
    "most": 0,
}
NO_CLAIM |= {"normal": True, "isolated": False}
"""The parameters of an exchange that takes no jobs."""
NO_TRANSITIONS: Values = {"items": b"", "data": b"\0", "kinds": "[]"}
"""The parameters of an exchange that settles nothing."""


class SettleKind(Struct):
    """The values that several transitions of one call share, and the positions of these among the call's records."""

    to: State
    failures: int
    crashes: int
    retention: int
    at: list[int]
    delay: int | None = None
    never_ran: bool = False
    reason: str | None = None
    error: str | None = None
    outcome: str | None = None
    signal: str | None = None
    stacks: str | None = None
    precondition: Precondition | None = None
    is_kept: bool = False
    rescued: str | None = None
    rescued_by: str | None = None
    owes_hook: bool = False
    voids: int = 0
    awaits: str | None = None
    held_for: str | None = None
    has_flow: bool = False


class EnqueueKind(Struct, omit_defaults=True):
    """The values that several new jobs of one call share, and the positions of these jobs among the call's records."""

    task: str
    queue: str
    priority: int
    delay: int
    policy: str
    at: list[int]
    run_at: int | None = None
    tags: str | None = None
    extra: str | None = None
    expires_in: int | None = None
    key: str = ""
    unique_key: str | None = None
    first: int | None = None


def records(entries: Iterable[tuple[UUID, Token, bytes | None]]) -> Values:
    """Return ``:items``, one record for each entry, and ``:data``, the bytes they point to."""
    items, data, start = [], [b"\0"], 2  # in SQLite a piece of an empty blob is NULL, of any other an empty blob
    last, claim = None, _UNOWNED
    for job, token, value in entries:
        if token.claim is not last:  # the jobs of one claim share it, and a UUID computes its bytes each time
            last, claim = token.claim, _UNOWNED if token.claim is None else token.claim.bytes
        if value is None:
            items.append(_RECORD % (job.bytes, claim, token.number, 0, 0))
        else:
            items.append(_RECORD % (job.bytes, claim, token.number, start, len(value)))
            data.append(value)
            start += len(value)
    return {"items": b"".join(items), "data": b"".join(data)}


def places(count: int) -> str:
    """Return ``:places``: the positions of all records, as JSON."""
    return msgspec.json.encode(list(range(count))).decode()


def ids(jobs: Sequence[UUID]) -> Values:
    """Return records that hold only the ids of jobs."""
    return {"items": b"".join([job.bytes + _ONLY_ID for job in jobs]), "data": b"\0", "places": places(len(jobs))}


def tokens(entries: Sequence[tuple[UUID, Token]]) -> Values:
    """Return records that hold only jobs and their tokens."""
    return {**records((job, token, None) for job, token in entries), "places": places(len(entries))}


def duplicate_positions(settles: Sequence[Transition]) -> list[int]:
    """Return the positions of transitions whose token an earlier one carries: one statement could not answer them by its result."""
    if len({settle.job for settle in settles}) == len(settles):
        return []
    seen: set[tuple[UUID, Token]] = set()
    found = []
    for place, settle in enumerate(settles):
        if (settle.job, settle.token) in seen:
            found.append(place)
        seen.add((settle.job, settle.token))
    return found


def named(settles: Sequence[Transition]) -> Values:
    """Return records that hold only the tokens of transitions."""
    return tokens([(settle.job, settle.token) for settle in settles])


def transitions(settles: Sequence[Transition]) -> Values:
    """Return records and kinds of transitions; first-try successes, nearly all of them, share one kind."""
    plain: dict[tuple[int, int, float, bool], SettleKind] = {}
    kinds: list[SettleKind] = []
    for place, settle in enumerate(settles):
        is_plain = settle.to is State.COMPLETED and settle.record is None and settle.precondition is Precondition.TOKEN
        if not is_plain or settle.error is not None or settle.reason is not None:
            kinds.append(_settling(settle, place))
            continue
        shared = (settle.failures, settle.crashes, settle.retention, settle.has_flow)
        kind = plain.get(shared)
        if kind is None:
            kept = micros(settle.retention)
            plain[shared] = SettleKind(State.COMPLETED, settle.failures, settle.crashes, kept, [place], has_flow=settle.has_flow)
        else:
            kind.at.append(place)
    packed = records([(settle.job, settle.token, settle.result) for settle in settles])
    return {**packed, "kinds": json_text([*plain.values(), *kinds])}


def jobs(news: Sequence[NewJob], under: tuple[UUID, Token] | None = None) -> Values:
    """Return records and kinds of new jobs, and the job on whose token they depend."""
    kinds: dict[tuple[object, ...], EnqueueKind] = {}
    firsts: dict[tuple[str, str], int] = {}
    last: tuple[object, ...] = ()
    kind: EnqueueKind | None = None
    for place, job in enumerate(news):
        if job.unique_key is not None:
            first = firsts.setdefault((job.task, job.unique_key), place)
            kinds[place,] = _enqueuing(job, place, first)
            continue
        shared = ALL_BUT_PAYLOAD(job)
        if kind is None or shared != last:  # equal neighbours are found by identity, without a hash of each job's values
            last, kind = shared, kinds.get(shared)
        if kind is None:
            kind = kinds[shared] = _enqueuing(job, place)
        else:
            kind.at.append(place)
    packed = records([(job.id, _NO_TOKEN, job.payload) for job in news])
    parent, token = under or (None, _NO_TOKEN)
    return {
        **packed,
        "kinds": json_text(list(kinds.values())),
        "is_plain": parent is None and not firsts,
        "parent": None if parent is None else parent.bytes,
        "parent_claim": None if token.claim is None else token.claim.bytes,
        "parent_number": token.number,
    }


def single(job: NewJob) -> Values:
    """Return the columns of one new job without a key or a parent."""
    shared = _enqueuing(job, 0)
    return {
        "id": job.id.bytes,
        "task": job.task,
        "queue": job.queue,
        "priority": job.priority,
        "delay": shared.delay,
        "run_at": shared.run_at,
        "expires_in": shared.expires_in,
        "key": shared.key,
        "tags": shared.tags,
        "extra": shared.extra,
        "policy": shared.policy,
        "payload": job.payload,
    }


def claim(request: ClaimRequest) -> Values:
    """Return the parameters of a claim, but for the jobs that it takes."""
    return {
        "lease": request.lease.bytes,
        "voids": request.voids,
        "claim_id": request.claim.bytes,
        **takes(request.isolated),
        "running": request.limit,
        "room": request.room,
    }


def claim_ids(request: ClaimRequest, ids: Iterable[bytes]) -> Values:
    """Return the parameters of a claim of the jobs with these ids."""
    return {
        **claim(request),
        "tasks": json_text(dict(request.tasks)),
        "queues": None if request.queues is None else json_text(request.queues),
        "ids": b"".join(dict.fromkeys(ids)),
        "within_limits": False,
    }


def claim_ranges(request: ClaimRequest, ranges: Sequence[tuple[str, int, str, str, int]]) -> Values:
    """Return the parameters of a claim that takes jobs from ranges: of each (task, priority, queue, key, number)."""
    return {
        **claim(request),
        "tasks": json_text({task: request.tasks[task] for task, *_ in ranges}),
        "ranges": json_text(ranges),
        "most": max((number for *_, number in ranges), default=0),
    }


def takes(isolated: IsolatedJobs) -> Values:
    """Return whether a claim takes jobs that may run beside others, and whether it takes isolated ones."""
    return {"normal": isolated is not IsolatedJobs.ONLY, "isolated": isolated is not IsolatedJobs.EXCLUDE}


def claimable(tasks: Sequence[str], queues: Sequence[str] | None, isolated: IsolatedJobs) -> Values:
    """Return the parameters that select the waiting jobs a claim would take; None as queues means all."""
    return {"tasks": json_text(tasks), "queues": None if queues is None else json_text(queues), **takes(isolated)}


def due(delay: float, run_at: datetime | None) -> Values:
    """Return the parameters of a new time for waiting jobs."""
    return {"delay": micros(delay), "run_at": micros_of(run_at)}


def queue(name: str, settings: QueueSettings | None) -> Values:
    """Return the columns of a queue; without settings, those that make it as if none had been set."""
    chosen = settings or QueueSettings()
    key_weights = None if settings is None else json_text(dict(settings.key_weights))
    return {
        "queue": name,
        "priority": chosen.priority,
        "weight": chosen.weight,
        "key_weights": key_weights,
        "origin": json_text(chosen.origin),
    }


def offer(tasks: Sequence[str], limit: int, pause: float) -> Values:
    """Return the number of hooks to try, and the pauses before the next try."""
    return {"tasks": json_text(tasks), "limit": limit, "pause": micros(pause), "longest": micros(LONGEST_HOOK_DELAY)}


def beat_notes(leases: Sequence[UUID], learnt: Sequence[BeatNote]) -> str:
    """Return notes on workers as JSON, each with the position of its lease among the records."""
    positions = {lease: place for place, lease in enumerate(leases)}
    return json_text(
        [
            {
                "place": positions[note.lease],
                "kept": micros(note.kept),
                "running": note.running,
                "claimed": note.claimed,
                "memory": note.memory,
                "loop_lag": None if note.loop_lag is None else micros(note.loop_lag),
                "silence": None if note.silence is None else micros(note.silence),
            }
            for note in learnt
            if note.lease in positions
        ]
    )


def lease(new: NewLease) -> Values:
    """Return the columns of a new lease."""
    return {
        "lease": new.id.bytes,
        "worker": new.worker,
        "process": json_text(new.process),
        "timing": json_text(new.timing),
        "ttl": micros(new.timing.ttl),
        "queues": json_text(new.queues),
        "tasks": json_text(new.tasks),
        "grace": micros(new.grace),
        "slots": new.slots,
        "is_isolated": new.is_isolated,
        "declares": json_text(new.declares),
    }


def updates(made: Sequence[ProgressUpdate]) -> Values:
    """Return records and fields of progress updates; of several for one job the latest wins, field by field."""
    latest: dict[tuple[UUID, Token], dict[str, str | float | int | None]] = {}
    checkpoints: dict[tuple[UUID, Token], bytes | None] = {}
    for update in made:
        key = (update.job, update.token)
        news = {
            "stage": storable_text(update.stage),
            "fraction": update.fraction,
            "message": storable_text(update.message),
            "points": storable_text(update.points),
            "order": update.order,
        }
        latest.setdefault(key, {}).update({name: value for name, value in news.items() if value is not None})
        checkpoints[key] = checkpoints.get(key) if update.checkpoint is None else update.checkpoint
    packed = records([(*key, checkpoint) for key, checkpoint in checkpoints.items()])
    return {**packed, "updates": json_text(list(latest.values())), "places": places(len(latest))}


def notes(learnt: Sequence[AttemptNote]) -> Values:
    """Return records and fields of notes, one for each attempt."""
    merged = merged_notes(learnt)
    packed = records([(note.job, note.token, note.late_result) for note in merged])
    texts = [
        {"error": failure_text(note.error), "stacks": storable_text(note.stacks), "is_late": note.is_late} for note in merged
    ]
    return {**packed, "notes": json_text(texts)}


def _settling(settle: Transition, place: int) -> SettleKind:
    return SettleKind(
        to=settle.to,
        failures=settle.failures,
        crashes=settle.crashes,
        retention=micros(settle.retention),
        at=[place],
        delay=None if settle.delay is None else micros(settle.delay),
        never_ran=settle.never_ran,
        reason=settle.reason,
        error=failure_text(settle.error),
        outcome=settle.record,
        signal=storable_text(settle.signal),
        stacks=storable_text(settle.stacks),
        precondition=None if settle.precondition is Precondition.TOKEN else settle.precondition,
        is_kept=settle.record is not None or PLACE_OF[settle.to] is Place.PENDING,
        rescued=settle.rescued,
        rescued_by=storable_text(settle.rescued_by),
        owes_hook=settle.owes_hook,
        voids=settle.voids,
        awaits=storable_text(settle.awaits),
        held_for=settle.held_for,
        has_flow=settle.has_flow,
    )


def _enqueuing(job: NewJob, place: int, first: int | None = None) -> EnqueueKind:
    return EnqueueKind(
        task=job.task,
        queue=job.queue,
        priority=job.priority,
        delay=micros(job.delay),
        run_at=micros_of(job.run_at),
        tags=json_text(job.tags) if job.tags else None,
        extra=extra_text(job.headers, job.uniqueness),
        policy=json_text(job.policy),
        expires_in=None if job.expires_in is None else micros(job.expires_in),
        key=storable_text(job.key) or "",
        unique_key=storable_text(job.unique_key),
        first=first,
        at=[place],
    )
