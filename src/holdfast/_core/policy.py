"""The policy of a task: how many tries it has, and how long to wait before each.

A task's policy is written on the job's row, so that a supervisor without the task's code can still decide about a rescue.
"""

from enum import StrEnum
from typing import Literal, Self, assert_never

import msgspec
from msgspec import Struct, structs

from holdfast._core.durations import LONGEST, Duration, seconds

RETENTION_FLOOR = 900.0
"""The seconds for which a finished job is kept at least: requests that are repeated in that time get the same answer."""


HOOK_RETENTION = 7 * 86400.0
"""The seconds for which a finished job is kept at least while its ``on_rescue`` is owed."""
LONGEST_HOOK_DELAY = 3600.0
"""The most seconds between two tries of a rescue hook that fails."""


class CrashPolicy(StrEnum):
    """What happens to a job whose worker died while it ran."""

    RETRY = "retry"
    FAIL = "fail"
    HOLD = "hold"


class ChangePolicy(StrEnum):
    """What happens to a job whose code was changed under its recorded steps."""

    HOLD = "hold"
    FAIL = "fail"
    RESTART = "restart"


class Backoff(Struct, frozen=True):
    """The wait before the n-th retry, in seconds; n counts from 0.

    Jitter keeps jobs that failed together from being retried together.

    >>> Backoff.exponential("1s", cap="1h").delay(3, jitter=0.0)
    8.0
    """

    kind: Literal["exponential", "linear", "fixed"]
    delays: tuple[float, ...]
    cap: float = 3600.0
    spread: float = 0.25

    @classmethod
    def exponential(cls, base: Duration = "1s", cap: Duration = "1h", *, spread: float = 0.25) -> Self:
        """Return a backoff of ``base · 2^n`` up to ``cap``, ± ``spread``."""
        return cls("exponential", (seconds(base),), seconds(cap), spread)

    @classmethod
    def linear(cls, step: Duration = "1s", cap: Duration = "1h", *, spread: float = 0.25) -> Self:
        """Return a backoff of ``step · (n + 1)`` up to ``cap``, ± ``spread``."""
        return cls("linear", (seconds(step),), seconds(cap), spread)

    @classmethod
    def fixed(cls, *delays: Duration, spread: float = 0.0) -> Self:
        """Return a backoff of the listed delays in turn; the last one repeats. ``ValueError`` if none is given."""
        if not delays:
            raise ValueError("Backoff.fixed needs at least one delay, for example Backoff.fixed('10s', '1m')")
        waits = tuple(seconds(delay) for delay in delays)
        return cls("fixed", waits, max(waits), spread)

    def delay(self, n: int, *, jitter: float) -> float:
        """Return the seconds to wait before retry ``n``; ``jitter`` is a random number in [-1, 1]."""
        return min(self._unbounded(n), self.cap) * (1.0 + self.spread * jitter)

    def problems(self) -> list[str]:
        """Return what is wrong. A store would refuse a wait that is not a number, together with all that it settles in the same write."""
        found = []
        if not (self.delays and all(0 <= each <= LONGEST for each in (*self.delays, self.cap))):
            found.append(f"backoff={self!r}: use Backoff.exponential('1s', cap='1h'), .linear(…) or .fixed(…)")
        if not 0 <= self.spread <= 1:
            found.append(f"backoff: spread={self.spread!r}: use a part from 0 (no jitter) to 1")
        return found

    def _unbounded(self, n: int) -> float:
        match self.kind:
            case "exponential":
                return self.delays[0] * 2.0 ** min(n, 60)
            case "linear":
                return self.delays[0] * (n + 1)
            case "fixed":
                return self.delays[min(n, len(self.delays) - 1)]
            case _:
                assert_never(self.kind)


class Policy(Struct, frozen=True, omit_defaults=True, gc=False):
    """The budgets and limits of a task: handler failures and worker crashes are counted separately.

    ``progress_within``: seconds in which the job must make progress. ``timeout``: seconds since its start. ``None``: no limit.
    ``has_rescue_hook``: the task has an ``on_rescue``. ``retention_failed``: seconds for which failed jobs are kept; ``None``: as others.
    """

    max_attempts: int = 3
    max_crashes: int = 3
    backoff: Backoff = Backoff("exponential", (1.0,))
    on_crash: CrashPolicy = CrashPolicy.RETRY
    retention: float = 7 * 86400.0
    progress_within: float | None = None
    timeout: float | None = None
    has_rescue_hook: bool = False
    retention_failed: float | None = None

    def retention_of(self, *, is_failed: bool) -> float:
        """Return the seconds for which a finished job is kept."""
        return self.retention if self.retention_failed is None or not is_failed else self.retention_failed

    def needs_isolation(self, crashes: int) -> bool:
        """Return whether one more crash ends a job that has crashed before. It runs isolated then, so that only it can be the cause.

        >>> Policy(max_crashes=3).needs_isolation(2)
        True
        """
        return crashes > 0 and self.max_crashes - 1 <= crashes

    def problems(self) -> list[str]:
        """Return what is wrong with the policy, one sentence each, naming the remedy."""
        found = self.backoff.problems()
        if self.max_attempts < 1:
            found.append(f"max_attempts={self.max_attempts}: use 1 for a single try, or more")
        if self.max_crashes < 1:
            found.append(f"max_crashes={self.max_crashes}: use 1 to end at the first crash, or more")
        if not 0 <= self.retention <= LONGEST:
            found.append(f"retention={self.retention}: use 0 or a positive duration such as '7d'")
        if self.retention_failed is not None and not 0 <= self.retention_failed <= LONGEST:
            found.append(f"retention_failed={self.retention_failed}: use 0, a positive duration such as '30d', or None")
        for name, limit in (("progress_within", self.progress_within), ("timeout", self.timeout)):
            if limit is not None and not 0 < limit <= LONGEST:
                found.append(f"{name}={limit:g}s: use a positive duration such as '5m', or None for no limit")
        if self.progress_within is not None and self.timeout is not None and self.timeout < self.progress_within:
            found.append(
                f"timeout >= progress_within is broken: {self.timeout:g}s, {self.progress_within:g}s; the limit would come first"
            )
        return found


_SAFEST: dict[str, object] = {"on_crash": CrashPolicy.HOLD, "has_rescue_hook": True}
"""The values of unreadable fields whose default would risk a second run of the code, or forget an owed hook. All other fields get their
default: budgets that end, the usual retention, and no limit, because a limit would end a healthy job."""


def policy_of(text: str | bytes | None) -> Policy:
    """Read a policy as it was written on a row. An unreadable field gets its safest value, and affects no other field.

    ``None``: no policy was written, because the task's code was not loaded.

    >>> policy_of('{"on_crash": "a word of a later release", "max_attempts": 9}').on_crash.value
    'hold'
    """
    if text is None:
        return Policy()
    try:
        policy = msgspec.json.decode(text, type=Policy)
        if not policy.problems():
            return policy
    except _UNREADABLE:
        pass
    try:
        fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except _UNREADABLE:
        return Policy(**_SAFEST)  # type: ignore[arg-type]
    policy = Policy()
    for field in structs.fields(Policy):
        if field.name in fields:
            policy = _with(policy, field, fields[field.name])
    return policy


def _with(policy: Policy, field: structs.FieldInfo, text: msgspec.Raw) -> Policy:
    try:
        read = structs.replace(policy, **{field.name: msgspec.json.decode(text, type=field.type)})
        if not read.problems():
            return read
    except _UNREADABLE:
        pass
    return structs.replace(policy, **{field.name: _SAFEST.get(field.name, field.default)})


_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, TypeError, RecursionError)
