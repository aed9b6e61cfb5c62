"""The pages about one queue, one error and one schedule."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any, Final

from msgspec import Struct

from holdfast._core.answers import QueueView
from holdfast._core.durations import in_words
from holdfast._core.error_groups import ErrorGroup
from holdfast._core.job import State
from holdfast._core.pauses import paused_by
from holdfast._core.schedule import ScheduleView
from holdfast._core.story_words import counted
from holdfast._core.view import JobView
from holdfast._engine.operators.errors import LOOK
from holdfast._engine.operators.limits import LimitStatus
from holdfast._engine.operators.operators import client_of
from holdfast.dashboard.actions import Button, buttons, link_to
from holdfast.dashboard.views.lists import allows
from holdfast.dashboard.views.page import Asked, Cell, Column, Page, columns, figure, job, jobs_where, message, state, text, when
from holdfast.dashboard.words import TABS, moment, number, short, took
from holdfast.errors import Unsupported
from holdfast.http.permissions import Action
from holdfast.http.resources import condition
from holdfast.metrics.store_gauges import longest_wait

NEWEST: Final = 10
"""The newest jobs that a page about one thing shows."""
MOST_WAITING: Final = 500
"""The newest waiting jobs of which the keys are counted."""
MOST_KEYS: Final = 10
TICKS: Final = 10


class Section(Struct, frozen=True, kw_only=True):
    """A table with a heading. ``nothing``: what it shows without rows; ``link``: to more of the same."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    nothing: str = ""
    link: str = ""


async def queue(asked: Asked) -> Page:
    """Return the page of a queue: what waits in it, what runs, who holds the slots of its limits, and whose jobs wait."""
    of = next((each for each in await asked.queues() if each.name == asked.id), None)
    if of is None:
        return _missing("queue", asked.id, "It has no job, is not paused and has no settings.")
    running = await asked.app.jobs.alist(queue=of.name, state=[State.CLAIMED, State.RUNNING], limit=NEWEST)
    waiting = await asked.app.jobs.alist(queue=of.name, state=State.AVAILABLE, limit=MOST_WAITING)
    tables = [
        _running(running, of.name, asked),
        *await _slots(of.name, asked),
        *_keys(waiting, of.name),
    ]
    may = buttons("queue", of.name, asked.may, Action.PAUSE if of.paused_at is None else Action.RESUME, Action.PURGE)
    counts = {each.value: of.counts.get(each, 0) for each in TABS}
    facts = [_fact(name, number(count), jobs_where(queue=of.name, state=name)) for name, count in counts.items() if count]
    facts += [_fact("priority", of.settings.priority), _fact("weight", of.settings.weight)]
    tag = {"text": "paused", "glyph": "paused", "family": "held"} if of.paused_at else None
    summary = await _state_of(of, asked)
    return _page(of.name, ("Queues", "/queues"), summary, tag=tag, buttons=may, facts=facts, tables=tables)


async def _state_of(of: QueueView, asked: Asked) -> str:
    due, runs = of.counts.get(State.AVAILABLE, 0), of.counts.get(State.CLAIMED, 0) + of.counts.get(State.RUNNING, 0)
    waits = f"{counted(due, 'job').capitalize()} {'is' if due == 1 else 'are'}"
    goes_on = f"{counted(runs, 'job').capitalize()} run{'s' if runs == 1 else ''}."
    if of.paused_at is not None:
        pauses = await asked.app.audit.alist(action="pause")
        since = in_words((asked.now - of.paused_at).total_seconds())
        return f"Paused{paused_by(of.name, pauses)} {since} ago. {waits} due. {goes_on}"
    client = client_of(asked.app.jobs)
    oldest = f", the oldest for {in_words(await longest_wait(client, of.name, client.now()))}" if due else ""
    return f"{waits} due{oldest}. {goes_on}"


