"""What operators did: who, what, how much of it, and why."""

import json
from urllib.parse import quote

from holdfast._core.audit import AuditEntry
from holdfast.dashboard.views.page import Asked, Cell, Page, columns, figure, table, text, when
from holdfast.dashboard.words import moment, number
from holdfast.http.permissions import Action
from holdfast.http.redact import recorded

PAGE = 50
_LEAD = "What people and programs did to jobs, queues, schedules and limits in the last 90 days."


async def audit(asked: Asked) -> Page:
    """Return the newest actions, or those of the page, the person or the action that the address names."""
    chosen = {name: asked.query[name] for name in ("who", "action") if name in asked.query}
    found = await asked.app.audit.alist(**chosen, limit=PAGE, before=asked.query.get("before"))
    older = _where(**chosen, before=str(found[-1].id)) if len(found) == PAGE else ""
    lead = f"Only {' and '.join(f'{name} {value}' for name, value in chosen.items())}." if chosen else _LEAD
    is_readable = asked.allows(Action.READ_PAYLOAD)
    rows = [_row(recorded(each, is_readable=is_readable), asked) for each in found]
    heads = columns("at", "who", "action", "count#", "of what", "reason", "from")
    nothing = "There is no such action in the last 90 days."
    return table(
        "Audit",
        "/audit",
        heads,
        rows,
        older=older,
        lead=lead,
        nothing=nothing,
    )


def _row(entry: AuditEntry, asked: Asked) -> list[Cell]:
    return [
        when(moment(entry.at, asked.now), is_number=False),
        text(entry.who, link=_where(who=entry.who)),
        text(entry.action, link=_where(action=entry.action)),
        figure(number(entry.count)),
        text(entry.selector, style="m wide", link=_target(entry), more="" if entry.up_to is None else f"up to {entry.up_to}"),
        text(entry.reason, style="wide"),
        text(entry.origin, style="m"),
    ]


def _target(entry: AuditEntry) -> str:
    """Return the path of the one job or workflow that the action was for."""
    try:
        found = json.loads(entry.selector)
    except ValueError:
        return ""
    match found:
        case {"ids": [str(job)]}:
            return f"/jobs/{quote(job, safe='')}"
        case {"workflow": str(flow)}:
            return f"/workflows/{quote(flow, safe='')}"
        case _:
            return ""


def _where(**conditions: str) -> str:
    return "/audit?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in conditions.items())
