"""The management API over real HTTP: lists, one job, many jobs, and everything beside jobs."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from holdfast._core.history import MinuteNote, TaskMinute
from holdfast._core.job import RescueReason
from holdfast._core.lifecycle import LeaseEnd, rescue
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest
from holdfast._system.clock import SystemClock
from holdfast.http.identity import LOCAL
from holdfast.http.tokens import Tokens, new_token
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance, FakeClock
from tests.broker.support import RunningBroker, running
from tests.broker.test_api import VIEWER, WORKER, Caller, Reply
from tests.e2e.waiting import until
from tests.engine.support import LEASE
from tests.event_loops import run

CRASH = LeaseEnd(RescueReason.CRASHED, "SIGKILL")
OPERATOR = new_token("anna", "operator", FakeChance(7))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def broker(clock: FakeClock) -> Iterator[RunningBroker]:
    with running(MemoryStore(clock), clock) as broker:
        yield broker


@pytest.fixture
def api(broker: RunningBroker) -> Caller:
    return Caller(broker.url)


def _submit(api: Caller, number: int, task: str = "t", **options: object) -> list[str]:
    found: list[str] = []
    for start in range(0, number, 1000):
        body = [{"task": task, "options": options} for _ in range(start, min(start + 1000, number))]
        found += [each["id"] for each in api.post("/jobs", body).body]
    return found


def _fail(api: Caller, number: int, task: str = "t") -> None:
    for _ in range(number):
        claimed = api.claim(task)
        error = {"type": "KeyError", "message": "shelf 7 of x1y2z3"}
        assert api.about(claimed, "fail", error=error, retry=False).status == 200


def test_pages_of_a_list_neither_skip_nor_repeat_while_jobs_come(api: Caller) -> None:
    there = _submit(api, 25)
    found, cursor = [], ""
    while cursor is not None:
        page = api.get(f"/jobs?limit=10{cursor and f'&cursor={cursor}'}").body
        found += [each["id"] for each in page["items"]]
        cursor = page["next"]
        assert page["complete"] is (cursor is None)
        _submit(api, 1)
    assert found == [*reversed(there)]


@pytest.mark.prove
def test_pages_neither_skip_nor_repeat_while_a_thousand_jobs_a_second_come_and_go(api: Caller) -> None:
    there, stop, made, clock = _submit(api, 10_000), threading.Event(), list[int](), SystemClock()

    def come_and_go() -> None:
        began = clock.monotonic()
        while not stop.is_set():
            made.append(len(_submit(api, 200, "brief")))
            until = api.get("/jobs?task=brief&limit=1").body["items"][0]["created_at"]
            assert api.post("/jobs/actions", {"action": "delete", "selector": {"task": "brief"}, "up_to": until}).status == 200
        rates.append(sum(made) / (clock.monotonic() - began))

    rates = list[float]()
    thread = threading.Thread(target=come_and_go)
    thread.start()
    found, cursor = [], ""
    while cursor is not None:
        page = api.get(f"/jobs?limit=100{cursor and f'&cursor={cursor}'}").body
        found += [each["id"] for each in page["items"]]
        cursor = page["next"]
    stop.set()
    thread.join()
    assert len(found) == len(set(found))
    assert [each for each in found if each in set(there)] == [*reversed(there)]
    assert rates[0] > 1000


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("tusk=mail", "/tusk"),
        ("state=lost", "/state"),
        ("limit=501", "/limit"),
        ("attempts_at_least=99999999999999999999", "/attempts_at_least"),
        ("created_after=2030-01-31", "/created_after"),
        ("cursor=abc", "/cursor"),
        ("state=held&state=failed", ""),
        ("queue=a%20b", "/queue"),
    ],
)
def test_a_filter_that_cannot_be_read_is_a_problem_that_names_the_field(api: Caller, query: str, pointer: str) -> None:
    answer = api.get(f"/jobs?{query}")
    assert (answer.status, answer.body["code"]) == (422, "invalid")
    assert answer.body["remedy"]
    assert [each["pointer"] for each in answer.body["problems"]] == [pointer]


def test_a_filter_takes_several_values(api: Caller) -> None:
    (first, second, _) = _submit(api, 3)
    api.post(f"/jobs/{first}/cancel", {})
    _fail(api, 1)
    found = api.get("/jobs?state=cancelled,failed").body["items"]
    assert {each["id"]: each["state"] for each in found} == {first: "cancelled", second: "failed"}


def test_a_page_with_rare_conditions_ends_after_a_bounded_look_and_its_cursor_goes_on(
    api: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.http.job_resources.MOST_LOOKED", 3)
    (rare,) = _submit(api, 1, "rare")
    newer = _submit(api, 4)
    page = api.get("/jobs?task=rare").body
    assert (page["items"], page["complete"]) == ([], False)
    assert page["looked_back_to"] == api.get(f"/jobs/{newer[1]}").body["created_at"]
    page = api.get(f"/jobs?task=rare&cursor={page['next']}").body
    assert ([each["id"] for each in page["items"]], page["complete"], page["next"]) == ([rare], True, None)


def test_a_cursor_is_of_one_filter(api: Caller) -> None:
    _submit(api, 3)
    cursor = api.get("/jobs?limit=1").body["next"]
    assert api.get(f"/jobs?limit=1&cursor={cursor}").status == 200
    assert api.get(f"/jobs?limit=1&task=t&cursor={cursor}").status == 422


def test_data_and_messages_are_shown_only_with_the_right_to_read_them(clock: FakeClock) -> None:
    tokens = Tokens.parse(f"{VIEWER[1]}\n{OPERATOR[1]}")
    with running(MemoryStore(clock), clock, authenticate=tokens) as broker:
        anna, viewer = Caller(broker.url, OPERATOR[0]), Caller(broker.url, VIEWER[0])
        job = anna.post("/jobs", {"task": "t", "payload": {"a": 1, "password": "x1y2z3"}}).body["id"]
        assert "payload" not in anna.get(f"/jobs/{job}").body
        assert anna.get(f"/jobs/{job}?include=payload").body["payload"] == {"a": 1, "password": "hidden"}
        refused = viewer.get(f"/jobs/{job}?include=payload")
        assert (refused.status, refused.body["code"]) == (403, "forbidden")
        assert viewer.get(f"/jobs/{job}").status == 200
        assert viewer.post(f"/jobs/{job}/retry", {}).status == 403
        assert anna.send("DELETE", f"/jobs/{job}", None).status == 403
        mine, hers = viewer.get("/").body, anna.get("/").body
        assert (mine["may"], mine["identity"]) == (["read"], "viewer")
        assert {"cancel", "delete"} & set(hers["may"]) == {"cancel"}


def test_messages_of_errors_are_shown_only_with_the_right_to_read_them(clock: FakeClock) -> None:
    tokens = Tokens.parse("\n".join(line for _, line in (VIEWER, OPERATOR, WORKER)))
    with running(MemoryStore(clock), clock, authenticate=tokens) as broker:
        anna, viewer = Caller(broker.url, OPERATOR[0]), Caller(broker.url, VIEWER[0])
        job = anna.post("/jobs", {"task": "t", "payload": {"api_key": "x1y2z3"}}).body["id"]
        _fail(Caller(broker.url, WORKER[0]), 1)
        paths = (f"/jobs/{job}", f"/jobs/{job}/story", f"/jobs/{job}/explanation", "/jobs", "/errors")
        seen, by_anna = ([json.dumps(each.get(path).body) for path in paths] for each in (viewer, anna))
        assert all("KeyError" in text for text in seen[:2])
        assert not [text for text in seen if "shelf 7" in text]
        assert not [text for text in by_anna if "x1y2z3" in text]
        assert [path for path, text in zip(paths, by_anna, strict=True) if "shelf 7" in text] == [paths[0], paths[1], "/errors"]


def test_if_match_keeps_a_job_that_has_moved(api: Caller) -> None:
    (job,) = _submit(api, 1)
    tag = api.get(f"/jobs/{job}").headers["etag"]
    claimed = api.claim()
    refused = api.post(f"/jobs/{job}/cancel", {}, If_Match=tag)
    assert (refused.status, refused.body["code"]) == (412, "moved")
    assert api.about(claimed, "heartbeat").body["cancel_requested"] is False
    assert api.post(f"/jobs/{job}/cancel", {}, If_Match=api.get(f"/jobs/{job}").headers["etag"]).status == 200
    assert api.about(claimed, "heartbeat").body["cancel_requested"] is True


def test_a_verb_that_does_not_fit_the_state_is_a_conflict(api: Caller) -> None:
    (job,) = _submit(api, 1)
    api.claim()
    for answer in (api.post(f"/jobs/{job}/retry", {}), api.post(f"/jobs/{job}/reschedule", {"delay": "1h"})):
        assert (answer.status, answer.body["code"]) == (409, "wrong_state")
    assert api.send("DELETE", f"/jobs/{job}", None).status == 409


def test_one_job_is_cancelled_retried_moved_and_deleted(api: Caller) -> None:
    (job,) = _submit(api, 1)
    assert api.send("POST", f"/jobs/{job}/cancel", None).body == {"state": "cancelled"}
    assert api.post(f"/jobs/{job}/retry", {"reason": "the shop is up again"}).body == {"state": "available"}
    assert api.post(f"/jobs/{job}/reschedule", {"delay": "1h"}).body == {"state": "scheduled"}
    assert api.get(f"/jobs/{job}/explanation").body["state"] == "scheduled"
    assert api.send("DELETE", f"/jobs/{job}?reason=gone", None).status == 204
    assert api.get(f"/jobs/{job}").status == 404


def test_an_action_on_a_selector_leaves_what_came_later(api: Caller, clock: FakeClock) -> None:
    _submit(api, 3)
    _fail(api, 3)
    clock.advance(5)
    seen = datetime.fromtimestamp(clock.wall(), UTC).isoformat()
    clock.advance(5)
    _submit(api, 2)
    _fail(api, 2)
    body: dict[str, Any] = {"action": "retry", "selector": {"state": "failed"}, "up_to": seen}
    dry = api.post("/jobs/actions", body | {"dry_run": True}).body
    assert (dry["jobs"], dry["complete"]) == (3, True)
    done = api.post("/jobs/actions", body).body
    assert (done["changed"], done["refused"], done["states"]) == (3, 0, {"available": 3})
    assert api.get("/counts").body["failed"] == 2


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"action": "cancel", "selector": {}}, "all=true"),
        ({"action": "retry", "selector": {"all": True}}, "completed jobs"),
        ({"action": "cancel", "selector": {"tusk": "t"}}, "tusk"),
        ({"action": "reschedule", "selector": {"task": "t"}}, "run_at"),
        ({"action": "purge", "selector": {"task": "t"}}, "purge"),
    ],
)
def test_an_action_that_does_not_say_what_it_is_for_changes_nothing(api: Caller, body: object, word: str) -> None:
    _submit(api, 1)
    answer = api.post("/jobs/actions", body)
    assert answer.status == 422
    assert word in answer.body["detail"]
    assert api.get("/counts").body["available"] == 1


def _ended(api: Caller, place: str) -> Any:
    found: list[Reply] = []

    def has_ended() -> bool:
        found[:] = [api.get(place.removeprefix("/api/v1"))]
        return bool(found[0].body["phase"] != "running" and found[0].body["ended_at"])

    until(has_ended, within=20.0)
    return found[0].body


def test_more_than_a_thousand_jobs_become_an_operation(api: Caller) -> None:
    _submit(api, 2100)
    answer = api.post("/jobs/actions", {"action": "cancel", "selector": {"task": "t"}, "reason": "wrong list"})
    assert answer.status == 202
    done = _ended(api, answer.headers["location"])
    assert (done["phase"], done["expected"], done["reason"]) == ("completed", 2100, "wrong list")
    assert (done["done"]["changed"], done["done"]["states"]) == (2100, {"cancelled": 2100})
    assert [each["id"] for each in api.get("/operations").body["items"]] == [done["id"]]
    (entry,) = api.get("/audit?action=cancel").body["items"]
    assert (entry["id"], entry["who"], entry["origin"]) == (done["id"], "local", "api")
    assert (entry["count"], entry["reason"]) == (2100, "wrong list")
    assert json.loads(entry["selector"])["task"] == "t"


def test_what_was_done_is_listed_with_who_did_it_and_why(api: Caller) -> None:
    (job,) = _submit(api, 1)
    api.post(f"/jobs/{job}/cancel", {"reason": "a duplicate"})
    api.post("/queues/mail/pause", {"reason": "the relay is down"})
    first = api.get("/audit?limit=1").body
    assert [(each["action"], each["who"], each["origin"], each["reason"]) for each in first["items"]] == [
        ("pause", "local", "api", "the relay is down")
    ]
    (second,) = api.get(f"/audit?limit=1&cursor={first['next']}").body["items"]
    assert (second["action"], second["count"], second["reason"]) == ("cancel", 1, "a duplicate")


def test_an_operation_stops_after_a_batch(api: Caller) -> None:
    _submit(api, 3000)
    place = api.post("/jobs/actions", {"action": "cancel", "selector": {"all": True}}).headers["location"]
    assert api.send("DELETE", place.removeprefix("/api/v1"), None).status == 200
    done = _ended(api, place)
    (entry,) = api.get("/audit?action=stop").body["items"]
    assert place.rpartition("/")[2] in entry["selector"]
    left = api.get("/counts").body["available"]
    assert left % 1000 == 0
    assert done["phase"] == ("stopped" if left else "completed")
    assert done["done"]["changed"] == 3000 - left


def test_queues_show_what_a_scaler_reads(api: Caller, clock: FakeClock) -> None:
    _submit(api, 3, queue="mail")
    clock.advance(10)
    queue = api.get("/queues/mail").body
    assert queue["backlog"] == 3
    assert queue["oldest_waiting"] == pytest.approx(10, rel=0.1)
    assert api.post("/queues/mail/pause", {}).status == 422  # why?
    assert api.post("/queues/mail/pause", {"reason": "the relay is down"}).body == {"queue": "mail", "is_paused": True}
    assert api.get("/queues/mail").body["backlog"] == 0
    assert api.send("POST", "/queues/mail/resume", None).body["is_paused"] is False
    assert api.post("/queues/mail/purge", {}).body == {"queue": "mail", "deleted": 3}
    assert api.get("/queues/other").body["code"] == "not_found"


def test_changes_are_sent_until_the_broker_stops(clock: FakeClock) -> None:
    broker = RunningBroker(MemoryStore(clock), clock)
    (job,) = _submit(Caller(broker.url), 1)
    with urllib.request.urlopen(f"{broker.url}/api/v1/jobs/{job}/events", timeout=20) as events:
        assert [events.readline() for _ in range(4)][2] == b"event: gap\n"
        broker.stop()
        assert events.read().strip() == b""


def test_what_is_not_there_is_404(api: Caller) -> None:
    paths = ["/workers/w", "/schedules/nightly", "/workflows/x", "/errors/abc", "/operations/1"]
    assert [api.get(path).status for path in paths] == [404] * 5
    posts = ["/schedules/nightly/run", "/schedules/nightly/resume", "/workflows/x/cancel"]
    assert [api.post(path, {}).status for path in posts] == [404] * 3
    assert api.post("/limits/queue/mail/reset", {}).status == 422


def test_lists_beside_jobs_answer(api: Caller) -> None:
    for path in ("/queues", "/workers", "/schedules", "/workflows", "/rows", "/limits", "/check"):
        answer = api.get(path)
        assert (answer.status, type(answer.body["items"])) == (200, list)
    assert api.get("/counts?by=queue").status == 200


@pytest.mark.parametrize("path", ["/hints/v1", "/port/v1/queues", "/api/v1/queues/mail/resume"])
def test_a_page_of_another_site_changes_nothing_with_what_its_reader_may_do(clock: FakeClock, path: str) -> None:
    with running(MemoryStore(clock), clock, authenticate=lambda _: LOCAL) as broker:
        request = urllib.request.Request(f"{broker.url}{path}", b"\x80", {"Origin": "https://evil.example"}, method="POST")
        with pytest.raises(urllib.error.HTTPError, match=r"401|403"):
            urllib.request.urlopen(request, timeout=30)


def test_what_workers_did_is_read_in_steps(api: Caller, broker: RunningBroker, clock: FakeClock) -> None:
    task = TaskMinute("mail", "send", {"completed": 120, "failed": 6}, (0, 126), (126,), 2)
    note = MinuteNote(id=UUID(int=9), worker="w", seconds=60.0, slots=10, in_use=4.0, tasks=(task,))
    clock.advance(60.0 - clock.wall() % 60 + 5.0)
    run(broker.store.record_minutes([note]))
    clock.advance(10.0)
    found = api.get("/history?step=60&by=queue").body
    assert (len(found["steps"]), found["step"], found["looked_back_to"]) == (60, 60, None)
    step = found["steps"][-1]
    assert (step["ended"], step["rescued"], step["slots"]) == ({"completed": 2.0, "failed": 0.1}, 2, 10.0)
    assert step["at"] < found["to"]
    assert found["groups"]["mail"][-1]["ended"] == step["ended"]
    end = found["to"].replace("+00:00", "Z")
    assert api.get(f"/history?from={found['from']}&to={end}&step=3600&task=none").body["steps"][0]["ended"] == {}
    for query in ("step=90", "step=30", "from=2026-01-01", "by=worker"):
        assert api.get(f"/history?{query}").status == 422, query


def test_jobs_that_were_taken_from_workers_are_listed_with_the_reason(api: Caller, broker: RunningBroker) -> None:
    (quiet, _, taken), store = _submit(api, 3), broker.store
    request = ClaimRequest(lease=LEASE.id, claim=UUID(int=5), tasks={"t": Policy()}, limit=3)

    async def crash() -> None:
        await store.open_lease(LEASE)
        claims = (await store.exchange([], request)).claims
        await store.end_lease(LEASE.id, CRASH)
        await store.exchange([rescue(claim.job, CRASH, jitter=0.0) for claim in claims if str(claim.job.id) != quiet])

    run(crash())
    first = api.get("/rescues?limit=1").body
    (item,) = first["items"]
    assert (item["job"], item["reason"], item["worker"], item["crashes"]) == (taken, "crashed", LEASE.worker, 1)
    assert len(api.get(f"/rescues?cursor={first['next']}").body["items"]) == 1
