"""What redaction hides of one job, shown once to a person who may see it, after it was recorded who looked."""

from typing import Any
from uuid import UUID

from msgspec import Struct

from holdfast._core.sensitive import is_sensitive
from holdfast._core.view import JobView
from holdfast._engine.client.acting import named
from holdfast._engine.store_defaults import auditing
from holdfast.http.changes import Change, Reason, make
from holdfast.http.job_items import DOCUMENTS
from holdfast.http.managed import Managed
from holdfast.http.operation import Call, Operation, Reply
from holdfast.http.permissions import ROLES, Action
from holdfast.http.redact import Redact, hidden_in, no_more
from holdfast.http.submitting import id_of_path


class Reveal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why an operator needs to see it."""

    reason: Reason = ""


class Revealed(Struct, frozen=True):
    """The data of a job as its code has it, with every value."""

    payload: Any
    result: Any
    checkpoint: Any
    headers: dict[str, str]


def hides(job: JobView, names: frozenset[str], redact: Redact) -> bool:
    """Return whether something of a job is, or may be, hidden."""
    return redact is not no_more or hidden_values(job, names) > 0


def hidden_values(job: JobView, names: frozenset[str]) -> int:
    """Return how many values of a job are hidden because of their names."""
    return sum(hidden_in(getattr(job, name), names) for name in DOCUMENTS) + sum(map(is_sensitive, job.headers))


async def revealed(managed: Managed, job: UUID) -> Revealed:
    """Record the look, then return what was looked at. ``Unsupported`` if the store cannot record it: then nothing is shown."""
    auditing(managed.environment().store)
    of = JobView.of(await managed.record(job))
    await managed.client.record(Action.REVEAL, named([job]), hidden_values(of, managed.sensitive(of.task)))
    return Revealed(of.payload, of.result, of.checkpoint, of.headers)


class Revealing:
    """The call that reveals."""

    def __init__(self, managed: Managed) -> None:
        self._managed = managed

    def operations(self) -> list[Operation]:
        """Describe the one call that reveals."""
        return [
            Operation(
                method="POST",
                path=f"/jobs/{{id}}/{Action.REVEAL}",
                summary="Read a job's data with the values that are hidden elsewhere; the look is recorded.",
                roles=ROLES[Action.REVEAL],
                action=Action.REVEAL,
                body=Reveal,
                is_body_optional=True,
                answers={200: Revealed},
                refusals=(404,),
                run=self._reveal,
            )
        ]

    async def _reveal(self, call: Call) -> Reply:
        job = id_of_path(call)
        return Reply(await make(Change.of(call, Action.REVEAL, f"/jobs/{job}"), lambda: revealed(self._managed, job)))