def _running(found: Sequence[JobView], name: str, asked: Asked) -> Section:
    rows = [
        [
            state(each.state),
            job(each),
            figure(each.attempt),
            figure(took(each.started_at, asked.now)),
            text(" ".join(filter(None, (each.stage, None if each.fraction is None else f"{each.fraction:.0%}"))), style="grow"),
            text(each.worker, style="m", link=jobs_where(worker=each.worker)),
        ]
        for each in found
    ]
    heads = columns("state", "job", "try#", "for#", "progress", "worker")
    link = jobs_where(queue=name, state="claimed,running") if len(found) == NEWEST else ""
    return Section(title="Running", columns=heads, rows=rows, nothing="No job of it runs.", link=link)


async def _slots(name: str, asked: Asked) -> list[Section]:
    """Return who holds the slots of the limits that count all jobs, or those of this queue; none for a store without limits."""
    try:
        limits = await asked.app.limits.alist()
    except Unsupported:
        return []
    conditions = {each.worker: condition(each) for each in await asked.app.workers.alist()}
    mine = [each for each in limits if each.scope == "cluster" or (each.scope, each.name) == ("queue", name)]
    return [_holders(each, conditions) for each in mine]


def _holders(of: LimitStatus, conditions: Mapping[str, str]) -> Section:
    whose = "all jobs" if of.scope == "cluster" else f"the queue {of.name}"
    used = f"{of.active} / {of.limit.concurrency}" if of.limit.concurrency else str(of.active)
    later = f", next start in {in_words(of.wait)}" if of.wait > 0 else ""
    rows = []
    for holder in of.holders:
        found = conditions.get(holder.worker, "gone")
        is_lost = found in ("silent", "gone")
        worker = Cell(text=found, glyph="silent", family="failed") if is_lost else text(found, style="soft")
        rows.append(
            [
                text(short(holder.job), style="m", link=f"/jobs/{holder.job}"),
                text(holder.worker, style="m"),
                worker,
                figure(in_words(holder.held)),
            ]
        )
    title = f"Limit of {whose}: {allows(of.limit)}, {used} used{later}"
    return Section(title=title, columns=columns("job", "worker", "state", "held for#"), rows=rows, nothing="Its slots are free.")


def _keys(waiting: Sequence[JobView], name: str) -> list[Section]:
    keys = Counter(each.key for each in waiting if each.key).most_common(MOST_KEYS)
    rows = [[text(key, style="m", link=jobs_where(queue=name, state="available", key=key)), figure(number(n))] for key, n in keys]
    among = f" among the newest {MOST_WAITING}" if len(waiting) == MOST_WAITING else ""
    return [Section(title=f"Keys that wait{among}", columns=columns("key", "jobs#"), rows=rows)] if rows else []


async def error(asked: Asked) -> Page:
    """Return the page of an error: why jobs failed, where, how many, and the newest of them."""
    groups = (await asked.app.errors.alist(limit=LOOK)).groups
    of = next((each for each in groups if each.key == asked.id), None)
    if of is None:
        return _missing("error", asked.id, "None of the newest failed jobs has it.")
    newest = await asked.app.jobs.alist(state=State.FAILED, error_key=of.key, limit=NEWEST)
    retry = link_to("jobs", Action.RETRY, state="failed", error=of.key, up_to=asked.now.isoformat())
    section = Section(
        title="Newest jobs",
        columns=columns("state", "job", "queue", "tries#", "worker", "when#"),
        rows=[list(_failed(each, asked)) for each in newest],
        nothing="Its jobs were retried or pruned.",
        link=jobs_where(state="failed", error=of.key),
    )
    facts = [
        _fact("raised in", of.where),
        _fact("task", of.task, jobs_where(state="failed", task=of.task)),
        _fact("reason", of.reason.value if of.reason else ""),
        _fact("jobs", number(of.count), jobs_where(state="failed", error=of.key)),
        {"name": "first", "at": moment(of.first_at, asked.now)},
        {"name": "last", "at": moment(of.last_at, asked.now)},
        _fact("key", of.key),
    ]
    may = [Button("Retry these", retry)] if asked.allows(Action.RETRY) else []
    return _page(of.type or str(of.reason), ("Errors", "/errors"), _cause(of, asked), buttons=may, facts=facts, tables=[section])


