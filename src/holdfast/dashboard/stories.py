"""The story of a job with its timeline, for the pages here and for pages of applications that show a job."""

from collections.abc import Callable
from datetime import datetime

from holdfast._core.story import Story, story_of
from holdfast._core.view import JobView
from holdfast._engine.operators.story import story_facts
from holdfast.app import App
from holdfast.dashboard.timeline import Timeline, timeline_of


async def drawn_story(app: App, of: JobView, now: datetime, mask: Callable[[str], str] = str) -> tuple[Story, Timeline | None]:
    """Return what happened to a job, and what ``timeline.html`` draws of it. ``of``: as ``app.jobs.get`` returns it."""
    story = story_of(of, of.attempts, now, await story_facts(app.workers, of, now))
    end = of.finished_at or now
    return story, timeline_of(story.lanes, of.state, (end - of.created_at).total_seconds(), mask(story.summary))
