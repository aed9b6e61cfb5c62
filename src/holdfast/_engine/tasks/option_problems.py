"""What is wrong with options of tasks and jobs, one sentence each."""

from collections.abc import Collection, Sequence
from typing import Literal

from holdfast._core.durations import Duration, seconds

OnDuplicate = Literal["return", "raise"]


def problems_of_sensitive(names: object) -> list[str]:
    """Return what is wrong with names that a task declares as sensitive."""
    if not isinstance(names, (tuple, list, set, frozenset)) or not all(isinstance(name, str) and name for name in names):
        return [f"sensitive={names!r}: use names of parameters or fields, for example sensitive=('card',)"]
    return []


def problems_of_limit(limit: object, *, is_optional: bool = True) -> list[str]:
    """Return what is wrong with a limit that a user has written; its values were checked when it was made."""
    if limit is None and is_optional:
        return []
    from holdfast._core.limits import Limit

    if not isinstance(limit, Limit):
        return [f"limit={limit!r}: use Limit(concurrency=10), Limit(rate='100/m'), or both in one"]
    has_rate = limit.rate is not None or limit.rate_per_key is not None
    if not has_rate and limit.concurrency is None and limit.per_key is None:
        return ["limit=Limit() limits nothing: use concurrency=, per_key=, rate= or rate_per_key="]
    if not has_rate and limit.burst != 1:
        return [f"limit: burst={limit.burst} belongs to a rate: add rate= or rate_per_key=, or leave it out"]
    return []


def period_of(unique_for: Duration | None, problems: list[str]) -> float | None:
    """Return for how many seconds a unique key is held; append what is wrong to the problems."""
    try:
        period = None if unique_for is None else seconds(unique_for)
    except ValueError as error:
        problems.append(f"unique_for: {error}")
        return None
    if period == 0:
        problems.append(f"unique_for={unique_for!r}: use a positive duration such as '20h', or leave it out")
    return period


def problems_of_uniqueness(
    by: object, until: object, key: object = None, on_duplicate: object = "return", *, known: Collection[str] | None = None
) -> list[str]:
    """Return what is wrong with the options of a unique key, but for the key itself. ``known``: the parameters of the handler."""
    problems = []
    if by is not None:
        if isinstance(by, str) or not isinstance(by, Sequence) or not all(isinstance(each, str) for each in by):
            problems.append(f"unique_by={by!r}: use names of parameters, for example unique_by=('order',)")
        elif known is not None:
            problems += [f"unique_by: {name!r} is no parameter of the handler" for name in sorted({*by}.difference(known))]
        if key is not None:
            problems.append("unique_key and unique_by: use one of them")
    if until not in (None, "finished", "started"):
        problems.append(f"unique_until={until!r}: use 'finished' or 'started'")
    if on_duplicate not in ("return", "raise"):
        problems.append(f"on_duplicate={on_duplicate!r}: use 'return' or 'raise'")
    return problems
