"""The list of jobs: by state and conditions, newest first, page by page."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from msgspec import ValidationError

from holdfast._core.durations import seconds
from holdfast._core.job import FINISHED, Reason, State
from holdfast._core.view import JobView
from holdfast._engine.operators.looking import MOST_LOOKED, alook
from holdfast._engine.operators.where import Where
from holdfast.dashboard.actions import EFFECTS, Button, job_actions, link_to
from holdfast.dashboard.selecting import MOST_SELECTED, Tick, choices
from holdfast.dashboard.views.finished import Totals, totals
from holdfast.dashboard.views.page import Asked, Cell, Page, columns, figure, job, jobs_where, state, text, when
from holdfast.dashboard.words import FAMILIES, TABS, moment, number, took
from holdfast.errors import ConfigurationError, InvalidCursor
from holdfast.http.filter_line import conditions_in, line_of
from holdfast.http.permissions import Action
from holdfast.http.selectors import require_readable, selector_in, where_of

PAGE: Final = MOST_SELECTED
CONDITIONS: Final = (
    *("state", "task", "queue", "tag", "reason", "key", "error"),
    *("worker", "workflow", "schedule", "rescued", "text", "since", "older"),
)
"""The conditions that a list takes, as `holdfast jobs list` names them."""


async def jobs(asked: Asked) -> Page:
    """Return the page of the jobs that meet the conditions in the address."""
    chosen = {name: asked.query[name] for name in CONDITIONS if name in asked.query}
    chosen |= conditions_in(asked.query.get("q", ""))
    exact = at_times(chosen, asked.now)
    where = _where(exact)
    require_readable(where, asked.may)
    look = await alook(asked.app.jobs, where, PAGE, _cursor(asked.query.get("cursor")), most=MOST_LOOKED)
    found = look.jobs
    queues = await asked.queues()
    values: dict[str, Any] = {
        "tabs": _tabs(chosen, await totals(asked, queues)),
        "fields": [
            {"name": name, "value": chosen.get(name, "")}
            for name in ("task", "queue", "tag", "key", "worker", "error", "text")
            if name != "text" or asked.allows(Action.READ_PAYLOAD)
        ],
        "reason": chosen.get("reason", ""),
        "reasons": [each.value for each in Reason],
        "state": chosen.get("state", ""),
        "line": line_of(chosen),
        "enqueue": link_to("task", Action.ENQUEUE, name=chosen.get("task", "")) if asked.allows(Action.ENQUEUE) else "",
        "is_filtered": bool(chosen.keys() - {"state"}),
        "command": command(exact),
        "buttons": _buttons(exact, asked) if found else [],
        "selected": (selected := choices(found, asked.may)),
        "ticks": [Tick.of(each) for each in found] if selected else [],
        "columns": columns("state", "job", "queue", "why or progress", "tries#", "ran#", "worker", "when#"),
        "rows": [_row(each, asked) for each in found],
        "keys": [str(each.id) for each in found],
        "nothing": _nothing(chosen, is_first="cursor" not in asked.query),
        "newest": jobs_where(**chosen) if "cursor" in asked.query else "",
        "older": _older(chosen, found),
        "looked": number(MOST_LOOKED),
        "back_to": None if look.back_to is None else moment(look.back_to.created_at, asked.now),
        "further": "" if look.back_to is None else _older_than(chosen, look.back_to),
    }
    return Page(template="jobs.html", title="Jobs", section="/jobs", values=values)


def _buttons(chosen: dict[str, str], asked: Asked) -> list[Button]:
    """Return the actions on all jobs that match, as they were when this page was made; none without one state to act on."""
    if chosen.get("state") not in set(State):
        return []
    actions = job_actions(State(chosen["state"]), asked.may)
    return [
        Button(EFFECTS["job", action].name, link_to("jobs", action, up_to=asked.now.isoformat(), **chosen)) for action in actions
    ]


def _where(exact: Mapping[str, str]) -> Where:
    for name, known in (("state", State), ("reason", Reason)):
        if unknown := {*exact.get(name, "").split(",")} - {"", *known}:
            raise ConfigurationError([f"{name}={min(unknown)!r}: use one of {', '.join(known)}"])
    try:
        return where_of(selector_in({"error_key" if name == "error" else name: value for name, value in exact.items()}))
    except ValidationError as error:
        raise ConfigurationError([f"the conditions cannot be read: {error}"]) from None


def at_times(chosen: Mapping[str, str], now: datetime) -> dict[str, str]:
    """Return the conditions with times in place of ages: ``since`` is when a job ended, if only jobs that ended are meant."""
    found = {name: value for name, value in chosen.items() if name not in ("since", "older")}
    if "since" in chosen:
        states = chosen.get("state", "").split(",")
        name = "finished_after" if FINISHED.issuperset(states) else "created_after"
        found[name] = (now - timedelta(seconds=seconds(chosen["since"]))).isoformat(timespec="seconds")
    return (
        found
        | ({"older_than": chosen["older"]} if "older" in chosen else {})
        | ({"rescued": "true"} if "rescued" in chosen else {})
    )


def command(chosen: dict[str, str]) -> str:
    """Return the command that lists the same jobs."""
    options = [part for name, value in chosen.items() if name != "rescued" for part in (f"--{name.replace('_', '-')}", value)]
    if "rescued" in chosen:
        options.append("--rescued")
    return shlex.join(["holdfast", "jobs", "list", *options])


def _tabs(chosen: dict[str, str], counts: Totals) -> list[dict[str, Any]]:
    rest = {name: value for name, value in chosen.items() if name != "state"}
    current = chosen.get("state")
    everything = {"name": "all", "count": counts.written(State), "family": ""}
    tabs: list[dict[str, Any]] = [everything | {"link": jobs_where(**rest), "is_current": not current}]
    tabs += [
        {
            "name": each.value,
            "count": counts.written([each]),
            "family": FAMILIES[each],
            "link": jobs_where(state=each.value, **rest),
            "is_current": current == each,
        }
        for each in TABS
    ]
    return tabs


def _row(of: JobView, asked: Asked) -> list[Cell]:
    has_ended = of.state in FINISHED
    end = of.finished_at if has_ended else asked.now
    return [
        state(of.state),
        job(of),
        text(of.queue, link=jobs_where(queue=of.queue)),
        text(why(of), style="m grow"),
        figure(of.attempt),
        figure(took(of.started_at, end) if has_ended or of.state is State.RUNNING else "–"),
        text(of.worker, style="m"),
        when(moment(of.finished_at if has_ended else of.started_at or of.created_at, asked.now)),
    ]


def why(of: JobView) -> str:
    """Return why a job ended, or how far it is. Lists have no messages, which may contain anything."""
    if of.state is State.RUNNING:
        done = None if of.fraction is None else f"{of.fraction:.0%}"
        return " ".join(filter(None, (of.stage, done)))
    return " ".join(dict.fromkeys(filter(None, (of.reason, of.error.type if of.error else None))))


def _nothing(chosen: dict[str, str], *, is_first: bool) -> str:
    if not is_first:
        return "There are no older jobs."
    if chosen.keys() == {"state"}:
        return f"No job is {chosen['state']}."
    return "No job meets these conditions." if chosen else "This store has no job."


def _older(chosen: dict[str, str], found: Sequence[JobView]) -> str:
    return "" if len(found) < PAGE else _older_than(chosen, found[-1])


def _older_than(chosen: dict[str, str], last: JobView) -> str:
    return f"/jobs?{urlencode(chosen | {'cursor': str(last.id)})}"


def _cursor(given: str | None) -> UUID | None:
    try:
        return None if given is None else UUID(given)
    except ValueError:
        raise InvalidCursor([f"cursor={given!r}: use the id of the last job of the page before"]) from None
