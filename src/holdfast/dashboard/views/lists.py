"""The pages that are one table: errors, queues, workers, schedules, watched tables, limits, and what `holdfast check` finds."""

from collections.abc import Sequence
from datetime import datetime
from urllib.parse import quote

from holdfast._core.answers import QueueView
from holdfast._core.durations import in_words
from holdfast._core.error_groups import ErrorGroup
from holdfast._core.history import HistoryStep
from holdfast._core.job import State
from holdfast._core.limits import Limit
from holdfast._core.story_words import counted
from holdfast.dashboard import charts
from holdfast.dashboard.actions import Button, buttons, link_to
from holdfast.dashboard.views.causes import causes
from holdfast.dashboard.views.history import history_of
from holdfast.dashboard.views.page import Asked, Cell, Page, acting, acts, columns, figure, jobs_where, table, text, when
from holdfast.dashboard.words import FAMILIES, TABS, moment, number, short
from holdfast.http.permissions import Action
from holdfast.http.resources import condition

MOST_HOLDERS = 3
_LEAD = (
    "The same as holdfast check: it moves one job through the store in a transaction that it rolls back, so no worker sees it."
)
_LEVELS = {"ok": ("completed", "completed"), "warning": ("held", "held"), "error": ("failed", "failed")}


async def queues(asked: Asked) -> Page:
    """Return the queues with the number of their jobs in each state."""
    found = await asked.queues()
    heads = columns("queue", "state", *(f"{state}#" for state in TABS), "priority#", "weight#", *acting(asked))
    rows = [_queue(queue, asked) for queue in found]
    return table("Queues", "/queues", heads, rows, nothing="No queue has a job, is paused or has settings.")


def _queue(queue: QueueView, asked: Asked) -> list[Cell]:
    paused = moment(queue.paused_at, asked.now)
    is_open = text("open", style="soft")
    return [
        text(queue.name, link=f"/queues/{queue.name}"),
        is_open if paused is None else Cell(text=f"paused {paused.text}", glyph="paused", family="held"),
        *(_count(queue, state) for state in TABS),
        figure(queue.settings.priority),
        figure(queue.settings.weight),
        *acts(asked, buttons("queue", queue.name, asked.may, _turn(queue.paused_at), Action.PURGE)),
    ]


def _count(queue: QueueView, state: State) -> Cell:
    count = queue.counts.get(state, 0)
    if not count:
        return text("0", style="n mute")
    style = f"n c-{FAMILIES[state]}" if state in (State.HELD, State.FAILED) else "n"
    return text(number(count, is_capped=state in queue.capped), style=style, link=jobs_where(queue=queue.name, state=state.value))


async def workers(asked: Asked) -> Page:
    """Return the workers whose lease has not ended, with what they hold and what they can run."""
    heads = columns("worker", "state", "running#", "claimed#", "slots#", "last beat#", "up#", "queues", "tasks", *acting(asked))
    rows = []
    for worker in await asked.app.workers.alist():
        ago = max(worker.overdue + worker.timing.ttl, 0.0)
        state = condition(worker)
        silent = Cell(text=f"silent for {in_words(worker.overdue)}", glyph="silent", family="failed")
        rows.append(
            [
                text(worker.worker, style="m", link=f"/workers/{quote(worker.worker, safe='')}"),
                silent if state == "silent" else text(state, style="soft"),
                figure(worker.holds - worker.claimed),
                figure(worker.claimed),
                figure(worker.slots),
                figure(f"{in_words(ago)} ago"),
                figure(in_words(worker.age)),
                text(", ".join(worker.queues) or "all", style="wide"),
                text(", ".join(worker.tasks), style="wide"),
                *acts(asked, [] if worker.is_draining else buttons("worker", worker.worker, asked.may, Action.DRAIN)),
            ]
        )
    return table("Workers", "/workers", heads, rows, nothing="No worker runs. Start one: holdfast worker MODULE:APP")


async def errors(asked: Asked) -> Page:
    """Return why jobs failed: one row for each cause, that with the newest failure first."""
    found = await causes(asked)
    day = await history_of(asked, "24h", "30m", "task")
    heads = columns(
        "error",
        "raised in",
        "task",
        "reason",
        "jobs#",
        "failures of the task, 24 h",
        "first#",
        "last#",
        "newest job",
        *acting(asked),
    )
    rows = [
        [
            Cell(text=each.type or str(each.reason or "unknown"), glyph="failed", family="failed", link=_page_of(each)),
            text(each.where, style="m wide"),
            text(each.task, link=jobs_where(state="failed", task=each.task)),
            text(each.reason),
            figure(number(each.count)),
            _failures(() if day is None else day.groups.get(each.task, ())),
            when(moment(each.first_at, asked.now)),
            when(moment(each.last_at, asked.now)),
            text(short(each.job), style="m", link=f"/jobs/{each.job}"),
            *acts(asked, _retry(each, asked)),
        ]
        for each in found.groups
    ]
    since = moment(found.back_to, asked.now)
    jobs = "failed job" if found.looked_at == 1 else f"{number(found.looked_at)} failed jobs"
    lead = "" if since is None else f"The newest {jobs}, back to {since.text}: {counted(found.kinds, 'cause')}."
    return table("Errors", "/errors", heads, rows, lead=lead, nothing="No job has failed, as far back as failed jobs are kept.")


