"""The first page: what needs an operator, where jobs are, and what runs."""

import re
from datetime import datetime
from typing import Any
from urllib.parse import quote
from weakref import WeakKeyDictionary

from holdfast._core.answers import LeaseView, QueueView
from holdfast._core.attempt_line import span
from holdfast._core.durations import in_words
from holdfast._core.history import HistoryStep
from holdfast._core.job import PLACE_OF, Place, State
from holdfast._core.need_words import process_in
from holdfast._core.overview import MOST_RUNNING, Need, NeedKind, Overview
from holdfast._core.phrases import percent
from holdfast._core.story_words import CRASH_KIND_OF, ENDINGS, counted
from holdfast._core.view import JobView
from holdfast._engine.operators.operators import client_of
from holdfast._engine.operators.overview import Recent
from holdfast._engine.operators.overview import overview as read
from holdfast.app import App
from holdfast.dashboard.actions import Button, buttons
from holdfast.dashboard.charts import per_second
from holdfast.dashboard.commands import commands_of
from holdfast.dashboard.views.finished import Totals, totals
from holdfast.dashboard.views.history import last_hours
from holdfast.dashboard.views.page import Asked, Page, jobs_where
from holdfast.dashboard.words import FAMILIES, NEED_GLYPHS, TABS, number, short, took
from holdfast.http.permissions import Action
from holdfast.http.resources import condition

MOST_ROWS = 8
"""The most rows of each table; a link leads to the others."""
MOST_RESCUES = 5
"""The most rescues, the newest ones."""
_recent: "WeakKeyDictionary[App, Recent]" = WeakKeyDictionary()
_HINTS = {State.HELD: "you decide"}
_SENTENCES = re.compile(r"(?<=\.) (?=[A-Z0-9])")
_STEPS = re.compile(r"; (?=(?:[^']*'[^']*')*[^']*$)")
"""Between steps: not within quotes of a command."""
_COMMAND = re.compile(r"(?P<text>(?:(?!holdfast |ps -).)*)(?P<command>(?:holdfast |ps -).+)?")


async def overview(asked: Asked) -> Page:
    """Return the overview, from one look at the store."""
    recent = _recent.setdefault(asked.app, Recent()) if asked.is_live else None
    seen = await read(client_of(asked.app.jobs), await asked.queues(), recent)
    last = await last_hours(asked)
    counts = await totals(asked, seen.queues)
    values = {
        "needs": [_need(need, asked) for need in seen.needs],
        "is_new": not seen.queues and not seen.workers,
        "places": [_place(place, counts, seen) for place in Place],
        "queues": [_queue(queue, last["of_queues"].get(queue.name)) for queue in seen.queues[:MOST_ROWS]],
        "all_queues": len(seen.queues),
        "running": [running(job, seen.at) for job in sorted(seen.running, key=_begin)[:MOST_ROWS]],
        "all_running": _bounded(len(seen.running)),
        "rescues": [_rescue(job, seen.at) for job in sorted(seen.rescued, key=_rescued, reverse=True)[:MOST_RESCUES]],
        "workers": [_worker(worker) for worker in seen.workers[:MOST_ROWS]],
        "all_workers": len(seen.workers),
        "last": last,
    }
    return Page(template="overview.html", title="Overview", section="/", values=values)


def running(job: JobView, now: datetime) -> dict[str, Any]:
    """Return a running job as tables show it."""
    return {
        "id": job.id,
        "task": job.task,
        "short": short(job.id),
        "attempt": job.attempt,
        "worker": job.worker or "",
        "process": process_in(job.worker or ""),
        "for": took(job.started_at, now),
        "fraction": None if job.fraction is None else round(job.fraction * 100),
        "stage": job.stage or "",
    }


def _rescue(job: JobView, now: datetime) -> dict[str, Any]:
    how = "" if job.rescued is None else ENDINGS[CRASH_KIND_OF[job.rescued]].clause
    how += "" if job.rescued_fraction is None else f" at {percent(job.rescued_fraction)}"
    return {
        "id": job.id,
        "task": job.task,
        "short": short(job.id),
        "text": f"on {job.rescued_from} {how}, {took(job.rescued_at, now)} ago. Now {job.state}.",
    }


