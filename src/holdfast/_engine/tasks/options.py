"""What a caller chooses for one job, beyond its payload."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import UUID

from msgspec import Struct

from holdfast._core.durations import Duration, seconds
from holdfast._core.headers import Headers, headers_from
from holdfast._core.job import NewJob
from holdfast._core.policy import Policy
from holdfast._core.uniqueness import UNTIL_FINISHED, Uniqueness, UniqueUntil
from holdfast._engine.tasks.after import Join, Parent, When, after_of
from holdfast._engine.tasks.option_problems import OnDuplicate, period_of, problems_of_uniqueness
from holdfast._engine.tasks.registry import problems_of_names
from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast._core.dependencies import After

TEXT_LIMIT = 200
DEFAULT_POLICY = Policy()


class Options(Struct, frozen=True, kw_only=True):
    """Checked options; ``None``: the task's own value. ``run_at`` wins over ``delay``, which the store's clock counts.

    ``unique_by``: the parameters whose values are the unique key. ``raises_on_duplicate``: ``UniqueConflict`` if another job holds it.
    ``within``: the caller's own database connection, in whose transaction the job is written. ``detached``: it does not join the workflow
    of the job that enqueues it. ``after``: the jobs for which it waits.
    """

    queue: str | None = None
    key: str | None = None
    priority: int | None = None
    delay: float = 0.0
    run_at: datetime | None = None
    expires_in: float | None = None
    unique_key: str | None = None
    unique_by: tuple[str, ...] | None = None
    unique_for: float | None = None
    unique_until: UniqueUntil | None = None
    raises_on_duplicate: bool = False
    tags: tuple[str, ...] = ()
    headers: Headers = ()
    within: object = None
    detached: bool = False
    after: After | None = None

    @classmethod
    def of(  # size: two lines for each option
        cls,
        *,
        queue: str | None = None,
        key: str | None = None,
        priority: int | None = None,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        expires_in: Duration | None = None,
        unique_key: str | None = None,
        unique_by: Sequence[str] | None = None,
        unique_for: Duration | None = None,
        unique_until: UniqueUntil | None = None,
        on_duplicate: OnDuplicate = "return",
        tags: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
        within: object = None,
        detached: bool = False,
        after: Sequence[Parent] = (),
        join: Join = "all",
        when: When = "succeeded",
    ) -> Options:
        """Check what the user wrote, and return the options; ``ConfigurationError`` with every problem found."""
        problems = problems_of_names("-", "-" if queue is None else queue, 0 if priority is None else priority)
        wait, due_at = due("delay", delay, run_at, problems)
        lifetime = _lifetime(expires_in, problems)
        problems += _problems_of_texts(key, unique_key, tags)
        period = period_of(unique_for, problems)
        problems += problems_of_uniqueness(unique_by, unique_until, unique_key, on_duplicate)
        carried = () if headers is None else _headers(headers, problems)
        parents = after_of(after, join, when, problems, unique_key=unique_key, unique_by=unique_by, within=within)
        if problems:
            raise ConfigurationError(problems)
        return cls(
            queue=queue,
            key=key,
            priority=priority,
            delay=wait,
            run_at=due_at,
            expires_in=lifetime,
            unique_key=unique_key,
            unique_by=None if unique_by is None else tuple(unique_by),
            unique_for=period,
            unique_until=unique_until,
            raises_on_duplicate=on_duplicate == "raise",
            tags=tuple(tags),
            headers=carried,
            within=within,
            detached=detached,
            after=parents,
        )

    def new_job(
        self,
        job: UUID,
        task: str,
        payload: bytes,
        *,
        queue: str = "default",
        key: str = "",
        priority: int = 0,
        policy: Policy = DEFAULT_POLICY,
        unique_key: str | None = None,
        uniqueness: Uniqueness = UNTIL_FINISHED,
    ) -> NewJob:
        """Return a new job, with what belongs to its task where the options name nothing else.

        Raises ``ConfigurationError`` for a period of a unique key without a key.
        """
        unique = self.unique_key or unique_key
        return NewJob(
            id=job,
            task=task,
            payload=payload,
            policy=policy,
            queue=self.queue or queue,
            key=self.key or key,
            priority=priority if self.priority is None else self.priority,
            delay=self.delay,
            run_at=self.run_at,
            expires_in=self.expires_in,
            unique_key=unique,
            uniqueness=self._uniqueness(uniqueness, is_keyed=unique is not None),
            tags=self.tags,
            headers=self.headers,
        )

    def _uniqueness(self, of_task: Uniqueness, *, is_keyed: bool) -> Uniqueness:
        if self.unique_for is None and self.unique_until is None:
            return of_task if is_keyed else UNTIL_FINISHED
        if not is_keyed:
            option = "unique_until" if self.unique_for is None else "unique_for"
            raise ConfigurationError([f"{option}: name what is unique: add unique_key='…' or unique_by=('order',)"])
        return Uniqueness(
            of_task.seconds if self.unique_for is None else self.unique_for,
            of_task.until_started if self.unique_until is None else self.unique_until == "started",
        )


def due(name: str, delay: Duration | None, run_at: datetime | None, problems: list[str]) -> tuple[float, datetime | None]:
    """Return when a job is due, from what the user wrote; append what is wrong with it to the problems."""
    wait = 0.0 if delay is None else _seconds(name, delay, problems) or 0.0
    if delay is not None and run_at is not None:
        problems.append(f"{name} and run_at: use one of them")
    if run_at is None:
        return wait, None
    if not isinstance(run_at, datetime) or run_at.utcoffset() is None:
        problems.append(f"run_at={run_at!r}: use a datetime with a time zone, for example datetime.now(UTC)")
        return wait, None
    try:
        return wait, run_at.astimezone(UTC)
    except OverflowError:
        problems.append(f"run_at={run_at!r}: it leaves the calendar in UTC; use a nearer one")
        return wait, None


def _seconds(name: str, duration: Duration, problems: list[str]) -> float | None:
    try:
        return seconds(duration)
    except ValueError as error:
        problems.append(f"{name}: {error}")
        return None


def _lifetime(expires_in: Duration | None, problems: list[str]) -> float | None:
    lifetime = None if expires_in is None else _seconds("expires_in", expires_in, problems)
    if lifetime == 0:
        problems.append(f"expires_in={expires_in!r}: use a positive duration such as '1h', or None for no end")
    return lifetime


def _headers(given: object, problems: list[str]) -> Headers:
    try:
        return headers_from(given)
    except ConfigurationError as error:
        problems += error.problems
        return ()


def _problems_of_texts(key: str | None, unique_key: str | None, tags: object) -> list[str]:
    keys = {"key": key, "unique_key": unique_key}
    found = [problem for name, text in keys.items() if text is not None for problem in _problems_of_text(name, text)]
    return found + _problems_of_tags(tags)


def _problems_of_tags(tags: object) -> list[str]:
    if isinstance(tags, str) or not isinstance(tags, Sequence):
        return [f"tags={tags!r}: use a list of strings"]
    return [problem for tag in tags for problem in _problems_of_text("tags", tag)]


def _problems_of_text(name: str, text: object) -> list[str]:
    """Return what is wrong with a string: other writers share its statement, and people read it in a terminal; it may break neither."""
    if (
        isinstance(text, str)
        and 1 <= len(text) <= TEXT_LIMIT
        and not any(unicodedata.category(each) in _CONTROL for each in text)
    ):
        return []
    return [f"{name}={text!r}: use a string of 1 to {TEXT_LIMIT} characters without control characters"]


_CONTROL = ("Cc", "Cs")
