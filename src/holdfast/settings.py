"""Settings of an App: durations, environment, and all problems at once."""

import os
from typing import Literal, Self

from msgspec import Struct

from holdfast._core.durations import Duration, seconds
from holdfast._core.timing import LeaseTiming, problems_of_intervals
from holdfast.errors import ConfigurationError


class Settings(Struct, frozen=True, kw_only=True):
    """What an App was told, checked; durations in seconds. A worker sends it to its supervisor over the pipe."""

    url: str
    timing: LeaseTiming
    recovery_interval: float = 5.0
    poll_interval: float = 1.0
    max_block: float = 300.0
    grace: float = 20.0
    reconcile: Literal["process", "hostname", "off"] = "process"

    @classmethod
    def of(
        cls,
        url: str | None,
        *,
        ttl: Duration = "30s",
        beat: Duration | None = None,
        margin: Duration | None = None,
        recovery_interval: Duration = "5s",
        poll_interval: Duration = "1s",
        max_block: Duration = "5m",
        grace: Duration = "20s",
        reconcile: str = "process",
    ) -> Self:
        """Settings from what the user wrote; ``ConfigurationError`` with every problem found."""
        problems: list[str] = []

        def duration(name: str, value: Duration | None) -> float | None:
            try:
                return None if value is None else seconds(value)
            except ValueError as error:
                problems.append(f"{name}: {error}")
                return None

        address = url or os.environ.get("HOLDFAST_URL", "")
        if not address:
            problems.append("no store: pass App('sqlite:///jobs.db') or set HOLDFAST_URL")
        life, pulse, slack = duration("ttl", ttl), duration("beat", beat), duration("margin", margin)
        recover, poll = duration("recovery_interval", recovery_interval), duration("poll_interval", poll_interval)
        block, patience = duration("max_block", max_block), duration("grace", grace)
        if reconcile not in ("process", "hostname", "off"):
            problems.append(f"reconcile={reconcile!r}: use 'process', 'hostname' or 'off'")
        if problems or life is None or recover is None or poll is None or block is None or patience is None:
            raise ConfigurationError(problems)
        timing = LeaseTiming.of(life, pulse, slack)
        problems = [*timing.problems(), *problems_of_intervals(recover, poll)]
        if problems:
            raise ConfigurationError(problems)
        return cls(
            url=address,
            timing=timing,
            recovery_interval=recover,
            poll_interval=poll,
            max_block=block,
            grace=patience,
            reconcile=reconcile,  # type: ignore[arg-type]
        )
