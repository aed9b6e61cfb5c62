"""Draw a job's timeline as the dashboard does, as a picture that stands for itself: docs/images/killed.svg of the README.

`python scripts/timeline_picture.py sqlite:///jobs.db ID > docs/images/killed.svg` draws it.
"""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from uuid import UUID

import jinja2

from holdfast import App
from holdfast._core.story import story_of
from holdfast.dashboard.timeline import timeline_of


def picture(app: App, id: UUID) -> str:
    """Return the SVG of a finished job, with the colours of the light dashboard in it."""
    job = app.jobs.get(id)
    assert job.finished_at is not None, "draw a job that has finished"
    story = story_of(job, job.attempts, job.finished_at)
    total = (job.finished_at - job.created_at).total_seconds()
    environment = jinja2.Environment(loader=jinja2.PackageLoader("holdfast.dashboard"), autoescape=True)
    timeline = timeline_of(story.lanes, job.state, total, story.summary)
    section = environment.get_template("timeline.html").render(timeline=timeline)
    svg = section.partition("<svg")[2].partition('<div class="key">')[0]
    symbol = re.search(r'<symbol id="i-rescued".*?</symbol>', _packaged("templates/glyphs.svg"), re.DOTALL)
    inside = f"<style>{_style()}</style>" + (symbol[0] if symbol else "") + '<rect width="100%" height="100%" fill="#fff"/>'
    lines = f'<svg xmlns="http://www.w3.org/2000/svg"{svg}'.replace("<defs>", f"{inside}<defs>", 1).splitlines()
    return "\n".join(line for line in lines if line.strip()) + "\n"


def _style() -> str:
    """Return the rules of timelines, with the values of the light colours."""
    style = _packaged("static/style.css")
    colours = dict(re.findall(r"(--[\w-]+):light-dark\((#\w+),", style)) | {
        "--sans": "system-ui,sans-serif",
        "--mono": "ui-monospace,monospace",
    }
    rules = re.findall(r"[^{}\n]+\{[^{}]*\}", style)
    wanted = [rule for rule in rules if re.match(r"\.tl (?!>)|\.c-rescued|\.f-|\.hatch|\.halo", rule)]
    text = re.sub(r"var\((--[\w-]+)\)", lambda name: colours[name[1]], "".join(wanted))
    return text.replace(".tl ", "")


def _packaged(name: str) -> str:
    return files("holdfast.dashboard").joinpath(name).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.stdout.write(picture(App(sys.argv[1]), UUID(sys.argv[2])))
