"""Which jobs a request means: the conditions of ``Where`` as JSON or as a query, read by one parser for the API, the pages and tools."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType, defstruct, structs

from holdfast._core.job import Reason, State
from holdfast._engine.operators.where import Where
from holdfast.errors import ConfigurationError
from holdfast.http.permissions import Action
from holdfast.http.problems import ApiError

SEVERAL: Final = ("state", "reason", "task", "queue", "worker")
"""The conditions that take several values: a list, or in a query values with commas between them."""
KINDS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(SEVERAL, str | list[str]),
    "state": State | list[State],
    "reason": Reason | list[Reason],
    "older_than": float | str,
    "attempts_at_least": Annotated[int, Meta(le=2**31 - 1)],
    "rescued": bool,
    **{name: datetime for name in Where.__struct_fields__ if name.endswith(("_after", "_before", "up_to"))},
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


def selector_in(text: Mapping[str, str]) -> Any:
    """Return the selector of a query. Raises ``msgspec.ValidationError`` for a condition that it does not know."""
    return msgspec.convert(spread(text), Selector, strict=False)


def spread(text: Mapping[str, str]) -> dict[str, Any]:
    """Return the conditions of a query, with lists for those that have several values.

    >>> spread({"state": "failed,held", "text": "a,b"})
    {'state': ['failed', 'held'], 'text': 'a,b'}
    """
    return {name: value.split(",") if name in SEVERAL and "," in value else value for name, value in text.items()}


def where_of(selector: Any, up_to: datetime | None = None, *, must_choose: bool = False) -> Where:
    """Return the conditions of a selector. ``up_to``: jobs that were enqueued later, or that ended later, are left out.

    ``must_choose``: a selector without a condition has to say that it means all jobs. Raises ``ConfigurationError``.

    >>> where_of(selector_in({"state": "failed", "task": "mail"}))
    Where(state=<State.FAILED: 'failed'>, task='mail')
    """
    given = {name: value for name in Where.__struct_fields__ if (value := getattr(selector, name)) is not UNSET}
    if must_choose and not given and not getattr(selector, "all", False):
        raise ConfigurationError(["selector: it has no condition: name one, or say all=true"])
    where = Where(**given)
    return where if up_to is None else _seen(where, up_to)


def require_readable(where: Where, may: Collection[Action]) -> None:
    """Raise ``ApiError`` for a condition about messages of errors, unless its sender may read these: the answer would reveal them."""
    if where.text is not None and Action.READ_PAYLOAD not in may:
        detail = "text looks into the messages of errors, which you may not read"
        raise ApiError(403, "forbidden", detail, "leave text out, or ask for the right payload.read")


def query_of(where: Where) -> dict[str, str]:
    """Return the conditions as a query, which ``selector_in`` reads."""
    found = {name: value for name, value in structs.asdict(where).items() if value is not None}
    return {name: _text(value) for name, value in found.items()}


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _seen(where: Where, up_to: datetime) -> Where:
    """Return the conditions for the jobs that a person could see at that time: a job that fails later stays as it is."""
    return structs.replace(where, up_to=min(where.up_to or up_to, up_to))
