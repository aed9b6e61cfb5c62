"""Which jobs a request means: the conditions of ``Where`` as JSON or as a query, read by one parser for the API, the pages and tools."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType, defstruct, structs

from holdfast._core.job import FINISHED, Reason, State
from holdfast._engine.operators.where import Where
from holdfast.errors import ConfigurationError

KINDS: Final[Mapping[str, Any]] = {
    "state": State,
    "reason": Reason,
    "older_than": float | str,
    "attempts_at_least": int,
    **{name: datetime for name in Where.__struct_fields__ if name.endswith(("_after", "_before"))},
}
"""The types of conditions that are not strings: those of new conditions of ``Where`` belong here."""

_CONDITIONS: Final = [(name, KINDS.get(name, str) | UnsetType, UNSET) for name in Where.__struct_fields__]
Selector: Final[Any] = defstruct(
    "Selector",
    [*_CONDITIONS, ("all", bool, False)],
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    module=__name__,
    namespace={"__doc__": "Conditions that must all hold for a job. Without one, ``all`` must be true."},
)


def selector_of(text: Mapping[str, str]) -> Any:
    """Return the selector of a query. Raises ``msgspec.ValidationError`` for a condition that it does not know."""
    return msgspec.convert(dict(text), Selector, strict=False)


def where_of(selector: Any, up_to: datetime | None = None, *, must_choose: bool = False) -> Where:
    """Return the conditions of a selector. ``up_to``: jobs that were enqueued later, or that ended later, are left out.

    ``must_choose``: a selector without a condition has to say that it means all jobs. Raises ``ConfigurationError``.

    >>> where_of(selector_of({"state": "failed", "task": "mail"}))
    Where(state=<State.FAILED: 'failed'>, task='mail')
    """
    given = {name: value for name in Where.__struct_fields__ if (value := getattr(selector, name)) is not UNSET}
    if must_choose and not given and not getattr(selector, "all", False):
        raise ConfigurationError(["selector: it has no condition: name one, or say all=true"])
    where = Where(**given)
    return where if up_to is None else _seen(where, up_to)


def query_of(where: Where) -> dict[str, str]:
    """Return the conditions as a query, which ``selector_of`` reads."""
    found = {name: value for name, value in structs.asdict(where).items() if value is not None}
    return {name: value.isoformat() if isinstance(value, datetime) else str(value) for name, value in found.items()}


def _seen(where: Where, up_to: datetime) -> Where:
    """Return the conditions for the jobs that a person could see at that time: a job that fails later stays as it is."""
    up_to += timedelta(microseconds=1)  # …_before: earlier than that
    earlier = structs.replace(where, created_before=min(where.created_before or up_to, up_to))
    if where.state in FINISHED:
        earlier = structs.replace(earlier, finished_before=min(where.finished_before or up_to, up_to))
    return earlier
