"""The pages: paste an address, watch the chart grow, kill the worker."""

import asyncio
import os
import signal
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined

from evolution_web.addresses import FILES, public_addresses, read
from evolution_web.chart import chart_of
from evolution_web.jobs import app, evolve, folder_of, note_kill, rescues_of, series_of
from holdfast import JobNotFound, JobView, UniqueConflict
from holdfast._core.durations import in_words
from holdfast._system.host import identify
from holdfast.dashboard import Dashboard
from holdfast.dashboard.dashboard import HEADERS
from holdfast.dashboard.stories import drawn_story
from holdfast.dashboard.words import FAMILIES, KIND_GLYPHS, moment
from holdfast.demo.analysis import BadRepository, repository_name
from holdfast.http.guard import foreign, refusal
from holdfast.integrations.starlette import lifespan, progress_response

HERE, SLOWLY, KINDS = Path(__file__).parent, 20.0, ("png", "svg", "csv", "json")
PICTURES = {**HEADERS, "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
web = FastAPI(lifespan=lifespan(app), openapi_url=None)
web.mount("/static/holdfast", StaticFiles(packages=[("holdfast.dashboard", "static")]))
web.mount("/static", StaticFiles(directory=HERE / "static"))
web.mount("/dashboard", Dashboard(app))
loader = ChoiceLoader([FileSystemLoader(HERE / "templates"), PackageLoader("holdfast.dashboard")])
pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
pages.globals.update(in_words=in_words, families=FAMILIES, kinds=KIND_GLYPHS, moment=moment, name_of=repository_name)


@web.get("/")
async def index() -> Response:
    """Show the form and the newest analyses."""
    return await home()


@web.post("/analyses")
async def begin(request: Request) -> Response:
    """Enqueue the analysis of a repository; one that is under way, or was begun in the last 10 minutes, is shown instead."""
    if (problem := foreign(request.headers)) or int(request.headers.get("content-length", 5000)) >= 5000:
        raise HTTPException(403, problem)
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    typed, seconds = form.get("url", [""])[0], SLOWLY if "slowly" in form else 0.0
    try:
        address = read(typed)
        if address.host:
            await asyncio.to_thread(public_addresses, address.host)
        job = (await evolve.options(unique_key=address.key, unique_for="10m").aenqueue(url=address.url, seconds=seconds)).id
    except BadRepository as error:
        return await home(str(error), typed, 400)
    except OSError:
        return await home(f"there is no host {address.host}: check the address", typed, 400)
    except UniqueConflict as other:  # it runs at the other pace
        job = UUID(str(other.job))
    return RedirectResponse(f"/analyses/{job}", status_code=303)


@web.get("/analyses/{id}")
async def analysis(id: str, request: Request) -> Response:
    """Show one analysis: its progress, its chart as far as it is counted, and its story."""
    job, now = await analysis_of(id), datetime.now(UTC)
    series = await asyncio.to_thread(series_of, job)
    rescues, (story, timeline) = rescues_of(job, series["commits"]), await drawn_story(app, job, now)
    beats = [max(each.overdue + each.timing.ttl, 0.0) for each in await app.workers.alist() if each.worker == job.worker]
    files = [kind for kind in KINDS if job.state == "completed" and (folder_of(job.id) / f"evolution.{kind}").exists()]
    may_kill = refusal(request.client and request.client.host, request.headers.raw) is None
    known: Any = {"job": job, "series": series, "rescues": rescues, "story": story, "timeline": timeline, "files": files}
    return page("analysis.html", chart=chart_of(series, rescues), may_kill=may_kill, beats=beats, **known)


@web.get("/analyses/{id}/progress")
async def progress(id: str) -> Response:
    """Report each change as a server-sent event, upon which the page reads its address again."""
    return await progress_response(app, (await analysis_of(id)).id, every="250ms")


@web.get("/analyses/{id}/evolution.{kind}")
async def result(id: str, kind: str) -> Response:
    """Return the chart or the data."""
    path = folder_of((await analysis_of(id)).id) / f"evolution.{kind}"
    if kind not in KINDS or not path.is_file():
        raise HTTPException(404)
    return FileResponse(path, headers=PICTURES)


@web.post("/analyses/{id}/kill")
async def kill(id: str, request: Request) -> Response:
    """Send SIGKILL to the process that the store names as this job's worker: of this machine, and with the same start time."""
    if problem := foreign(request.headers) or refusal(request.client and request.client.host, request.headers.raw):
        raise HTTPException(403, problem)
    job = await analysis_of(id)
    for owner in [each.process for each in await app.workers.alist() if each.worker == job.worker and each.end is None]:
        if job.state == "running" and owner.start and identify(owner.pid) == owner:
            note_kill(job)
            with suppress(ProcessLookupError):
                os.kill(owner.pid, signal.SIGKILL)
    return RedirectResponse(f"/analyses/{job.id}", status_code=303)


async def home(problem: str = "", typed: str = "", status: int = 200) -> Response:
    """Return the first page, with the problem of what was typed."""
    jobs = await app.jobs.alist(task="evolve", limit=12)
    drawn = await asyncio.to_thread(lambda: [(job, chart_of(series_of(job), [])) for job in jobs])
    return page("index.html", status, jobs=drawn, problem=problem, typed=typed, files=os.environ.get(FILES))


async def analysis_of(id: str) -> JobView:
    """Return the job of an analysis; 404 if there is none of that id."""
    with suppress(ValueError, JobNotFound):
        if (job := await app.jobs.aget(UUID(id))).task == "evolve":
            return job
    raise HTTPException(404)


@web.exception_handler(404)
async def nothing(*_: object) -> Response:
    return page("nothing.html", 404)


def page(template: str, status: int = 200, **values: Any) -> Response:
    """Fill a template; the policy in the headers lets nothing in from other hosts."""
    return Response(pages.get_template(template).render(**values, now=datetime.now(UTC)), status, HEADERS, "text/html")
