"""What people do on the pages, without scripts: a button, a confirmation, the action."""

import asyncio
import re
from urllib.parse import urlencode
from uuid import UUID

import pytest

from holdfast import App
from holdfast._core.identity import ProcessIdentity
from holdfast._core.requests import NewLease
from holdfast._core.timing import LeaseTiming
from holdfast.app import environment_of
from holdfast.dashboard import Dashboard, Identity
from tests.dashboard.browser import OWN, Elements, Reply, ask, get
from tests.dashboard.test_refusals import FORM


def new_lease(worker: str) -> NewLease:
    """Make the lease of a worker."""
    process = ProcessIdentity("web-1", 42, 7, "boot", "pid:[1]", "time:[1]")
    return NewLease(UUID(int=7), worker, process, LeaseTiming(30.0, 2.0, 1.5), (), ("mail",))


class Person:
    """A browser with cookies, and a person who clicks in it."""

    def __init__(self, dashboard: Dashboard, root: str = "") -> None:
        self._dashboard, self._root, self._cookie = dashboard, root, b""

    def open(self, path: str) -> Reply:
        """Open a page, and keep its cookie."""
        return self._kept(asyncio.run(self.aopen(path)))

    async def aopen(self, path: str) -> Reply:
        return self._kept(await ask(self._dashboard, path, headers=(OWN, (b"cookie", self._cookie)), root=self._root))

    async def asend(self, page: Reply, **typed: str) -> Reply:
        """Send the form of a page with what a person types."""
        found = Elements(page.body).found
        (path,) = [str(attrs["action"]) for tag, attrs in found if tag == "form"]
        fields = {str(attrs["name"]): str(attrs["value"]) for tag, attrs in found if tag == "input"} | typed
        body = urlencode(fields).encode()
        headers = (
            OWN,
            FORM,
            (b"cookie", self._cookie),
            (b"origin", b"http://localhost:8400"),
            (b"content-length", b"%d" % len(body)),
        )
        path = path.removeprefix(self._root)
        return await ask(self._dashboard, path, method="POST", headers=headers, body=body, root=self._root)

    def send(self, page: Reply, **typed: str) -> Reply:
        return asyncio.run(self.asend(page, **typed))

    def buttons(self, path: str) -> dict[str, str]:
        """Return the actions that a page offers beside those on ticked jobs."""
        links = Elements(self.open(path).body).links()
        found = [link.removeprefix(self._root) for link in links if "/actions/" in link and "/selected/" not in link]
        return {link.split("?")[0].removeprefix("/actions/"): link for link in found}

    def _kept(self, reply: Reply) -> Reply:
        if cookie := reply.headers.get("set-cookie"):
            assert "HttpOnly" in cookie
            assert "SameSite=strict" in cookie
            self._cookie = cookie.partition(";")[0].encode()
        return reply


@pytest.fixture
def anna(app: App) -> Person:
    return Person(Dashboard(app, actions=True))


def test_a_page_that_only_reads_offers_no_action(app: App) -> None:
    job = app.enqueue("mail", to="a")
    reader = Person(Dashboard(app))
    for path in ("/", "/jobs", "/jobs?state=available", f"/jobs/{job.id}", "/queues", "/schedules", "/errors"):
        assert reader.buttons(path) == {}
    assert reader.open(f"/actions/job/cancel?name={job.id}").status == 403


def test_buttons_fit_the_state_and_the_role(app: App, anna: Person) -> None:
    waiting, done = app.enqueue("mail", to="a"), app.enqueue("mail", to="b")
    assert set(anna.buttons(f"/jobs/{waiting.id}")) == {"job/cancel", "job/reschedule", "job/delete"}
    app.run_due()
    assert set(anna.buttons(f"/jobs/{done.id}")) == {"job/retry", "job/delete"}
    operator = Person(Dashboard(app, authenticate=lambda _: Identity("bob", ["operator"]), actions=True))
    assert set(operator.buttons(f"/jobs/{done.id}")) == {"job/retry"}
    viewer = Dashboard(app, authenticate=lambda _: Identity("eve", ["viewer"]), actions=True)
    page = get(viewer, f"/jobs/{done.id}").body
    assert "/actions/" not in page
    assert "Payload</h2>" not in page
    assert "shown to operators" in page


def test_a_list_of_several_states_offers_no_action(app: App, anna: Person) -> None:
    app.enqueue("mail", to="a")
    assert anna.open("/jobs?state=available,failed").status == 200
    assert set(anna.buttons("/jobs?state=available,failed")) == {"task/enqueue"}


def test_one_job_is_cancelled_after_a_confirmation(app: App, anna: Person) -> None:
    job = app.enqueue("mail", to="a")
    page = anna.open(anna.buttons(f"/jobs/{job.id}")["job/cancel"])
    assert "can be retried" in page.body
    assert app.jobs.get(job.id).state == "available"
    done = anna.send(page, reason="wrong address")
    assert (done.status, done.headers["location"]) == (303, f"/jobs/{job.id}")
    assert app.jobs.get(job.id).state == "cancelled"
    again = anna.send(anna.open(f"/actions/job/reschedule?name={job.id}"), delay="10m")
    assert again.status == 422
    assert "does not change" in Elements(again.body).text


def test_a_pause_needs_a_reason(app: App, anna: Person) -> None:
    app.enqueue("mail", to="a")
    page = anna.open(anna.buttons("/queues")["queue/pause"])
    assert "1 job waits" in page.body
    assert anna.send(page, reason=" ").status == 422
    assert anna.send(page, reason="the relay is down").headers["location"] == "/queues"
    assert app.queues.list()[0].paused_at is not None
    assert anna.send(anna.open(anna.buttons("/queues")["queue/resume"])).status == 303
    assert app.queues.list()[0].paused_at is None


