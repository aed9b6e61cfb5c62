"""The pages of the dashboard, asked over ASGI: what they show, what they hide, and that nothing in them runs."""

import asyncio
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from msgspec import structs

from holdfast import App, Job, Limit, every
from holdfast._core.cause import Cause, Code
from holdfast._core.explanation import Explanation
from holdfast._core.job import RUNNER_UNAVAILABLE, AttemptOutcome, Failure
from holdfast._core.view import AttemptView, JobView
from holdfast.dashboard import Dashboard, Identity
from holdfast.dashboard.dashboard import VIEWS
from holdfast.errors import ConfigurationError, StoreUnavailable
from holdfast.http.filter_line import conditions_in, line_of
from tests.dashboard.browser import OWN, Elements, Reply, ask, get

EVIL = "\"'><script>alert(7)</script><img src=x onerror=alert(7)>"
LISTS = [path for path, _ in VIEWS if "{" not in path]


@pytest.fixture
def app() -> Iterator[App]:
    app = App("memory://")
    yield app
    app.close()


def _fill(app: App) -> dict[str, str]:
    """Leave a job in several states, a schedule, a limit and a workflow, with markup in every field that users write; return ids."""

    @app.task(max_attempts=1)
    async def fails(job: Job, text: str, api_token: str) -> None:
        await job.progress(stage=EVIL, fraction=0.5, message=EVIL)
        await job.checkpoint({EVIL: EVIL})
        raise ValueError(f"{text} of {api_token}")

    @app.task
    def echo(text: str) -> str:
        return text

    failed = fails.options(tags=[EVIL], key=EVIL, unique_key=EVIL).enqueue(EVIL, api_token="hunter22")
    done = echo.enqueue(EVIL)
    with app.workflow("release") as flow:
        build = flow.add(echo.bind(EVIL), name="build")
        flow.add(echo.bind("b"), name="ship", after=[build])
    app.run_due()
    waiting = echo.options(queue="slow", delay=60).enqueue("a")
    with app.audit.acting(who=EVIL, reason=EVIL, origin=EVIL, up_to=EVIL):
        app.queues.pause("slow")
    app.schedules.set("refresh", every("5m"), echo.bind("x"))
    app.limits.set("cluster", Limit(concurrency=5, rate="100/m"))
    return {"failed": str(failed.id), "done": str(done.id), "waiting": str(waiting.id), "flow": str(flow.handle.id)}


def _assert_nothing_runs(reply: Reply) -> Elements:
    page = Elements(reply.body)
    for tag, attrs in page.found:
        assert not [name for name in attrs if name.startswith("on") or name == "style"], (tag, attrs)
        assert tag not in {"style", "iframe", "object", "base"}
        assert tag != "script" or attrs["src"] in ("/static/idiomorph.js", "/static/holdfast.js")
    assert "unsafe" not in reply.headers["content-security-policy"]
    assert reply.headers["cache-control"] == "no-store"
    return page


@pytest.mark.parametrize("path", LISTS)
def test_a_page_of_an_empty_store_states_that_there_is_nothing(app: App, path: str) -> None:
    reply = get(Dashboard(app), path)
    assert reply.status == 200
    assert re.search(
        "no job yet|has no job|No job has failed|no watched table|No queue|No worker|There is no |holdfast check",
        _assert_nothing_runs(reply).text,
    )


def test_what_operators_did_is_listed_and_leads_to_the_job(app: App) -> None:
    ids = _fill(app)
    with app.audit.acting(who="anna", origin="api", reason="wrong address"):
        app.jobs.cancel(ids["waiting"])
    page = _assert_nothing_runs(get(Dashboard(app), "/audit"))
    for word in ("anna", "wrong address", "limit.set", "schedule.set", "pause"):
        assert word in page.text
    links = {attrs["href"] for tag, attrs in page.found if tag == "a"}
    assert {f"/jobs/{ids['waiting']}", "/audit?who=anna", "/audit?action=cancel"} <= links
    only = get(Dashboard(app), "/audit?who=anna").body
    assert "wrong address" in only
    assert "limit.set" not in only