def _failures(steps: Sequence[HistoryStep]) -> Cell:
    """Return how often attempts of a task failed, as a line."""
    rates = [charts.failed(step) for step in steps]
    if not any(rates):
        return text("")
    most = max(rates)
    return Cell(text=f"at most {charts.per_second(most)} a second, now {charts.per_second(rates[-1])}", spark=charts.spark(rates))


def _retry(group: ErrorGroup, asked: Asked) -> list[Button]:
    """Return the button that runs the jobs of one cause again: those that had failed when this page was made."""
    which = {"error": group.key} if group.key else {"task": group.task, "reason": str(group.reason or "")}
    link = link_to("jobs", Action.RETRY, state="failed", up_to=asked.now.isoformat(), **which)
    return [Button("Retry these", link)] if asked.allows(Action.RETRY) else []


def _page_of(group: ErrorGroup) -> str:
    """Return the path of the page of one cause; jobs without a fingerprint are listed by task and reason."""
    if group.key:
        return f"/errors/{group.key}"
    return jobs_where(state="failed", task=group.task, reason=group.reason)


async def schedules(asked: Asked) -> Page:
    """Return the schedules with their next tick and the job of their last one."""
    heads = columns(
        "schedule", "state", "when", "task", "queue", "next tick#", "last tick#", "last job", "overlap", "from", *acting(asked)
    )
    rows = []
    for each in await asked.app.schedules.alist():
        last = text("–") if each.last_job is None else text(short(each.last_job), style="m", link=f"/jobs/{each.last_job}")
        paused = Cell(text="paused", glyph="paused", family="held")
        rows.append(
            [
                text(each.name, link=f"/schedules/{each.name}"),
                text("on", style="soft") if each.paused_at is None else paused,
                text(each.when, style="m"),
                text(each.task, link=jobs_where(task=each.task)),
                text(each.queue),
                when(moment(each.next[0] if each.next else None, asked.now)),
                when(moment(each.last_tick, asked.now)),
                last,
                text(each.overlap.value),
                text(each.source.value),
                *acts(asked, buttons("schedule", each.name, asked.may, Action.RUN, _turn(each.paused_at))),
            ]
        )
    return table("Schedules", "/schedules", heads, rows, nothing="There is no schedule.")


def _turn(paused_at: datetime | None) -> Action:
    return Action.PAUSE if paused_at is None else Action.RESUME


async def limits(asked: Asked) -> Page:
    """Return the limits with what is used of each, and who holds it."""
    heads = columns("limit", "of", "allows", "active#", "next start in#", "held by", "from")
    rows = []
    for each in await asked.app.limits.alist():
        held = [f"{holder.worker} for {in_words(holder.held)}" for holder in each.holders[:MOST_HOLDERS]]
        more = len(each.holders) - len(held)
        rows.append(
            [
                text(each.name or "all jobs"),
                text(each.scope, style="soft"),
                text(allows(each.limit)),
                figure(f"{each.active} / {each.limit.concurrency}" if each.limit.concurrency else each.active),
                figure(in_words(each.wait) if each.wait > 0 else ""),
                text(", ".join(held) + (f" and {more} more" if more > 0 else ""), style="m wide"),
                text(each.source.value),
            ]
        )
    return table("Limits", "/limits", heads, rows, nothing="There is no limit: jobs start whenever a worker has a free slot.")


async def rows(asked: Asked) -> Page:
    """Return the tables that the App watches, with how many of their rows are due and stuck, and which workers have some."""
    heads = columns("name", "table", "due#", "stuck#", "longest held#", "rows by status", "held by", *acting(asked))
    found = []
    for each in asked.app.watches.values():
        states = await each.astates()
        held = [f"{holder.owner or 'no owner'} {number(holder.rows)}" for holder in states.holders[:MOST_HOLDERS]]
        more = len(states.holders) - len(held)
        stuck = Cell(text=number(states.stuck), glyph="silent", family="failed", style="n")
        found.append(
            [
                text(each.name, link=jobs_where(task=each.settings.task)),
                text(".".join(each.settings.watch.table), style="m"),
                figure(number(states.due)),
                stuck if states.stuck else figure(0),
                figure("" if states.oldest is None else in_words(states.oldest)),
                text(", ".join(f"{status} {number(count)}" for status, count in states.rows.items()), style="wide"),
                text(", ".join(held) + (f" and {more} more" if more > 0 else ""), style="m wide"),
                *acts(asked, buttons("rows", each.name, asked.may, Action.RESET) if states.stuck else []),
            ]
        )
    nothing = "There is no watched table in the code of this App. A dashboard that was started with --url sees none."
    return table("Rows", "/rows", heads, found, nothing=nothing)


def allows(limit: Limit) -> str:
    """Return what a limit allows, in words."""
    parts = (
        (limit.concurrency, f"{limit.concurrency} at once"),
        (limit.per_key, f"{limit.per_key} at once for each key"),
        (limit.rate, f"{limit.rate} starts"),
        (limit.rate_per_key, f"{limit.rate_per_key} starts for each key"),
    )
    return ", ".join(words for given, words in parts if given is not None)


async def check(asked: Asked) -> Page:
    """Return what `holdfast check` finds in the store, each with what to do."""
    rows = []
    for found in await asked.app.acheck():
        glyph, family = _LEVELS[found.level]
        rows.append(
            [
                Cell(text=found.level, glyph=glyph, family=family),
                text(found.name),
                text(found.message, style="wide"),
                text(found.remedy, style="wide"),
            ]
        )
    heads = columns("level", "about", "finding", "what to do")
    return table("Check", "/check", heads, rows, lead=_LEAD, is_live=False)
