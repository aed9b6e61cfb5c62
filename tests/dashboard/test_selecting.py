"""Actions on jobs that are ticked in the list: without scripts, by role, and only on jobs that are still as they were seen."""

import asyncio
from typing import Any
from urllib.parse import urlencode

import pytest

from holdfast import App
from holdfast.dashboard import Dashboard, Identity
from tests.dashboard.browser import Elements, Reply, get
from tests.dashboard.test_actions import Person


@pytest.fixture
def anna(app: App) -> Person:
    return Person(Dashboard(app, actions=True))


def boxes(body: str) -> dict[str, str]:
    """Return the values of the checkboxes of rows by their labels."""
    ticked = [attrs for tag, attrs in Elements(body).found if tag == "input" and attrs.get("name") == "job"]
    assert all(attrs["form"] == "selected" and attrs["type"] == "checkbox" for attrs in ticked)
    return {str(attrs["aria-label"]): str(attrs["value"]) for attrs in ticked}


def verbs(body: str) -> list[str]:
    """Return the actions on ticked jobs."""
    found = [str(attrs.get("formaction")) for tag, attrs in Elements(body).found if tag == "button"]
    return [each.rpartition("/")[2] for each in found if "/actions/selected/" in each]


def ticked(page: Reply, verb: str, *jobs: Any) -> str:
    """Return the address that a browser asks for when a person has ticked the jobs and presses the button."""
    values = {value.partition(":")[0]: value for value in boxes(page.body).values()}
    return f"/actions/selected/{verb}?" + urlencode([("job", values[str(job.id)]) for job in jobs])


def confirm(anna: Person, page: Reply, **typed: str) -> str:
    """Send a confirmation; return what the page of the operation shows in the end."""

    async def act() -> str:
        begun = await anna.asend(page, **typed)
        assert begun.status == 303, Elements(begun.body).text
        while "Stop" in (shown := await anna.aopen(begun.headers["location"])).body:
            await asyncio.wait_for(asyncio.shield(asyncio.get_running_loop().run_in_executor(None, lambda: None)), 5)
        return Elements(shown.body).text

    return asyncio.run(act())


def test_rows_have_labelled_boxes_if_the_reader_may_act(app: App, anna: Person) -> None:
    job = app.enqueue("mail", to="a")
    page = anna.open("/jobs").body
    assert boxes(page) == {f"Select mail {str(job.id)[-6:]}": f"{job.id}:available"}
    assert verbs(page) == ["cancel", "reschedule", "delete"]
    for dashboard in (Dashboard(app), Dashboard(app, authenticate=lambda _: Identity("eve", ["viewer"]), actions=True)):
        read = get(dashboard, "/jobs").body
        assert (boxes(read), verbs(read), "checkbox" in read) == ({}, [], False)
    operator = Person(Dashboard(app, authenticate=lambda _: Identity("bob", ["operator"]), actions=True))
    assert verbs(operator.open("/jobs").body) == ["cancel", "reschedule"]
    assert operator.open(ticked(operator.open("/jobs"), "delete", job)).status == 403


def test_only_ticked_jobs_are_retried_and_recorded_by_id(app: App, anna: Person) -> None:
    failed = [app.enqueue("mail", to="nowhere") for _ in range(3)]
    app.run_due()
    asked = anna.open(ticked(anna.open("/jobs?state=failed"), "retry", *failed[:2]))
    text = Elements(asked.body).text
    assert "Retry: 2 selected jobs" in text
    assert "You selected 2 failed. A job that has moved on is left alone." in text
    assert "with all of its attempts" in text
    assert "What its code did before is not undone." in text
    assert app.jobs.counts()["failed"] == 3
    assert "2 of 2 jobs changed." in confirm(anna, asked, reason="the relay is back")
    assert [app.jobs.get(job.id).state for job in failed] == ["available", "available", "failed"]
    (entry,) = app.audit.list()
    assert (entry.action, entry.count, entry.reason, entry.who, entry.origin) == (
        "retry",
        2,
        "the relay is back",
        "local",
        "dashboard",
    )
    assert all(str(job.id) in entry.selector for job in failed[:2])
    assert str(failed[2].id) not in entry.selector


