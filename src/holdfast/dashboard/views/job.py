"""The page of a job: its story, why it waits, its facts, and its data without sensitive values."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from holdfast._core.durations import in_words
from holdfast._core.explanation import Explanation
from holdfast._core.job import FINISHED, Json, State
from holdfast._core.requests import JobFilter
from holdfast._core.sensitive import HIDDEN, Mask, is_sensitive
from holdfast._core.short_ids import fitting, part_of_id
from holdfast._core.story_entries import Entry
from holdfast._core.view import JobView
from holdfast._engine.operators.operators import client_of
from holdfast.dashboard.actions import button, job_actions, link_to
from holdfast.dashboard.stories import drawn_story
from holdfast.dashboard.views.page import Asked, Glyph, Page, jobs_where, message
from holdfast.dashboard.words import KIND_GLYPHS, moment, short
from holdfast.http.job_items import explained, masked, without_messages
from holdfast.http.permissions import Action
from holdfast.http.redact import Redact, hidden_in, mask_of, no_more, shown
from holdfast.http.revealing import Revealed, hides

NEWEST = 10_000
"""The newest jobs among which the short form of an id is looked up."""
OWNED = (State.CLAIMED, State.RUNNING)
MOST_RETENTIONS = 5
"""The tasks of which the page of a job that is gone shows the retention."""
MOST_CHARACTERS = 20_000
"""The most characters of a payload, a result or a checkpoint that a page shows."""


async def job(asked: Asked) -> Page:
    """Return the story and the facts of a job."""
    if (whole := await _whole(asked)) is not None:
        return Page(template="", title="", moved_to=f"/jobs/{whole}")
    of = await asked.app.jobs.aget(asked.id)
    is_withheld = not asked.allows(Action.READ_PAYLOAD)
    explanation = None if of.state in FINISHED or of.state is State.RUNNING else await asked.app.jobs.aexplain(of.id)
    definition = asked.app.registry.get(of.task)
    names = frozenset[str]() if definition is None else definition.sensitive
    mask = mask_of((of.payload, of.checkpoint), names)
    explanation = explanation and explained(explanation, of, mask, is_readable=not is_withheld)
    of = without_messages(of) if is_withheld else masked(of, names, asked.redact)
    story, timeline = await drawn_story(asked.app, of, asked.now, mask)
    values = {
        "short": short(of.id),
        "state": Glyph.of(of.state),
        "rescued": of.rescued is not None,
        "summary": mask(story.summary),
        "timeline": timeline,
        "entries": [_entry(entry, mask) for entry in story.entries],
        "causes": [] if explanation is None else _causes(explanation),
        "facts": _facts(of, asked.now),
        "budgets": [_budget("failures", of.failures, of.max_attempts), _budget("crashes", of.crashes, of.max_crashes)],
        "tags": [{"name": tag, "link": jobs_where(tag=tag)} for tag in of.tags],
        "documents": [] if is_withheld else [_document(*each, names, of.task, asked.redact) for each in _documents(of)],
        "is_withheld": is_withheld,
        "reveal": link_to("job", Action.REVEAL, name=str(of.id))
        if asked.allows(Action.REVEAL) and hides(of, names, asked.redact)
        else "",
        "buttons": [button("job", action, str(of.id)) for action in job_actions(of.state, asked.may)],
    }
    return Page(template="job.html", title=of.task, section="/jobs", values=values)


async def _whole(asked: Asked) -> UUID | None:
    """Return the id of the only job among running and the newest ones whose id begins or ends with the digits in the path."""
    if (part := part_of_id(asked.id)) is None:
        return None
    client = client_of(asked.app.jobs)
    known = await client.states(JobFilter(), NEWEST) | await client.states(JobFilter(state=OWNED), None)
    found = fitting(known, part)
    return found[0] if len(found) == 1 else None


def gone(asked: Asked) -> Page:
    """Return the page for a job that there is not. Its id has the time at which it was made; how long it was kept, its task knows."""
    known = ((name, asked.app.registry.get(name)) for name in asked.app.registry.names())
    kept = [f"{name} {in_words(task.policy.retention)}" for name, task in known if task is not None][:MOST_RETENTIONS]
    made = _made_at(asked.id)
    words = "" if made is None else f" Its id was made on {made:%Y-%m-%d at %H:%M}Z."
    times = f": {', '.join(kept)}" if kept else ""
    remedy = f"It never existed, or it was pruned: finished jobs are kept for the retention of their task{times}."
    return message("No job has this id", f"The store has no job {asked.id}.{words}", remedy, status=404)


def _made_at(text: str) -> datetime | None:
    """Return the time that an id has in it, if it is one and has one."""
    try:
        id = UUID(text)
        return datetime.fromtimestamp((id.int >> 80) / 1e3, UTC) if id.version == 7 else None
    except (ValueError, OverflowError, OSError):
        return None


def reveal_page(job: UUID, found: Revealed) -> Page:
    """Return the page with the data of a job, of which nothing is hidden."""
    documents = (
        ("Payload", found.payload),
        ("Result", found.result),
        ("Checkpoint", found.checkpoint),
        ("Headers", found.headers),
    )
    values = {
        "short": short(job),
        "back": f"/jobs/{job}",
        "documents": [_document(title, each, frozenset(), "", no_more, is_hiding=False) for title, each in documents if each],
    }
    return Page(template="reveal.html", title="Revealed data", section="/jobs", values=values)


def _entry(entry: Entry, mask: Mask) -> dict[str, Any]:
    glyph, family = KIND_GLYPHS[entry.kind]
    return {
        "glyph": glyph,
        "family": family,
        "time": "" if entry.at is None else f"{entry.at:%H:%M:%S}.{entry.at.microsecond // 1000:03}",
        "iso": "" if entry.at is None else f"{entry.at:%Y-%m-%dT%H:%M:%S.%f}Z",
        "after": "" if entry.after is None else f"+{in_words(max(entry.after, 0.0))}",
        "text": mask(entry.text),
        "details": [{"title": detail.title, "text": mask(detail.text)} for detail in entry.details],
    }


def _causes(explanation: Explanation) -> list[dict[str, str]]:
    if not explanation.causes:
        return [{"message": explanation.summary, "remedy": ""}]
    return [{"message": cause.message, "remedy": cause.remedy} for cause in explanation.causes]


def _facts(of: JobView, now: datetime) -> list[dict[str, Any]]:
    """Return what is known of the job beside its story; a fact that it does not have is left out."""
    known: tuple[tuple[str, object, str], ...] = (
        ("queue", f"{of.queue}, priority {of.priority}", jobs_where(queue=of.queue)),
        ("task", of.task, jobs_where(task=of.task)),
        ("key", of.key, jobs_where(key=of.key)),
        ("unique key", of.unique_key, ""),
        ("workflow", None if of.workflow is None else short(of.workflow), f"/workflows/{of.workflow}"),
        ("worker", of.worker, "/workers"),
        ("progress", _progress(of), ""),
    )
    times = (("enqueued", of.created_at), ("due", of.available_at), ("ended", of.finished_at), ("expires", of.expires_at))
    facts: list[dict[str, Any]] = [
        {"name": name, "text": str(value), "link": link, "at": None} for name, value, link in known if value
    ]
    waits = of.state in (State.SCHEDULED, State.AVAILABLE)
    facts += [
        {"name": name, "text": "", "link": "", "at": moment(at, now)} for name, at in times if at and (name != "due" or waits)
    ]
    facts += [
        {"name": name, "text": HIDDEN if is_sensitive(name) else value, "link": "", "at": None}
        for name, value in of.headers.items()
    ]
    return [*facts, {"name": "id", "text": str(of.id), "link": "", "at": None}]


def _progress(of: JobView) -> str:
    done = None if of.fraction is None else f"{of.fraction * 100:.0f} %"
    return ", ".join(filter(None, (of.stage, done)))


def _budget(name: str, used: int, most: int) -> dict[str, Any]:
    return {"name": name, "used": min(used, most), "most": most, "spare": max(most - used, 0), "is_drawn": most <= 10}


def _documents(of: JobView) -> list[tuple[str, Json]]:
    found: list[tuple[str, Json]] = [("Payload", of.payload)]
    if of.state is State.COMPLETED:
        found.append(("Result", of.result))
    if of.checkpoint is not None:
        found.append(("Checkpoint", of.checkpoint))
    return found


def _document(
    title: str, document: Json, names: frozenset[str], task: str, redact: Redact, *, is_hiding: bool = True
) -> dict[str, str]:
    hidden = hidden_in(document, names) if is_hiding else 0
    visible = shown(task, title.lower(), document, names, redact) if is_hiding else document
    text = json.dumps(visible, indent=2, ensure_ascii=False)
    cut = len(text) - MOST_CHARACTERS
    notes = (f"{hidden} hidden" if hidden else "", f"{cut:,} more characters: holdfast jobs show" if cut > 0 else "")
    return {"title": title, "text": text[:MOST_CHARACTERS], "note": ", ".join(filter(None, notes))}
