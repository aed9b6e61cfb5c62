"""Jobs by the ids that people type: whole, or a part that they have read in a list."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from uuid import UUID

from holdfast._core.job import State
from holdfast._core.short_ids import LEAST, fitting, part_of_id
from holdfast.errors import HoldfastError, JobNotFound

if TYPE_CHECKING:
    from holdfast.app import App

NEWEST: Final = 10_000
"""The newest jobs among which a part of an id is looked up."""
MOST_SHOWN: Final = 10
KEY_LENGTH: Final = 16
"""The digits of the key of an error."""
OWNED: Final = (State.CLAIMED, State.RUNNING)

Candidate = dict[str, object]
Read = Callable[[], Iterable[UUID]]


class AmbiguousId(HoldfastError):
    """A part of an id fits several jobs. ``candidates``: the newest of them."""

    def __init__(self, text: str, number: int, what: str, candidates: Sequence[Candidate]) -> None:
        self.candidates = candidates
        more = f", of which these are the newest {len(candidates)}" if number > len(candidates) else ""
        super().__init__(f"{text!r} is the beginning or the end of {number:,} ids of {what}{more}")


def job_of(app: "App", text: str) -> UUID:
    """Return the id of the job that was typed; ``JobNotFound``, or ``AmbiguousId`` if the part of an id fits several jobs."""
    return jobs_of(app, [text])[0]


def jobs_of(app: "App", texts: Sequence[str]) -> list[UUID]:
    """Return the ids of the jobs that were typed. Whole ids are not looked up, and may be those of no job."""

    def shown(ids: Sequence[UUID]) -> list[Candidate]:
        found: list[Candidate] = []
        for id in ids:
            with suppress(JobNotFound):  # deleted in the meantime
                job = app.jobs.get(id)
                found.append({"id": job.id, "task": job.task, "state": job.state})
        return found

    return _chosen(texts, lambda: _newest_jobs(app), "jobs", shown)


def workflows_of(app: "App", texts: Sequence[str]) -> list[UUID]:
    """Return the ids of the workflows that were typed, as ``jobs_of`` does."""
    found: dict[UUID, Candidate] = {}

    def read() -> Iterable[UUID]:
        for each in app.workflows.list(limit=NEWEST):
            found[each.id] = {"id": each.id, "task": each.task, "state": each.state}
        return found

    return _chosen(texts, read, "workflows", lambda ids: [found[id] for id in ids])


def error_of(app: "App", key: str | None) -> str | None:
    """Return the whole key of the error whose key, or the beginning of it, was typed; ``JobNotFound``."""
    return key if key is None or len(key) >= KEY_LENGTH else app.errors.get(key).key


def _newest_jobs(app: "App") -> Mapping[UUID, State]:
    from holdfast._engine.operators.batches import states_of
    from holdfast._engine.operators.where import Where

    return states_of(app.jobs, Where(), NEWEST) | states_of(app.jobs, Where(state=OWNED), None)


def _chosen(texts: Sequence[str], read: Read, what: str, shown: Callable[[Sequence[UUID]], list[Candidate]]) -> list[UUID]:
    whole = [_whole(text) for text in texts]
    known = () if all(whole) else tuple(read())
    return [id or _only(text, known, what, shown) for id, text in zip(whole, texts, strict=True)]


def _whole(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _only(text: str, known: Sequence[UUID], what: str, shown: Callable[[Sequence[UUID]], list[Candidate]]) -> UUID:
    part, one = part_of_id(text), what.removesuffix("s")
    if part is None:
        raise JobNotFound(f"{text!r} is not a {one} id, nor {LEAST} or more hex digits with which one begins or ends")
    found = fitting(known, part)
    if not found:
        where = "running jobs and the newest" if what == "jobs" else "the newest"
        raise JobNotFound(f"no {one} id begins or ends with {text!r} among {where} {NEWEST:,}: use the whole id")
    if len(found) > 1:
        raise AmbiguousId(text, len(found), what, shown(found[:MOST_SHOWN]))
    return found[0]
