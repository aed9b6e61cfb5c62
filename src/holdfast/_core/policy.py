"""How long to wait before another try, and how many tries there are.

A task's policy is written on the job's row, so that a rescuer who has never seen the task's code
can still decide.
"""

from enum import StrEnum
from typing import Literal, Self, assert_never

import msgspec
from msgspec import Struct, structs

from holdfast._core.durations import LONGEST, Duration, seconds

RETENTION_FLOOR = 900.0
"""Seconds for which a finished job is remembered at least: requests that come again in that time get the same answer."""


HOOK_RETENTION = 7 * 86400.0
"""Seconds for which a finished job is kept at least while its ``on_rescue`` is owed."""
LONGEST_HOOK_DELAY = 3600.0
"""Seconds between two tries of a hook that fails, at most."""


class CrashPolicy(StrEnum):
    """What becomes of a job whose worker died under it."""

    RETRY = "retry"
    FAIL = "fail"
    HOLD = "hold"


class Backoff(Struct, frozen=True):
    """Waiting time before the n-th retry, in seconds; n counts from 0.

    Jitter keeps jobs that failed together from coming back together.

    >>> Backoff.exponential("1s", cap="1h").delay(3, jitter=0.0)
    8.0
    """

    kind: Literal["exponential", "linear", "fixed"]
    delays: tuple[float, ...]
    cap: float = 3600.0
    spread: float = 0.25

    @classmethod
    def exponential(cls, base: Duration = "1s", cap: Duration = "1h", *, spread: float = 0.25) -> Self:
        """``base · 2^n`` up to ``cap``, ± ``spread``."""
        return cls("exponential", (seconds(base),), seconds(cap), spread)

    @classmethod
    def linear(cls, step: Duration = "1s", cap: Duration = "1h", *, spread: float = 0.25) -> Self:
        """``step · (n + 1)`` up to ``cap``, ± ``spread``."""
        return cls("linear", (seconds(step),), seconds(cap), spread)

    @classmethod
    def fixed(cls, *delays: Duration, spread: float = 0.0) -> Self:
        """The listed delays one after the other; the last one repeats. ``ValueError`` when none is given."""
        if not delays:
            raise ValueError("Backoff.fixed needs at least one delay, for example Backoff.fixed('10s', '1m')")
        waits = tuple(seconds(delay) for delay in delays)
        return cls("fixed", waits, max(waits), spread)

    def delay(self, n: int, *, jitter: float) -> float:
        """Seconds to wait before retry ``n``; ``jitter`` is a random number in [-1, 1]."""
        return min(self._unbounded(n), self.cap) * (1.0 + self.spread * jitter)

    def problems(self) -> list[str]:
        """What is wrong with it: a wait that is no number would be refused by the store, with all that it settles beside it."""
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


class Policy(Struct, frozen=True, omit_defaults=True):
    """Budgets and limits of a task: handler failures and worker crashes are counted apart.

    ``progress_within``: seconds in which the job must move. ``timeout``: seconds since its start. ``None``: no limit.
    ``has_rescue_hook``: the task has an ``on_rescue``.
    """

    max_attempts: int = 3
    max_crashes: int = 3
    backoff: Backoff = Backoff("exponential", (1.0,))
    on_crash: CrashPolicy = CrashPolicy.RETRY
    retention: float = 7 * 86400.0
    progress_within: float | None = None
    timeout: float | None = None
    has_rescue_hook: bool = False

    def needs_isolation(self, crashes: int) -> bool:
        """Whether one more crash ends the job, which has crashed before: it runs alone, so that only it can be to blame.

        >>> Policy(max_crashes=3).needs_isolation(2)
        True
        """
        return crashes > 0 and self.max_crashes - 1 <= crashes

    def problems(self) -> list[str]:
        """What is wrong with it, one sentence each, naming the remedy."""
        found = self.backoff.problems()
        if self.max_attempts < 1:
            found.append(f"max_attempts={self.max_attempts}: use 1 for a single try, or more")
        if self.max_crashes < 1:
            found.append(f"max_crashes={self.max_crashes}: use 1 to end at the first crash, or more")
        if not 0 <= self.retention <= LONGEST:
            found.append(f"retention={self.retention}: use 0 or a positive duration such as '7d'")
        for name, limit in (("progress_within", self.progress_within), ("timeout", self.timeout)):
            if limit is not None and not 0 < limit <= LONGEST:
                found.append(f"{name}={limit:g}s: use a positive duration such as '5m', or None for no limit")
        if self.progress_within is not None and self.timeout is not None and self.timeout < self.progress_within:
            found.append(
                f"timeout >= progress_within is broken: {self.timeout:g}s, {self.progress_within:g}s; the limit would come first"
            )
        return found


_SAFEST: dict[str, object] = {"on_crash": CrashPolicy.HOLD, "has_rescue_hook": True}
"""What an unreadable field means, where the default would risk a second run of the code, or forget a hook that is owed. All others
mean their default: budgets that end, the usual retention, and no limit, because a limit would end a healthy job."""


def policy_of(text: str | bytes | None) -> Policy:
    """Read a policy as it was written on a row. A field that cannot be read has its safest value, and costs no other field its own.

    ``None``: nothing was written, and the task's code was not at hand.

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
