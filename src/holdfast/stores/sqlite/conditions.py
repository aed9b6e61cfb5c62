"""The parameters of ``queries/parts/matching.sql``: which jobs to list or to steer."""

from typing import Final

from msgspec import structs

from holdfast._core.requests import Choice, JobFilter, several
from holdfast._core.schedule import tag_of
from holdfast._core.text import in_lower_case, json_part, json_text
from holdfast.databases.sqlite.values import Values, micros, micros_of

_LISTS: Final = ("state", "reason", "task", "queue", "tag", "worker")


def matching(which: JobFilter) -> Values:
    """Return the conditions of a filter."""
    given = structs.asdict(which)
    lists = {name: _list_of(given[name]) for name in _LISTS}
    ids = {name: None if given[name] is None else given[name].bytes for name in ("before", "down_to", "workflow")}
    instants = {name: micros_of(value) for name, value in given.items() if name.endswith(("_after", "_before", "up_to"))}
    return {
        **given,
        **lists,
        **ids,
        **instants,
        "older_than": None if which.older_than is None else micros(which.older_than),
        "schedule_tag": None if which.schedule is None else tag_of(which.schedule),
        "text": None if which.text is None else in_lower_case(json_part(which.text)),
    }


def _list_of(choice: Choice) -> str | None:
    values = several(choice)
    return None if values is None else json_text(values)