def test_more_than_a_thousand_jobs_are_deleted_only_if_their_number_is_typed(app: App, anna: Person) -> None:
    for number in range(1001):
        app.enqueue("mail", to=str(number))
    page = anna.open("/actions/queue/purge?name=default")
    assert "cannot be undone" in page.body
    assert anna.send(page, typed="1000").status == 422
    assert app.jobs.counts()["available"] == 1001
    assert anna.send(page, typed="1001").status == 303
    assert app.jobs.counts()["available"] == 0


def test_retry_these_leaves_jobs_that_fail_later(app: App, anna: Person) -> None:
    for _ in range(3):
        app.enqueue("mail", to="nowhere")
    app.run_due()
    page = anna.open(anna.buttons("/errors")["jobs/retry"])
    assert "3 jobs with" in Elements(page.body).text
    app.enqueue("mail", to="nowhere")
    app.run_due()

    async def retry() -> Reply:
        begun = await anna.asend(page, reason="<b>fixed</b>")
        while "running" in (shown := await anna.aopen(begun.headers["location"])).body and "Stop" in shown.body:
            await asyncio.wait_for(asyncio.shield(asyncio.get_running_loop().run_in_executor(None, lambda: None)), 5)
        return shown

    shown = Elements(asyncio.run(retry()).body).text
    assert "3 of 3 jobs changed." in shown
    assert "<b>fixed</b>" in shown  # markup of users is text
    assert (app.jobs.counts()["failed"], app.jobs.counts()["available"]) == (1, 3)


def test_all_that_match_carry_the_filter_and_when_it_was_looked_at(app: App, anna: Person) -> None:
    app.enqueue("mail", to="a")
    links = anna.buttons("/jobs?state=available&task=mail")
    assert set(links) == {"task/enqueue", "jobs/cancel", "jobs/reschedule", "jobs/delete"}
    assert re.search(r"up_to=20\d\d-.*state=available&task=mail", links["jobs/cancel"])
    assert set(anna.buttons("/jobs?task=mail")) == {"task/enqueue"}


def test_actions_work_below_the_path_where_they_are_mounted(app: App) -> None:
    job = app.enqueue("mail", to="a")
    mounted = Person(Dashboard(app, actions=True), root="/admin/work")
    page = mounted.open(mounted.buttons(f"/jobs/{job.id}")["job/cancel"])
    assert mounted.send(page).headers["location"] == f"/admin/work/jobs/{job.id}"


@pytest.mark.parametrize("path", ["/actions/job/purge?name=x", "/actions/job/cancel", "/actions/jobs/cancel", "/operations/x"])
def test_an_address_that_is_none_is_refused(app: App, anna: Person, path: str) -> None:
    assert anna.open(path).status in (400, 404)


def test_a_worker_is_drained_after_a_confirmation(app: App, anna: Person) -> None:
    async def act() -> tuple[Reply, bool, list[bool]]:
        store, lease = environment_of(app).store, new_lease("web-1-42")
        await store.open_lease(lease)
        link = next(link for link in Elements((await anna.aopen("/workers")).body).links() if "worker/drain" in link)
        assert link in Elements((await anna.aopen("/workers/web-1-42")).body).links()
        page = await anna.aopen(link)
        assert "worker web-1-42, which has 0 jobs" in Elements(page.body).text
        done = await anna.asend(page, reason="its host is replaced")
        answer = await store.beat([lease.id])
        is_offered = "worker/drain" in (await anna.aopen("/workers")).body
        return done, is_offered, [lease.id in answer.draining]

    done, is_offered, asked = asyncio.run(act())
    assert (done.status, done.headers["location"], is_offered, asked) == (303, "/workers", False, [True])
    (entry,) = app.audit.list()
    assert (entry.who, entry.action, entry.reason, entry.selector) == (
        "local",
        "drain",
        "its host is replaced",
        '{"worker":"web-1-42"}',
    )


def test_a_job_is_enqueued_with_what_is_wrong_beside_its_field(app: App, anna: Person) -> None:
    page = anna.open(anna.buttons("/jobs")["task/enqueue"])
    assert [attrs for tag, attrs in Elements(page.body).found if tag == "option"] == [{}]
    for typed, field, problem in (
        ({"task": "mail", "payload": "{"}, "payload", "not a JSON object"),
        ({"task": "mail", "payload": "[1]"}, "payload", "not a JSON object"),
        ({"task": "mail", "payload": '{"too": 1}'}, "payload", "too"),
        ({"task": "mail", "payload": '{"to": "a"}', "delay": "soon"}, "delay", "use a number and a unit"),
        ({"task": "nail"}, "task", "choose one"),
    ):
        refused = anna.send(page, **typed)
        beside = re.search(f'<p class="c-failed wrong" id="p-{field}">(.*?)</p>', refused.body)
        assert beside is not None, (typed, refused.body)
        assert (refused.status, problem in beside[1]) == (422, True)
        assert not typed.get("payload") or "textarea" in refused.body
    assert app.jobs.counts()["available"] == 0
    done = anna.send(page, task="mail", payload='{"to": "ada"}', queue="slow", delay="10m", reason="by hand")
    (job,) = app.jobs.list()
    assert (done.status, done.headers["location"]) == (303, f"/jobs/{job.id}")
    assert (job.task, job.queue, job.state, job.payload) == ("mail", "slow", "scheduled", {"to": "ada"})
    (entry,) = app.audit.list()
    assert (entry.action, entry.who, entry.reason, entry.count) == ("enqueue", "local", "by hand", 1)
    assert "task/enqueue" not in get(Dashboard(app), "/jobs").body
