"""What a caller says about one job, beyond its payload."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from holdfast._core.durations import Duration, seconds
from holdfast._engine.registry import problems_of_names
from holdfast.errors import ConfigurationError


class Options(Struct, frozen=True, kw_only=True):
    """Checked options; ``None``: as the task says. ``run_at`` wins over ``delay``, which the store's clock counts."""

    queue: str | None = None
    priority: int | None = None
    delay: float = 0.0
    run_at: datetime | None = None
    tags: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        *,
        queue: str | None = None,
        priority: int | None = None,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        tags: Sequence[str] = (),
    ) -> "Options":
        """Options from what the user wrote; ``ConfigurationError`` with every problem found."""
        problems = problems_of_names("-", "-" if queue is None else queue, 0 if priority is None else priority)
        wait = 0.0
        try:
            wait = 0.0 if delay is None else seconds(delay)
        except ValueError as error:
            problems.append(f"delay: {error}")
        if delay is not None and run_at is not None:
            problems.append("delay and run_at: use one of them")
        if run_at is not None and (not isinstance(run_at, datetime) or run_at.utcoffset() is None):
            problems.append(f"run_at={run_at!r}: use a datetime with a time zone, for example datetime.now(UTC)")
        if isinstance(tags, str) or not all(isinstance(tag, str) for tag in tags):
            problems.append(f"tags={tags!r}: use a list of texts")
        if problems:
            raise ConfigurationError(problems)
        return cls(queue=queue, priority=priority, delay=wait, run_at=run_at, tags=tuple(tags))