@pytest.mark.parametrize(("role", "is_shown"), [("viewer", False), ("operator", True)])
def test_the_audit_shows_no_secret_and_parts_of_messages_only_with_the_right(app: App, role: str, is_shown: bool) -> None:
    with app.audit.acting(reason="its password=hunter22", selector='{"text":"door 7"}'):
        app.queues.pause("slow")
    dashboard = Dashboard(app, authenticate=lambda _: Identity("anna", [role]))
    for path in ("/audit", "/api/v1/audit"):
        shown = get(dashboard, path).body
        assert ("hunter22" in shown, "password=hidden" in shown) == (False, True)
        assert ("door 7" in shown) is is_shown


def test_markup_of_users_is_shown_as_text_on_every_page(app: App) -> None:
    ids, dashboard = _fill(app), Dashboard(app)
    pages = [*LISTS, f"/jobs?task={quote(EVIL)}&tag={quote(EVIL)}", "/jobs/" + quote(EVIL, safe="")]
    pages += [*(f"/jobs/{ids[each]}" for each in ("failed", "done", "waiting")), f"/workflows/{ids['flow']}"]
    pages += ["/queues/slow", "/schedules/refresh", f"/errors/{app.jobs.get(ids['failed']).error_key}"]
    seen = "".join(_assert_nothing_runs(get(dashboard, path)).text for path in pages)
    assert seen.count("onerror=alert(7)") > 8


def test_each_page_shows_what_is_in_the_store(app: App) -> None:
    ids, dashboard = _fill(app), Dashboard(app)
    for path, words in {
        "/": ["The queue slow has been paused", "PENDING", "FINISHED"],
        "/jobs": ["fails", "echo", "HANDLER_ERROR ValueError"],
        "/jobs?state=failed&reason=HANDLER_ERROR": ["fails", "holdfast jobs list --state failed --reason HANDLER_ERROR"],
        "/jobs?state=held": ["No job is held."],
        "/queues": ["slow", "paused"],
        "/queues/slow": [
            "Paused by",
            "No jobs are due. No jobs run.",
            "Limit of all jobs: 5 at once",
            "Its slots are free",
            "scheduled",
        ],
        f"/errors/{app.jobs.get(ids['failed']).error_key}": ["One job of fails failed with it", "The newest:", "HANDLER_ERROR"],
        "/schedules": ["refresh", "echo", "skip"],
        "/schedules/refresh": ["Its next tick is in", "the newest one missed tick", "It has not ticked yet"],
        "/limits": ["5 at once, 100/m starts", "all jobs"],
        "/workflows": ["release", "completed"],
        f"/workflows/{ids['flow']}": ["2 of 2 nodes have ended", "build", "ship"],
        f"/jobs/{ids['done']}": ["Completed on its first attempt", "Result"],
        f"/jobs/{ids['failed']}": ["Failed on its first attempt", "traceback", "1 of 1", "Checkpoint"],
        f"/jobs/{ids['waiting']}": ["Why is it not running?", "Its first attempt is due in"],
        "/check": ["holdfast check"],
    }.items():
        reply = get(dashboard, path)
        text = _assert_nothing_runs(reply).text
        assert reply.status == 200
        assert [word for word in words if word not in text] == [], path


def test_sensitive_values_are_hidden_also_where_an_error_repeats_them(app: App) -> None:
    ids, dashboard = _fill(app), Dashboard(app)
    page = get(dashboard, f"/jobs/{ids['failed']}").body
    assert "hunter22" not in page
    assert "1 hidden" in page
    assert "hunter22" not in get(dashboard, "/jobs").body


def test_sensitive_headers_are_hidden(app: App) -> None:
    @app.task
    def echo(text: str) -> str:
        return text

    job = echo.options(headers={"authorization": "hunter22", "tenant": "acme"}).enqueue("a")
    page = get(Dashboard(app), f"/jobs/{job.id}").body
    assert "acme" in page
    assert "hunter22" not in page