def _cause(of: ErrorGroup, asked: Asked) -> str:
    """Return how many jobs failed and, if the reader may see messages, the newest one: it may contain anything."""
    many = f"{counted(of.count, 'job').capitalize()} of {of.task} failed with it."
    return f"{many} The newest: {of.message}" if of.message and asked.allows(Action.READ_PAYLOAD) else many


def _failed(of: JobView, asked: Asked) -> Iterator[Cell]:
    yield state(of.state)
    yield job(of)
    yield text(of.queue, link=f"/queues/{of.queue}")
    yield figure(of.attempt)
    yield text(of.worker, style="m")
    yield when(moment(of.finished_at, asked.now))


async def schedule(asked: Asked) -> Page:
    """Return the page of a schedule: its next ticks, and the jobs of its last ones."""
    found = await asked.app.schedules.alist(next=TICKS)
    of = next((each for each in found if each.name == asked.id), None)
    if of is None:
        return _missing("schedule", asked.id, "No code declares it, and no operator has set it.")
    ended = await asked.app.jobs.alist(schedule=of.name, limit=NEWEST)
    turn = Action.PAUSE if of.paused_at is None else Action.RESUME
    tag = None if of.paused_at is None else {"text": "paused", "glyph": "paused", "family": "held"}
    summary = (
        f"Its next tick is in {in_words((of.next[0] - asked.now).total_seconds())}."
        if of.next
        else "It does not tick until it is resumed."
    )
    may = buttons("schedule", of.name, asked.may, Action.RUN, turn)
    return _page(
        of.name,
        ("Schedules", "/schedules"),
        summary,
        tag=tag,
        buttons=may,
        facts=_plan(of),
        tables=[_ticks(of, asked), _jobs(of, ended, asked)],
    )


def _ticks(of: ScheduleView, asked: Asked) -> Section:
    return Section(
        title="Next ticks",
        columns=columns("in", "at, UTC"),
        rows=[
            [text(in_words((at - asked.now).total_seconds())), text(f"{at.astimezone(UTC):%a %d %b, %H:%M:%S}")] for at in of.next
        ],
        nothing="A paused schedule has none.",
    )


def _jobs(of: ScheduleView, ended: Sequence[JobView], asked: Asked) -> Section:
    return Section(
        title="Last jobs",
        columns=columns("state", "job", "tries#", "took#", "when#"),
        rows=[
            [
                state(each.state),
                job(each),
                figure(each.attempt),
                figure(took(each.started_at, each.finished_at)),
                when(moment(each.created_at, asked.now)),
            ]
            for each in ended
        ],
        nothing="It has not ticked yet, or its jobs were pruned.",
        link=jobs_where(schedule=of.name),
    )


def _plan(of: ScheduleView) -> list[dict[str, Any]]:
    return [
        _fact("when", of.when),
        _fact("task", of.task, jobs_where(task=of.task)),
        _fact("queue", of.queue, f"/queues/{of.queue}"),
        _fact("overlap", of.overlap.value),
        _fact("catch up", f"the newest {counted(of.catch_up, 'missed tick')}" if of.catch_up else "no missed tick"),
        _fact("jitter", in_words(of.jitter) if of.jitter else ""),
        _fact("from", of.source.value),
    ]


def _fact(name: str, value: object, link: str = "") -> dict[str, Any]:
    return {"name": name, "text": str(value), "link": link, "at": None}


def _page(title: str, parent: tuple[str, str], summary: str, **values: Any) -> Page:
    values["facts"] = [fact for fact in values["facts"] if fact["at"] or fact["text"]]
    values = {"summary": summary, "parent": {"name": parent[0], "link": parent[1]}, "tag": None, **values}
    return Page(template="one.html", title=title, section=parent[1], values=values)


def _missing(kind: str, name: str, why: str) -> Page:
    return message(f"There is no {kind} of this name", f"The store has no {kind} {name}. {why}", status=404)