def test_the_right_is_asked_for_each_ticked_job(app: App) -> None:
    mine, protected = (app.enqueue("mail", to=to) for to in "ab")
    refuses = Dashboard(
        app, actions=True, authorize=lambda _, action, target: action == "read" or str(protected.id) not in target
    )
    person = Person(refuses)
    page = person.open("/jobs")
    assert person.open(ticked(page, "cancel", mine)).status == 200
    assert person.open(ticked(page, "cancel", mine, protected)).status == 403


def test_a_job_that_moved_on_and_one_that_does_not_fit_are_left_alone(app: App, anna: Person) -> None:
    failed, moved = (app.enqueue("mail", to="nowhere") for _ in range(2))
    app.run_due()
    waiting = app.enqueue("mail", to="b")
    page = anna.open("/jobs")
    asked = anna.open(ticked(page, "delete", failed, moved, waiting))
    app.jobs.retry(moved.id)
    assert "2 of 3 jobs changed. 1 had moved on, or it did not fit them." in confirm(anna, asked)
    assert [each.id for each in app.jobs.list()] == [moved.id]
    again = anna.open(ticked(page, "cancel", failed, waiting))
    text = Elements(again.body).text
    assert "You selected 1 available and 1 failed. 1 of them stays as it is: this does not fit its state." in text
    assert "Cancel: 1 selected job" in text
    assert "0 of 1 jobs changed." in confirm(anna, again)  # both are deleted by now


def test_a_cancel_also_ends_a_job_that_has_begun_to_wait_for_a_time(app: App, anna: Person) -> None:
    job = app.enqueue("mail", to="a")
    asked = anna.open(ticked(anna.open("/jobs"), "cancel", job))
    app.jobs.reschedule(job.id, delay="10m")
    assert app.jobs.get(job.id).state == "scheduled"
    assert "1 of 1 jobs changed." in confirm(anna, asked)
    assert app.jobs.get(job.id).state == "cancelled"


def test_a_reschedule_of_ticked_jobs_needs_its_time(app: App, anna: Person) -> None:
    job = app.enqueue("mail", to="a")
    asked = anna.open(ticked(anna.open("/jobs"), "reschedule", job))
    assert anna.send(asked, delay="").status == 422
    for path in (ticked(anna.open("/jobs"), "reschedule", job), anna.buttons("/jobs?state=available")["jobs/reschedule"]):
        refused = anna.send(anna.open(path), delay="soon")
        assert (refused.status, "use a number and a unit" in Elements(refused.body).text) == (422, True)
    assert "1 of 1 jobs changed." in confirm(anna, asked, delay="10m")
    assert app.jobs.get(job.id).state == "scheduled"


@pytest.mark.parametrize("query", ["", "job=x:failed", "job={id}", "job={id}:lost", "many"])
def test_a_selection_that_cannot_be_read_changes_nothing(app: App, anna: Person, query: str) -> None:
    job = app.enqueue("mail", to="a")
    many = urlencode([("job", f"00000000-0000-0000-0000-{number:012}:available") for number in range(51)])
    query = many if query == "many" else query.format(id=job.id)
    page = anna.open(f"/actions/selected/delete?{query}")
    assert page.status == 400
    assert "No job is selected" in page.body or "cannot be shown" in page.body
    proper = anna.open(ticked(anna.open("/jobs"), "delete", job))
    assert anna.send(proper, job="").status == 400
    assert app.jobs.counts()["available"] == 1


def test_ticks_work_below_the_path_where_the_pages_are_mounted(app: App) -> None:
    app.enqueue("mail", to="a")
    mounted = Person(Dashboard(app, actions=True), root="/admin/work")
    body = mounted.open("/jobs").body
    assert 'formaction="/admin/work/actions/selected/cancel"' in body