def test_a_late_result_is_redacted_as_a_result(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.task(sensitive=("pin",))
    def pay() -> int:
        return 1

    job = pay.enqueue()
    late = {"card": "4111 1111", "pin": 9988, "note": "ours", "paid": "today"}
    begun = {"worker": "w", "started_at": None, "ended_at": None, "signal": None, "stacks": None, "error": None}
    attempt = AttemptView(attempt=1, outcome=AttemptOutcome.CRASHED, late_result=late, **begun)
    found = structs.replace(app.jobs.get(job.id), attempts=(attempt,), attempt=1)

    async def aget(_: object) -> JobView:
        return found

    monkeypatch.setattr(app.jobs, "aget", aget)
    dashboard = Dashboard(app, redact=lambda task, path, value: "ask us" if path == "late_result.note" else value)
    for path in (f"/jobs/{job.id}", f"/api/v1/jobs/{job.id}/story"):
        shown = get(dashboard, path).body
        assert [word for word in ("4111", "9988", "ours", "ask us", "today") if word in shown] == ["ask us", "today"]


def test_a_workflow_shows_no_sensitive_value_that_an_error_repeats(app: App) -> None:
    @app.task(max_attempts=1)
    def fails(card: str) -> None:
        raise ValueError(f"bad {card}")

    with app.workflow("release") as flow:
        flow.add(fails.bind("4111-1111"), name="pay")
    app.run_due()
    shown = get(Dashboard(app), f"/api/v1/workflows/{flow.handle.id}").body
    assert ("4111" in shown, "bad hidden" in shown) == (False, True)


@pytest.mark.parametrize(("role", "is_shown"), [("viewer", False), ("operator", True)])
def test_an_explanation_has_the_message_of_an_error_only_with_the_right_to_read_it(
    app: App, monkeypatch: pytest.MonkeyPatch, role: str, is_shown: bool
) -> None:
    @app.task
    def echo(text: str) -> str:
        return text

    error = Failure(RUNNER_UNAVAILABLE, "db7 refused us")
    job = structs.replace(app.jobs.get(echo.enqueue("a").id), error=error)
    cause = Cause(Code.AT_CAPACITY, f"it could start no process: {error.message}", "wait")

    async def aget(_: object) -> JobView:
        return job

    async def aexplain(_: object) -> Explanation:
        return Explanation(job.state, cause.message, (cause,))

    monkeypatch.setattr(app.jobs, "aget", aget)
    monkeypatch.setattr(app.jobs, "aexplain", aexplain)
    dashboard = Dashboard(app, authenticate=lambda _: Identity("anna", [role]))
    for path in (f"/jobs/{job.id}", f"/api/v1/jobs/{job.id}/explanation"):
        shown = get(dashboard, path).body
        assert "it could start no process" in shown
        assert ("db7" in shown) is is_shown


def test_the_picture_of_a_workflow_is_a_document_without_scripts(app: App) -> None:
    reply = get(Dashboard(app), f"/workflows/{_fill(app)['flow']}/picture.svg")
    assert reply.headers["content-type"].startswith("image/svg+xml")
    assert "script-src" not in reply.headers["content-security-policy"]
    assert reply.body.startswith("<svg")
    assert "<script" not in reply.body


def test_jobs_are_listed_in_pages_without_gaps(app: App) -> None:
    @app.task
    def echo(text: str) -> str:
        return text

    ids = [str(echo.enqueue(str(n)).id) for n in range(120)]
    dashboard, path, seen = Dashboard(app), "/jobs?task=echo", list[str]()
    while path:
        page = Elements(get(dashboard, path).body)
        seen += [link.removeprefix("/jobs/") for link in page.links() if link.startswith("/jobs/")]
        path = next((attrs["href"] or "" for _, attrs in page.found if attrs.get("rel") == "next"), "")
    assert seen == ids[::-1]


def test_links_stay_below_the_path_where_it_is_mounted(app: App) -> None:
    ids, dashboard = _fill(app), Dashboard(app)
    for path in (*LISTS, f"/jobs/{ids['failed']}", f"/workflows/{ids['flow']}"):
        links = Elements(get(dashboard, path, root="/admin/work").body).links()
        assert [link for link in links if not link.startswith(("/admin/work/", "#", "data:image/"))] == [], path


def test_watched_tables_show_what_is_due_and_stuck(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        connection.execute("CREATE TABLE pastes (id INTEGER PRIMARY KEY, status TEXT, taken_at TEXT)")
        rows = [("LIVE", None), ("LIVE", None), ("TAKEN", "2020-01-01 00:00:00"), ("GONE", None)]
        connection.executemany("INSERT INTO pastes (status, taken_at) VALUES (?, ?)", rows)
    app = App(f"sqlite:///{tmp_path}/shop.db")
    app.migrate()
    states = {"pending": "LIVE", "in_progress": "TAKEN", "done": "GONE"}
    app.rows("pastes", key="id", status="status", claimed_at="taken_at", where="1", **states)
    page = Elements(get(Dashboard(app), "/rows").body).text
    acting = get(Dashboard(app, actions=True), "/rows").body
    assert "/actions/rows/reset?name=pastes" in acting
    app.close()
    assert re.search(r"pastespastes21\d+ d[\dh ]*GONE 1, LIVE 2, TAKEN 1no owner 1", page)


def test_an_error_leads_to_the_jobs_that_failed_by_it(app: App) -> None:
    ids, dashboard = _fill(app), Dashboard(app)
    page = ""
    for part in ("/errors/", "error="):
        links = {
            str(attrs["href"])
            for _, attrs in Elements(page or get(dashboard, "/errors").body).found
            if part in str(attrs.get("href"))
        }
        page = get(dashboard, links.pop()).body
        assert not links
    found = page
    assert ids["failed"] in found
    assert ids["done"] not in found
    assert f"--error {app.jobs.get(ids['failed']).error_key}" in found


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/jobs/01890000-0000-7000-8000-000000000000", 404, "it was pruned"),
        ("/jobs/no-id", 404, "The store has no job no-id"),
        ("/workflows/01890000-0000-7000-8000-000000000000", 404, "The store has no job"),
        ("/queues/none", 404, "The store has no queue none"),
        ("/errors/0123456789abcdef", 404, "The store has no error"),
        ("/schedules/none", 404, "No code declares it"),
        ("/nothing", 404, "has no page"),
        ("/static/secrets", 404, "has no page"),
        ("/jobs?state=odd", 400, "use one of"),
        ("/jobs?cursor=odd", 400, "use the id of the last job"),
    ],
)
def test_what_cannot_be_shown_is_explained(app: App, path: str, status: int, words: str) -> None:
    reply = get(Dashboard(app), path)
    assert reply.status == status
    assert words in _assert_nothing_runs(reply).text


