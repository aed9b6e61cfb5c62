"""The limits that keep a due job from starting: which, who holds it and since when, until when, and what to do."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from shlex import quote

from holdfast._core.cause import Cause, Code, clock
from holdfast._core.limits import Holder, Limit, LimitView, Scope, ScopeKind

SHOWN = 3
"""The most holders that a cause names."""
MOST_STARTS = 999_999_999
"""The greatest number that a rate may have."""


def limit_causes(views: Iterable[LimitView], alive: Collection[str], now: datetime) -> tuple[Cause, ...]:
    """Return the limits that are full, then the rates that allow no start now. ``alive``: the workers whose lease lives."""
    known = list(views)
    full = [cause for each in known for cause in _full(each, alive, now)]
    return (*full, *(cause for each in known for cause in _limited(each, now)))


def is_full(view: LimitView) -> bool:
    """Return whether all slots of a limit are taken."""
    most = view.limit.concurrency
    return most is not None and view.active >= most


def command(scope: Scope, limit: Limit, **changed: str) -> str:
    """Return the command that sets a limit with some options changed, each to a value that lets one more job, or more of them, start."""
    where = "cluster" if scope.kind is ScopeKind.ALL else f"{scope.kind} {quote(scope.name)}"
    values = {"concurrency": limit.concurrency, "per_key": limit.per_key, "rate": limit.rate, "rate_per_key": limit.rate_per_key}
    burst = {} if limit.burst == 1 else {"burst": limit.burst}
    given = {option: value for option, value in {**values, **burst, **changed}.items() if value is not None}
    options = " ".join(f"--{option.replace('_', '-')} {quote(str(value))}" for option, value in given.items())
    return f"`holdfast limits set {where} {options}`"


def held_by(holders: Sequence[Holder], alive: Collection[str], now: datetime) -> str:
    """Return which jobs hold a limit, on which workers, and since when."""
    shown = [
        f"job {holder.job} on {holder.worker}{'' if holder.worker in alive else ', which has ended,'}"
        f" since {clock(now - timedelta(seconds=holder.held))}"
        for holder in holders[:SHOWN]
    ]
    return ", ".join(shown)


def _full(view: LimitView, alive: Collection[str], now: datetime) -> Iterator[Cause]:
    limit, of_key = view.limit, view.of_key
    if limit.concurrency == 0:
        more = command(view.scope, limit, concurrency="1")
        yield Cause(Code.AT_CAPACITY, f"the limit of {view.scope} is 0: no job of it may start", f"raise it: {more}")
    elif is_full(view):
        number = f"{view.active} of {limit.concurrency}"
        raised = command(view.scope, limit, concurrency=str(view.active + 1))
        yield _taken(f"the limit of {view.scope}", number, view.holders, raised, alive=alive, now=now)
    if limit.per_key is not None and of_key is not None and of_key.active >= limit.per_key:
        number, raised = f"{of_key.active} of {limit.per_key}", command(view.scope, limit, per_key=str(of_key.active + 1))
        what = f"the limit of {view.scope} for the key {of_key.key!r}"
        yield _taken(what, number, of_key.holders, raised, alive=alive, now=now)


def _taken(what: str, number: str, holders: Sequence[Holder], raised: str, *, alive: Collection[str], now: datetime) -> Cause:
    message = f"{what} is full: {number} jobs are active: {held_by(holders, alive, now)}"
    if holders and not any(holder.worker in alive for holder in holders):
        back = "a supervisor (`holdfast worker`) takes jobs of ended workers back by itself; `holdfast recover module:app` does so once"
        return Cause(Code.AT_CAPACITY, message, back)
    return Cause(Code.AT_CAPACITY, message, f"wait until one ends, or raise it: {raised}")


def _limited(view: LimitView, now: datetime) -> Iterator[Cause]:
    limit, of_key = view.limit, view.of_key
    if view.wait > 0:
        raised = command(view.scope, limit, rate=_doubled(limit.rate))
        yield _waits(f"the rate of {view.scope}, {limit.rate}, allows", view.wait, raised, now)
    if of_key is not None and of_key.wait > 0:
        raised = command(view.scope, limit, rate_per_key=_doubled(limit.rate_per_key))
        what = f"the rate of {view.scope} for the key {of_key.key!r}, {limit.rate_per_key}, allows"
        yield _waits(what, of_key.wait, raised, now)


def _waits(what: str, wait: float, raised: str, now: datetime) -> Cause:
    until = f"the next start at {clock(now + timedelta(seconds=wait))}, in {wait:.3g} s"
    return Cause(Code.RATE_LIMITED, f"{what} {until}; jobs before it start first", f"wait, or raise it: {raised}")


def _doubled(rate: str | None) -> str:
    number, slash, time = (rate or "1/s").partition("/")
    return f"{min(2 * int(number), MOST_STARTS)}{slash}{time}"
