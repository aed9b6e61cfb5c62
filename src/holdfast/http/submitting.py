"""The calls of producers: submit jobs and read them."""

from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, Final
from uuid import UUID, uuid5

from msgspec import Meta, Struct, structs

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.job import NewJob
from holdfast._core.payload import encode_payload
from holdfast._core.policy import Policy
from holdfast._core.requests import JobFilter
from holdfast._core.text import shortened
from holdfast._core.uniqueness import UniqueUntil
from holdfast._engine.client.announcement import announce
from holdfast._engine.client.client import Client
from holdfast._engine.client.conflicts import require_no_conflict
from holdfast._engine.client.handle import id_of
from holdfast._engine.environment import Environment
from holdfast._engine.tasks.options import Options
from holdfast._engine.tasks.registry import Registry, problems_of_names
from holdfast.errors import ConfigurationError, JobNotFound, Unsupported
from holdfast.http.operation import Call, Operation, Reply
from holdfast.http.permissions import ROLES, Action
from holdfast.http.problems import ApiError

MOST_JOBS: Final = 1000
CALLS: Final = UUID("5f0c9f5e-6c29-4c2b-9d1c-7a3b1c0f6e10")
"""The namespace of calls with an ``Idempotency-Key``."""
MOST_KEY: Final = 200

Attempts = Annotated[int, Meta(ge=1, le=1_000_000)]


class SubmitOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a new job, as in ``task.options(…)``. Durations are seconds, or a number with a unit such as ``"10m"``."""

    queue: str | None = None
    key: str | None = None
    priority: int | None = None
    delay: float | str | None = None
    run_at: str | None = None
    expires_in: float | str | None = None
    unique_key: str | None = None
    unique_by: tuple[str, ...] | None = None
    unique_for: float | str | None = None
    unique_until: UniqueUntil | None = None
    tags: tuple[str, ...] = ()
    headers: dict[str, str] = {}
    max_attempts: Attempts | None = None


class Submission(Struct, frozen=True, forbid_unknown_fields=True):
    """A job to submit. ``payload``: the arguments of its handler, by name."""

    task: str
    payload: dict[str, Any] = {}
    options: SubmitOptions = SubmitOptions()


class Submitted(Struct, frozen=True):
    """A submitted job. ``created=False``: it is an unfinished job with the same unique key."""

    id: UUID
    created: bool


class Submitting:
    """What a producer may do. ``registry``: the tasks of the broker's App; a job of another task is not checked."""

    def __init__(self, environment: Callable[[], Environment], connect: Callable[[], Client], registry: Registry) -> None:
        self._open, self._connect, self._registry = environment, connect, registry

    @property
    def _environment(self) -> Environment:
        return self._open()

    @property
    def _client(self) -> Client:
        return self._connect()

    def operations(self) -> list[Operation]:
        """Describe the calls of producers."""
        body = Submission | Annotated[list[Submission], Meta(min_length=1, max_length=MOST_JOBS)]
        answer = Submitted | list[Submitted]
        return [
            Operation(
                method="POST",
                path="/jobs",
                summary="Submit a job, or a list of jobs, of which all are stored or none.",
                roles=ROLES[Action.ENQUEUE],
                action=Action.ENQUEUE,
                body=body,
                answers={201: answer, 200: answer},
                has_key=True,
                refusals=(409, 413),
                run=self._submit,
            ),
        ]

    async def _submit(self, call: Call) -> Reply:
        is_list = isinstance(call.body, list)
        jobs = [self._job(each) for each in (call.body if is_list else [call.body])]
        answer = await (self._client.enqueue(jobs) if call.key is None else self._enqueue_once(call, call.key, jobs))
        if isinstance(answer, list):
            found = [Submitted(job, created=True) for job in answer]
            return Reply(found if is_list else found[0], 201, {"Idempotent-Replayed": "true"})
        taken = {job: duplicate.job for job, duplicate in answer.duplicates.items()}
        found = [Submitted(taken.get(job.id, job.id), job.id not in taken) for job in jobs]
        return Reply(found if is_list else found[0], 201 if any(each.created for each in found) else 200)

    async def submit(self, new: Submission) -> UUID:
        """Submit one job for an operator, and record that; return its id, or that of the job that has its unique key."""
        job = self._job(new)
        answer = await self._client.enqueue_by("enqueue", {"task": new.task, "job": job.id}, job)
        require_no_conflict([job], answer)
        return answer.duplicates[job.id].job if job.id in answer.duplicates else job.id

    async def _enqueue_once(self, call: Call, key: str, jobs: list[NewJob]) -> EnqueueAnswer | list[UUID]:
        """Store the jobs under the receipt of the key; return the ids of an earlier copy, if it was one.

        The receipt does not name the jobs of a copy, and their ids have the time in them. A tag leads to them.
        """
        if not 1 <= len(key) <= MOST_KEY:
            raise ApiError(422, "invalid", f"Idempotency-Key has {len(key)} characters", f"use 1 to {MOST_KEY}")
        receipt = uuid5(CALLS, f"{call.identity.name}\0{key}")
        tag = f"idempotency:{sha256(receipt.bytes).hexdigest()[:32]}"
        jobs = [structs.replace(job, tags=(*job.tags, tag)) for job in jobs]
        answer = await self._environment.store.enqueue(receipt, jobs)
        require_no_conflict(jobs, answer)
        written = [job for job in jobs if job.id not in answer.duplicates]
        if not written or await self._environment.store.get(written[0].id) is not None:
            await announce(self._environment, written)
            return answer
        earlier = await self._client.page(JobFilter(tag=tag, limit=MOST_JOBS))
        if not earlier:
            raise ApiError(
                409, "replayed", "the call with this Idempotency-Key was made, and its jobs are deleted", "use another"
            )
        return [record.id for record in reversed(earlier)]

    def _job(self, new: Submission) -> NewJob:
        wanted, known = new.options, self._registry.get(new.task)
        if problems := problems_of_names(new.task, "default", 0):
            raise ConfigurationError(problems)
        options = _options(wanted)
        job, policy = self._environment.chance.uuid7(), Policy() if known is None else known.policy
        if wanted.max_attempts is not None:
            policy = structs.replace(policy, max_attempts=wanted.max_attempts)
        if known is None:
            return options.new_job(job, new.task, encode_payload(new.task, new.payload), policy=policy)
        if known.workflow is not None:
            raise Unsupported(f"{new.task} is a workflow, which only its code can build: enqueue it in Python")
        payload = known.payload.encode((), new.payload)
        key, priority = known.key_of(payload), known.priority
        return options.new_job(
            job,
            new.task,
            payload,
            queue=known.queue,
            key=key,
            priority=priority,
            policy=policy,
            unique_key=known.unique_key_of(payload, options.unique_by),
            uniqueness=known.uniqueness,
        )


def id_of_path(call: Call) -> UUID:
    """Return the job that a call names. Raises ``JobNotFound`` for text that cannot be an id."""
    return id_of(call.path["id"])


def not_found(job: UUID) -> JobNotFound:
    """Return the error for a job that the store does not know."""
    return JobNotFound(f"no job has the id {job}: it never existed here, or its retention has passed")


def _options(wanted: SubmitOptions) -> Options:
    try:
        run_at = None if wanted.run_at is None else datetime.fromisoformat(wanted.run_at)
    except ValueError:
        raise ConfigurationError(
            [f"run_at={shortened(wanted.run_at or '')!r} is not a time: write 2030-01-31T08:00:00Z"]
        ) from None
    return Options.of(
        queue=wanted.queue,
        key=wanted.key,
        priority=wanted.priority,
        delay=wanted.delay,
        run_at=run_at,
        expires_in=wanted.expires_in,
        unique_key=wanted.unique_key,
        unique_by=wanted.unique_by,
        unique_for=wanted.unique_for,
        unique_until=wanted.unique_until,
        tags=wanted.tags,
        headers=wanted.headers,
    )