def test_a_store_that_does_not_answer_is_reported_since_when(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    dashboard = Dashboard(app)

    async def fail(*_: object) -> None:
        raise StoreUnavailable("connection refused")

    with monkeypatch.context() as patch:
        patch.setattr("holdfast.dashboard.views.overview.read", fail)
        first, second = get(dashboard, "/"), get(dashboard, "/")
    since = re.findall(r"since (\S+ \S+Z)", first.body + second.body)
    assert first.status == 503
    assert first.headers["retry-after"] == "5"
    assert "connection refused" in _assert_nothing_runs(first).text
    assert len(since) == 2
    assert since[0] == since[1]
    assert get(dashboard, "/").status == 200


@pytest.mark.parametrize("path", [*LISTS, "/static/style.css", "/jobs/x"])
def test_requests_from_elsewhere_are_refused_with_the_reason(app: App, path: str) -> None:
    dashboard = Dashboard(app)
    for reply in (get(dashboard, path, peer="10.0.0.7"), get(dashboard, path, headers=((b"host", b"evil.example"),))):
        assert reply.status == 403
        assert "did not answer" in reply.body
        assert "default-src 'none'" in reply.headers["content-security-policy"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_only_reads_are_answered(app: App, method: str) -> None:
    assert get(Dashboard(app), "/jobs", method=method).status == 405
    assert get(Dashboard(app), "/jobs", method="HEAD").status == 200


def test_templates_escape_everything_and_have_no_script_or_style() -> None:
    files = [each for each in resources.files("holdfast.dashboard").joinpath("templates").iterdir() if each.is_file()]
    assert len(files) > 8
    for each in files:
        text = each.read_text("utf-8")
        assert not re.search(r"\|\s*safe\b|autoescape|<style|\sstyle=|<script(?! src=)|\son\w+=", text), each.name


def test_a_mounted_dashboard_works_in_the_loop_of_its_program(app: App) -> None:
    async def program() -> list[int]:
        statuses = [(await ask(Dashboard(app), path)).status for path in LISTS]
        await app.aclose()
        return statuses

    assert asyncio.run(program()) == [200] * len(LISTS)


def test_a_list_with_rare_conditions_shows_how_far_it_looked(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    rare = app.enqueue("rare").id
    for _ in range(4):
        app.enqueue("common")
    monkeypatch.setattr("holdfast.dashboard.views.jobs.MOST_LOOKED", 3)
    reply = get(Dashboard(app), "/jobs?text=RARE")
    assert "looked at 3 jobs, back to" in reply.body
    (further,) = re.findall(r'href="([^"]+)">Go on', reply.body)
    assert str(rare) in get(Dashboard(app), further.replace("&amp;", "&")).body
    assert "--text RARE" in reply.body


def test_pages_and_answers_are_compressed_but_no_page_with_a_form_and_no_stream(app: App) -> None:
    job, dashboard = _fill(app)["waiting"], Dashboard(app, actions=True)
    headers = (OWN, (b"accept-encoding", b"gzip"))

    async def encoded(path: str) -> str:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.disconnect"} if sent else {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        where, _, query = path.partition("?")
        scope = {"type": "http", "method": "GET", "path": where, "query_string": query.encode(), "headers": [*headers]}
        await dashboard({**scope, "client": ("127.0.0.1", 1), "scheme": "http", "root_path": ""}, receive, send)
        return dict(sent[0]["headers"]).get(b"content-encoding", b"none").decode()

    paths = ("/", f"/jobs/{job}", "/api/v1/openapi.json", "/static/style.css", f"/actions/job/cancel?name={job}")
    assert [asyncio.run(encoded(path)) for path in paths] == ["gzip"] * 4 + ["none"]


def test_one_line_chooses_jobs_and_is_shown_again(app: App) -> None:
    _fill(app)
    dashboard = Dashboard(app, actions=True)

    def rows(line: str) -> tuple[int, str, set[str]]:
        page = Elements(get(dashboard, f"/jobs?q={quote(line)}").body)
        (shown,) = [attrs["value"] for tag, attrs in page.found if tag == "input" and attrs.get("name") == "q"]
        links = {link.partition("?")[0] for link in page.links()}
        return sum(1 for link in links if re.fullmatch(r"/jobs/[0-9a-f-]{36}", link)), str(shown), links

    assert rows("state:failed task:fails since:24h ValueError")[:2] == (1, "state:failed task:fails since:24h ValueError")
    assert rows("task:echo state:completed")[:2] == (3, "state:completed task:echo")
    assert rows("since:24h older:1h")[0] == 0
    assert "/actions/jobs/retry" in rows("state:failed since:24h")[2]
    command = re.search(r"<code>(holdfast jobs list .*?)</code>", get(dashboard, "/jobs?q=state:failed+since:24h").body)
    assert command is not None
    assert re.fullmatch(r"holdfast jobs list --state failed --finished-after 20\S+", command[1])
    for line, problem in (
        ("tusk:a", "write task:a"),
        ("since:soon", "use a number and a unit"),
        ('"a', "close it"),
        ("state:odd", "use one of"),
    ):
        reply = get(dashboard, f"/jobs?q={quote(line)}")
        assert (reply.status, problem in Elements(reply.body).text) == (400, True), line


@pytest.mark.parametrize("line", ["state:failed,held task:mail boom", 'key:"a b" since:24h', 'text "task:x y"', "a 'quote' \\"])
def test_a_line_is_read_as_it_was_written(line: str) -> None:
    try:
        found = conditions_in(line)
    except ConfigurationError:
        assert line.count("'") % 2 == 1 or line.endswith("\\")
    else:
        assert conditions_in(line_of(found)) == found


def test_the_theme_is_remembered_by_the_browser_and_sent_with_each_page(app: App) -> None:
    dashboard = Dashboard(app)
    for root in ("", "/tools/jobs"):
        chosen = get(dashboard, f"/theme/dark?back={quote('/jobs?state=failed')}", root=root)
        assert (chosen.status, chosen.headers["location"]) == (303, f"{root}/jobs?state=failed")
        cookie = chosen.headers["set-cookie"]
        assert f"holdfast_theme=dark; HttpOnly; Max-Age=31536000; Path={root or '/'}; SameSite=strict" in cookie
    for theme, shown in (("dark", 'data-theme="dark"'), ("light", 'data-theme="light"'), ('"><script>', '<html lang="en">')):
        assert shown in get(dashboard, "/jobs", headers=(OWN, (b"cookie", f"holdfast_theme={theme}".encode()))).body
    assert "Max-Age=0" in get(dashboard, "/theme/auto").headers["set-cookie"]
    for back in ("//evil.example", "https://evil.example", "/\\\\evil.example"):
        assert get(dashboard, f"/theme/light?back={quote(back)}").headers["location"] == "/"


def test_the_library_that_changes_pages_in_place_is_the_one_that_its_licence_names() -> None:
    folder = resources.files("holdfast.dashboard").joinpath("static")
    digest = sha256(folder.joinpath("idiomorph.js").read_bytes()).hexdigest()
    licence = folder.joinpath("idiomorph.LICENSE.txt").read_text()
    assert f"sha256 {digest}" in licence
    assert "Zero-Clause BSD" in licence


def test_the_page_of_a_job_that_is_gone_shows_when_its_id_was_made_and_how_long_jobs_are_kept(app: App) -> None:
    job = app.task(lambda: None, name="brief", retention="2h").enqueue()
    app.jobs.delete(job.id)
    text = Elements(get(Dashboard(app), f"/jobs/{job.id}").body).text
    assert re.search(r"Its id was made on 20\d\d-\d\d-\d\d at \d\d:\d\dZ", text)
    assert "brief 2 h" in text


def test_the_short_id_of_one_job_leads_to_its_page(app: App) -> None:
    job = app.task(lambda: None, name="brief").enqueue()
    reply = get(Dashboard(app), f"/jobs/{job.id.hex[-6:]}")
    assert (reply.status, reply.headers["location"]) == (303, f"/jobs/{job.id}")
    other = app.task(lambda: None, name="other").enqueue()
    part = job.id.hex[:4]
    assert other.id.hex.startswith(part)
    assert get(Dashboard(app), f"/jobs/{part}").status == 404


def test_a_refusal_names_who_what_and_the_roles_that_may(app: App) -> None:
    dashboard = Dashboard(app, authenticate=lambda _: Identity("vera", ["viewer"]), actions=True)
    refused = get(dashboard, "/actions/queue/pause?name=mail")
    assert refused.status == 403
    text = _assert_nothing_runs(refused).text
    assert "vera may not pause /queues/mail." in text
    assert "That needs one of the roles operator." in text
