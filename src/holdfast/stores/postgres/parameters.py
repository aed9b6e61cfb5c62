"""Packing of values into parameters: arrays of columns for plain values, JSON for rare or shared ones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import groupby
from typing import Any, TypeVar
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.encoding import extra_text, failure_text
from holdfast._core.job import ALL_BUT_PAYLOAD, PLACE_OF, NewJob, Place, State, Token
from holdfast._core.lifecycle import Precondition, Transition
from holdfast._core.policy import Policy
from holdfast._core.requests import AttemptNote, ClaimRequest, IsolatedJobs, ProgressUpdate, QueueSettings, merged_notes
from holdfast._core.text import json_text, storable_text
from holdfast.stores.postgres.enqueue_json import Enqueue, EnqueueKind, KeyRequest, LongPayload

INLINE = 512  # payloads up to this long stay in the job's row

Key = tuple[str, str]
Item = TypeVar("Item")
_COMPLETED, _TOKEN = State.COMPLETED, Precondition.TOKEN


class SettleKind(Struct, omit_defaults=True):
    """The values of a transition that is not a first-try success."""

    requested_state: str
    is_end: bool
    is_kept: bool
    new_failures: int
    new_crashes: int
    never_ran: bool
    owes_hook: bool
    precondition: str
    delay: float | None = None
    reason: str | None = None
    new_error: str | None = None
    outcome: str | None = None
    signal: str | None = None
    stacks: str | None = None
    rescued: str | None = None
    rescued_by: str | None = None
    voids: int = 0
    awaits: str | None = None
    held_for: str | None = None
    forgets_steps: bool = False


_PLAIN = json_text(
    SettleKind(
        "completed",
        is_end=True,
        is_kept=False,
        new_failures=0,
        new_crashes=0,
        never_ran=False,
        owes_hook=False,
        precondition="token",
    )
)


def enqueue(
    call: UUID,
    jobs: Sequence[NewJob],
    under: tuple[UUID, Token] | None = None,
    *,
    is_durable: bool = False,
    is_known: bool = False,
    flow: UUID | None = None,
    blocked: frozenset[UUID] = frozenset(),
) -> tuple[str, str]:
    """Return a query and its parameter. ``is_durable``: it raises ``synchronous_commit``. ``is_known``: the ids may exist already.
    ``flow``: the workflow to which the jobs belong; ``blocked``: those of them that wait for others."""
    kinds: dict[tuple[object, ...], EnqueueKind] = {}
    payloads: list[LongPayload] = []
    keyed = [job for job in jobs if job.unique_key is not None]
    firsts = firsts_of(keyed)
    ours = [job for job in jobs if job.unique_key is None or firsts[key_of(job)] is job] if keyed else jobs
    # Equal neighbours are found by identity, without a hash of each job's values: a quarter of the time for a thousand alike.
    for shared, alike in groupby(ours, (lambda job: (*ALL_BUT_PAYLOAD(job), job.id in blocked)) if blocked else ALL_BUT_PAYLOAD):
        some = list(alike)
        kind = kinds.get(shared)
        if kind is None:
            kind = kinds[shared] = _enqueuing(some[0])
            kind.state = State.BLOCKED.value if some[0].id in blocked else None
        texts = _inline_texts([job.payload for job in some])
        payloads += [_long_payload(some[place]) for place, text in enumerate(texts) if text is None]
        kind.ids += [job.id for job in some]
        kind.payloads += texts
    asked = Enqueue(call, list(kinds.values()), payloads, is_durable, flow=flow)
    if not keyed and under is None and not is_known:
        return "enqueue_plain", json_text(asked)
    asked.keys = [_key_request(*key, job) for key, job in sorted(firsts.items())]
    asked.is_refused = any(job.payload != firsts[key_of(job)].payload for job in keyed)
    if under is not None:
        asked.parent, asked.parent_claim, asked.parent_number = under[0], under[1].claim, under[1].number
    return "enqueue", json_text(asked)


def _key_request(task: str, key: str, job: NewJob) -> KeyRequest:
    return KeyRequest(task, key, job.id, digest(job), job.uniqueness.seconds, job.uniqueness.until_started)


def is_single(jobs: Sequence[NewJob]) -> bool:
    """Return whether the call has one job, which ``enqueue_one.sql`` can insert."""
    return len(jobs) == 1 and jobs[0].unique_key is None and len(jobs[0].payload) <= INLINE


def enqueue_one(call: UUID, job: NewJob) -> tuple[Any, ...]:
    """Return the parameters of ``enqueue_one.sql``."""
    where, when = (job.task, job.queue, storable_text(job.key), job.priority), (job.run_at, job.delay, job.expires_in)
    few = json_text(job.tags) if job.tags else None, extra_text(job.headers, job.uniqueness)
    return (call, job.id, *where, *when, *few, json_text(job.policy), job.payload)


def firsts_of(jobs: Iterable[NewJob]) -> dict[Key, NewJob]:
    """Return the first job of each unique key."""
    firsts: dict[Key, NewJob] = {}
    for job in jobs:
        firsts.setdefault(key_of(job), job)
    return firsts


def key_of(job: NewJob) -> Key:
    """Return the task and the unique key of a job, as stored."""
    return job.task, storable_text(job.unique_key) or ""


def digest(job: NewJob) -> str:
    """Return the digest by which the payloads of two jobs are compared."""
    return sha256(job.payload).hexdigest()


def duplicate_positions(settles: Sequence[Transition]) -> list[int]:
    """Return the positions of transitions whose claim number an earlier one carries. One statement could not answer a repeated token by
    the result of the first; and a store that lost its newest writes may have issued a number twice."""
    if len({settle.token.number for settle in settles}) == len(settles):
        return []
    seen, found = set[int](), list[int]()
    for place, settle in enumerate(settles):
        if settle.token.number in seen:
            found.append(place)
        seen.add(settle.token.number)
    return found


def split(settles: Sequence[Transition]) -> tuple[list[Transition], list[Transition]]:
    """Split transitions into first-try successes, which nearly all are, and the others."""
    plain, rare = list[Transition](), list[Transition]()
    for settle in settles:
        (plain if _is_plain(settle) else rare).append(settle)
    return plain, rare


def settling(settles: Sequence[Transition]) -> tuple[Any, ...]:
    """Return the columns of transitions, in the order of claim numbers.

    A value that is the same for all is sent once: encoding each value of an array costs the driver more than all else here.
    """
    ordered = sorted(settles, key=_number_of)
    return (
        [settle.job for settle in ordered],
        _once([settle.token.claim for settle in ordered]),
        [settle.token.number for settle in ordered],
        _once([settle.result for settle in ordered]),
        _once([settle.retention for settle in ordered]),
    )


def _once(values: list[Any]) -> list[Any]:
    return values[:1] if values and values.count(values[0]) == len(values) else values


def rare_kinds(settles: Sequence[Transition]) -> list[str]:
    """Return the other values of each transition, as JSON, in the order of claim numbers."""
    return [_PLAIN if _is_plain(settle) else _settling(settle) for settle in sorted(settles, key=_number_of)]


def claiming(request: ClaimRequest, *, is_isolated: bool = False) -> tuple[Any, ...]:
    """Return the parameters of a claim in ``exchange.sql``, except those of its position."""
    return (
        request.lease,
        request.claim,
        request.limit > 0,
        request.limit or request.prefetch,
        *_known(request.tasks),
        *takes(request.isolated),
        is_isolated,
        request.voids,
    )


def takes(isolated: IsolatedJobs) -> tuple[bool, bool]:
    """Return whether a claim takes jobs that may run beside others, and whether it takes isolated ones."""
    return isolated is not IsolatedJobs.ONLY, isolated is not IsolatedJobs.EXCLUDE


def queue_settings(queue: str, settings: QueueSettings | None) -> tuple[str | None, int, int, str | None, str | None]:
    """Return the parameters of ``set_queue.sql``."""
    if settings is None:
        return storable_text(queue), 0, 1, None, None
    weights = {storable_text(key): weight for key, weight in settings.key_weights.items()}
    return storable_text(queue), settings.priority, settings.weight, json_text(weights), json_text(settings.origin)


def apart(items: Iterable[Item], number_of: Callable[[Item], int]) -> list[list[Item]]:
    """Sort items by claim number into lists that have each number at most once; nearly always one list is enough."""
    lists: list[list[Item]] = []
    for item in sorted(items, key=number_of):
        for one in lists:
            if number_of(one[-1]) < number_of(item):
                one.append(item)
                break
        else:
            lists.append([item])
    return lists


def starts(asked: Iterable[tuple[UUID, Token]]) -> list[tuple[Any, ...]]:
    """Return the columns of ``start.sql``, for each statement that is needed."""
    return [tokens(entries) for entries in apart(set(asked), lambda entry: entry[1].number)]


def tokens(entries: Iterable[tuple[UUID, Token]]) -> tuple[list[UUID], list[UUID | None], list[int]]:
    """Return three query parameters: the arrays of the jobs, of their claim ids, and of their claim numbers."""
    pairs = list(entries)
    return [job for job, _ in pairs], [token.claim for _, token in pairs], [token.number for _, token in pairs]


def reports(made: Sequence[ProgressUpdate]) -> list[tuple[Any, ...]]:
    """Return the arrays of progress updates; of several updates for one job the latest wins, field by field."""
    latest: dict[tuple[UUID, Token], ProgressUpdate] = {}
    for update in made:
        old = latest.get((update.job, update.token), update)
        news = {name: value for name, value in structs.asdict(update).items() if value is not None}
        latest[update.job, update.token] = structs.replace(old, **news)
    return [
        (
            *tokens((update.job, update.token) for update in updates),
            [storable_text(update.stage) for update in updates],
            [update.fraction for update in updates],
            [storable_text(update.message) for update in updates],
            [update.checkpoint for update in updates],
            [update.order for update in updates],
            [storable_text(update.points) for update in updates],
        )
        for updates in apart(latest.values(), lambda update: update.token.number)
    ]


def notes(learnt: Sequence[AttemptNote]) -> list[tuple[Any, ...]]:
    """Return the parameters of ``annotate.sql``, for each statement that is needed."""
    return [
        (
            *tokens((note.job, note.token) for note in merged),
            [note.late_result for note in merged],
            [failure_text(note.error) for note in merged],
            [storable_text(note.stacks) for note in merged],
        )
        for merged in apart(merged_notes(learnt), lambda note: note.token.number)
    ]


def _is_plain(settle: Transition) -> bool:
    is_success = settle.to is _COMPLETED and settle.record is None and settle.precondition is _TOKEN
    return is_success and not (settle.failures or settle.crashes or settle.forgets_steps) and settle.rescued is None


def _number_of(settle: Transition) -> int:
    return settle.token.number


def _settling(settle: Transition) -> str:
    return json_text(
        SettleKind(
            requested_state=settle.to,
            is_end=PLACE_OF[settle.to] is Place.FINISHED,
            is_kept=settle.record is not None or PLACE_OF[settle.to] is Place.PENDING,
            new_failures=settle.failures,
            new_crashes=settle.crashes,
            delay=settle.delay,
            never_ran=settle.never_ran,
            owes_hook=settle.owes_hook,
            precondition=settle.precondition,
            reason=settle.reason,
            new_error=failure_text(settle.error),
            outcome=settle.record,
            signal=storable_text(settle.signal),
            stacks=storable_text(settle.stacks),
            rescued=settle.rescued,
            rescued_by=storable_text(settle.rescued_by),
            voids=settle.voids,
            awaits=storable_text(settle.awaits),
            held_for=settle.held_for,
            forgets_steps=settle.forgets_steps,
        )
    )


def _enqueuing(job: NewJob) -> EnqueueKind:
    return EnqueueKind(
        task=job.task,
        queue=job.queue,
        key=storable_text(job.key) or "",
        priority=job.priority,
        delay=job.delay,
        policy=json_text(job.policy),
        ids=[],
        payloads=[],
        run_at=job.run_at,
        tags=json_text(job.tags) if job.tags else None,
        extra=extra_text(job.headers, job.uniqueness),
        expires_in=job.expires_in,
        unique_key=storable_text(job.unique_key),
    )


def _known(tasks: Mapping[str, Policy]) -> tuple[list[str], list[str], list[float | None], list[float | None]]:
    """Return columns of tasks in the order of their bytes, which is also that of their characters."""
    names = sorted(tasks)
    policies = [tasks[name] for name in names]
    return (
        names,
        [json_text(policy) for policy in policies],
        [policy.progress_within for policy in policies],
        [policy.timeout for policy in policies],
    )


def _long_payload(job: NewJob) -> LongPayload:
    text = _text(job.payload)
    return LongPayload(job.id, hex=job.payload.hex()) if text is None else LongPayload(job.id, text)


def _inline_texts(payloads: Sequence[bytes]) -> list[str | None]:
    """Return payloads as text, or None for those that do not belong in their jobs' rows."""
    if max(map(len, payloads)) <= INLINE and b"\0" not in b"".join(payloads):
        with suppress(UnicodeDecodeError):
            return [*map(bytes.decode, payloads)]
    return [_text(payload) if len(payload) <= INLINE else None for payload in payloads]


def _text(value: bytes) -> str | None:
    """Return a payload as text, or None if PostgreSQL cannot store it as text, as with a zero byte."""
    try:
        return None if b"\0" in value else value.decode()
    except UnicodeDecodeError:
        return None