def _rescued(job: JobView) -> datetime:
    return job.rescued_at or job.created_at


def _need(need: Need, asked: Asked) -> dict[str, Any]:
    """Return a need with its first sentence, the others, and each thing to do with the command for it."""
    glyph, family, path, name = NEED_GLYPHS[need.kind]
    first, *others = _SENTENCES.split(need.text, maxsplit=1)
    steps = [_COMMAND.fullmatch(step) for step in _STEPS.split(commands_of(asked.app)(need.step))]
    return {
        "first": first,
        "others": "".join(others),
        "steps": [
            {"text": step["text"][:1].upper() + step["text"][1:], "command": step["command"] or ""} for step in steps if step
        ],
        "glyph": glyph,
        "family": family,
        "buttons": [*_mending(need, asked), Button(name, path.format(quote(need.subject, safe="")))],
    }


def _mending(need: Need, asked: Asked) -> list[Button]:
    """Return the action against the cause, if there is one that the reader may take."""
    if need.kind is NeedKind.PAUSED_QUEUE:
        return buttons("queue", need.subject, asked.may, Action.RESUME)
    return []


_PLACES = {
    Place.PENDING: ("Pending", "in line", [state for state in TABS if PLACE_OF[state] is Place.PENDING]),
    Place.ACTIVE: ("Active", "owned by a worker", [State.RUNNING, State.CLAIMED]),
    Place.FINISHED: ("Finished", "kept until pruned", [State.COMPLETED, State.FAILED, State.CANCELLED]),
}


def _place(place: Place, counts: Totals, seen: Overview) -> dict[str, Any]:
    name, about, states = _PLACES[place]
    hints = dict(_HINTS)
    if seen.running and len(seen.running) < MOST_RUNNING:
        hints[State.RUNNING] = f"longest {took(min(map(_begin, seen.running)), seen.at)}"
    slots = sum(worker.slots for worker in seen.workers)
    return {
        "name": name,
        "about": about,
        "count": counts.written(states),
        "of": f"of {number(slots)} slots" if place is Place.ACTIVE and slots else "",
        "beats": _beats(seen) if place is Place.ACTIVE else "",
        "states": [
            {
                "state": state.value,
                "family": FAMILIES[state],
                "count": counts.written([state]),
                "hint": hints.get(state, "") if counts[state] else "",
                "link": jobs_where(state=state.value),
            }
            for state in states
        ],
    }


def _beats(seen: Overview) -> str:
    live = [worker for worker in seen.workers if worker.overdue <= 0]
    if not live:
        return "no worker is alive"
    ago = min(max(worker.overdue + worker.timing.ttl, 0.0) for worker in live)
    return f"last beat {in_words(ago)} ago, {counted(len(live), 'worker')}"


def _queue(queue: QueueView, recent: HistoryStep | None) -> dict[str, Any]:
    count = {place: sum(number for state, number in queue.counts.items() if PLACE_OF[state] is place) for place in Place}
    return {
        "name": queue.name,
        "link": jobs_where(queue=queue.name),
        "is_paused": queue.paused_at is not None,
        "due": number(queue.counts.get(State.AVAILABLE, 0)),
        "later": number(count[Place.PENDING] - queue.counts.get(State.AVAILABLE, 0)),
        "running": number(count[Place.ACTIVE]),
        "rate": per_second(0.0 if recent is None else recent.rate),
        "wait": "–" if recent is None or recent.wait_p99 is None else span(recent.wait_p99),
        "failed": number(queue.counts.get(State.FAILED, 0), is_capped=State.FAILED in queue.capped),
    }


def _worker(worker: LeaseView) -> dict[str, Any]:
    ago = max(worker.overdue + worker.timing.ttl, 0.0)
    return {
        "name": worker.worker,
        "jobs": f"{worker.holds} / {worker.slots}" if worker.slots else f"{worker.holds}",
        "state": condition(worker),
        "beat": in_words(ago),
        "is_silent": worker.overdue > 0,
    }


def _begin(job: JobView) -> datetime:
    return job.started_at or job.created_at


def _bounded(count: int) -> str:
    return f"{count}+" if count >= MOST_RUNNING else str(count)
