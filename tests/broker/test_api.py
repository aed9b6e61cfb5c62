"""The API for workers and producers in any language, over real HTTP."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from holdfast.http.tokens import Tokens, new_token
from holdfast.settings import Settings
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance, FakeClock
from tests.broker.support import RunningBroker, running
from tests.e2e.waiting import until

CHANCE = FakeChance()
PRODUCER, WORKER, VIEWER = (new_token(role, role, CHANCE) for role in ("producer", "worker", "viewer"))
JSON = "application/json"
TTL = 30.0


class Reply(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str]


class Caller:
    """A program that knows HTTP and JSON only."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._url, self._token = url, token

    def send(self, method: str, path: str, data: bytes | None, **headers: str) -> Reply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named |= {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        request = urllib.request.Request(f"{self._url}/api/v1{path}", data, named, method=method)
        try:
            answer = urllib.request.urlopen(request, timeout=30)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            body = answer.read()
            return Reply(answer.status, json.loads(body) if body else None, dict(answer.headers))

    def post(self, path: str, body: object, **headers: str) -> Reply:
        return self.send("POST", path, json.dumps(body).encode(), Content_Type=JSON, **headers)

    def get(self, path: str) -> Reply:
        return self.send("GET", path, None)

    def submit(self, task: str = "t", **options: object) -> str:
        job: str = self.post("/jobs", {"task": task, "options": options}).body["id"]
        return job

    def claim(self, task: str = "t", **more: object) -> Any:
        (found,) = self.post("/jobs/claim", {"worker": "w", "tasks": [task], **more}).body
        return found

    def about(self, claimed: Any, verb: str, **body: object) -> Reply:
        return self.post(f"/jobs/{claimed['id']}/{verb}", {"token": claimed["token"], **body})


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def broker(store: MemoryStore, clock: FakeClock) -> Iterator[RunningBroker]:
    with running(store, clock, settings=Settings.of("memory://", poll_interval="0.05s")) as broker:
        yield broker


@pytest.fixture
def api(broker: RunningBroker) -> Caller:
    return Caller(broker.url)


def test_a_job_goes_through_all_its_calls(api: Caller) -> None:
    submitted = api.post("/jobs", {"task": "resize", "payload": {"path": "a.png"}, "options": {"max_attempts": 5, "tags": ["x"]}})
    assert (submitted.status, submitted.body["created"]) == (201, True)
    claimed = api.claim("resize")
    assert (claimed["id"], claimed["payload"], claimed["attempt"], claimed["checkpoint"]) == (
        submitted.body["id"],
        {"path": "a.png"},
        1,
        None,
    )
    assert 2 * claimed["beat_within"] < TTL
    beat = api.about(claimed, "heartbeat", progress={"stage": "half", "fraction": 0.5, "message": "…"})
    assert (beat.status, beat.body["cancel_requested"]) == (200, False)
    assert api.about(claimed, "checkpoint", data={"at": 3}).status == 200
    view = api.get(f"/jobs/{claimed['id']}?include=checkpoint").body
    assert (view["state"], view["stage"], view["fraction"], view["checkpoint"], view["worker"], view["max_attempts"]) == (
        "running",
        "half",
        0.5,
        {"at": 3},
        "w",
        5,
    )
    for _ in range(2):  # an answer that was lost is asked for again
        assert api.about(claimed, "complete", result={"ok": True})[:2] == (200, {"state": "completed"})
    assert api.get(f"/jobs/{claimed['id']}?include=result").body["result"] == {"ok": True}
    assert api.about(claimed, "heartbeat").status == 409
    stats = api.get("/stats").body
    assert (stats["jobs"]["completed"], stats["queues"]["default"]["completed"], stats["tasks"]["resize"]["completed"]) == (
        1,
        1,
        1,
    )
    assert stats["workers"] == 0


def test_jobs_go_in_order_and_only_to_workers_of_their_task(api: Caller) -> None:
    first, _, second = api.submit("a"), api.submit("b"), api.submit("a")
    assert [each["id"] for each in api.post("/jobs/claim", {"worker": "w", "tasks": ["a"], "limit": 9}).body] == [first, second]
    assert api.post("/jobs/claim", {"worker": "w", "tasks": ["a", "c"]})[:2] == (204, None)


def test_queues_priorities_and_delays_count(api: Caller, clock: FakeClock) -> None:
    late, urgent = api.submit(delay=60), api.submit(priority=-1)
    other = api.submit(queue="other")
    assert api.claim(queues=["other"])["id"] == other
    assert api.claim()["id"] == urgent
    assert api.post("/jobs/claim", {"worker": "w", "tasks": ["t"]}).status == 204
    clock.advance(61.0)
    assert api.claim()["id"] == late


def test_a_claim_whose_answer_was_lost_gets_the_same_jobs(api: Caller) -> None:
    jobs = [api.submit() for _ in range(3)]
    asked = {"worker": "w", "tasks": ["t"], "limit": 2, "claim": str(CHANCE.uuid4())}
    first = api.post("/jobs/claim", asked).body
    assert [each["id"] for each in first] == jobs[:2]
    assert api.post("/jobs/claim", asked).body == first
    assert api.claim()["id"] == jobs[2]


def test_a_claim_that_waits_gets_a_job_as_soon_as_it_is_submitted(api: Caller, broker: RunningBroker) -> None:
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(api.claim(wait=25)))
    waiting.start()
    until(lambda: broker._broker.hub.waiting == 1, within=20.0)
    job = api.submit()
    waiting.join(20.0)
    assert [each["id"] for each in found] == [job]


def test_claims_that_wait_are_answered_when_the_broker_stops(store: MemoryStore, clock: FakeClock) -> None:
    broker, found = RunningBroker(store, clock), list[int]()
    asked = {"worker": "w", "tasks": ["t"], "wait": 25}
    threads = [
        threading.Thread(target=lambda: found.append(Caller(broker.url).post("/jobs/claim", asked).status)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    until(lambda: broker._broker.hub.waiting == len(threads), within=20.0)
    broker.stop()
    for thread in threads:
        thread.join(20.0)
    assert found == [204] * len(threads)


def test_waiting_claims_look_once_for_each_hint(store: MemoryStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    due = store.due

    async def counted(*arguments: Any, **keywords: Any) -> Any:
        looks.append(arguments)
        return await due(*arguments, **keywords)

    monkeypatch.setattr(store, "due", counted)
    with running(store, clock) as broker:
        asked = {"worker": "w", "tasks": ["t"], "wait": 25}
        found: list[int] = []
        threads = [
            threading.Thread(target=lambda: found.append(Caller(broker.url).post("/jobs/claim", asked).status)) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        until(lambda: broker._broker.hub.waiting == len(threads), within=20.0)
        assert len(looks) == 1
        Caller(broker.url).submit()
        until(lambda: found == [200], within=20.0)
        until(lambda: broker._broker.hub.waiting == len(threads) - 1, within=20.0)
        assert len(looks) <= 1 + 3 * broker._broker.hub.count
    for thread in threads:
        thread.join(20.0)
    assert sorted(found) == [200] + [204] * 7


def test_calls_with_one_idempotency_key_make_one_set_of_jobs(api: Caller, broker: RunningBroker) -> None:
    jobs = [{"task": "a", "payload": {"n": 1}}, {"task": "b"}]
    first = api.post("/jobs", jobs, Idempotency_Key="k")
    again = api.post("/jobs", jobs, Idempotency_Key="k")
    assert (first.status, again.status, again.body) == (201, 201, first.body)
    assert again.headers["idempotent-replayed"] == "true"
    assert api.get("/stats").body["jobs"]["available"] == 2
    assert api.post("/jobs", jobs, Idempotency_Key="other").body != first.body


def test_a_taken_unique_key_names_its_job_and_another_payload_is_a_conflict(api: Caller) -> None:
    body = {"task": "t", "payload": {"n": 1}, "options": {"unique_key": "k"}}
    first = api.post("/jobs", body)
    assert api.post("/jobs", body)[:2] == (200, {"id": first.body["id"], "created": False})
    conflict = api.post("/jobs", {**body, "payload": {"n": 2}})
    assert (conflict.status, conflict.body["code"], conflict.body["job"]) == (409, "unique_conflict", first.body["id"])


def test_a_failed_attempt_is_tried_again_until_none_is_left(api: Caller, clock: FakeClock) -> None:
    job = api.submit(max_attempts=2)
    error = {"type": "Oops", "message": "no disk"}
    assert api.about(api.claim(), "fail", error=error, after="5s").body == {"state": "scheduled"}
    assert api.post("/jobs/claim", {"worker": "w", "tasks": ["t"]}).status == 204
    clock.advance(6.0)
    assert api.about(api.claim(), "fail", error=error).body == {"state": "failed"}
    view = api.get(f"/jobs/{job}").body
    assert (view["reason"], view["error"]["type"], view["failures"]) == ("HANDLER_ERROR", "Oops", 2)


@pytest.mark.parametrize(
    ("body", "reason"), [({"retry": False}, "HANDLER_ERROR"), ({"payload_invalid": True}, "PAYLOAD_INVALID")]
)
def test_a_final_failure_has_its_reason_and_is_not_tried_again(api: Caller, body: dict[str, object], reason: str) -> None:
    job = api.submit()
    assert api.about(api.claim(), "fail", **body).body == {"state": "failed"}
    assert api.get(f"/jobs/{job}").body["reason"] == reason


def test_a_released_and_a_snoozed_job_run_again_at_no_cost(api: Caller, clock: FakeClock) -> None:
    job = api.submit(max_attempts=1)
    assert api.about(api.claim(), "release").body == {"state": "available"}
    assert api.about(api.claim(), "snooze", **{"for": "1m"}).body == {"state": "scheduled"}
    clock.advance(61.0)
    assert api.about(api.claim(), "complete").body == {"state": "completed"}
    assert api.get(f"/jobs/{job}").body["failures"] == 0


def test_the_heartbeat_of_a_cancelled_job_asks_it_to_end(api: Caller) -> None:
    waiting, running_one = api.submit("a"), api.submit("b")
    claimed = api.claim("b")
    assert api.post(f"/jobs/{waiting}/cancel", {}).body == {"state": "cancelled"}
    assert api.post(f"/jobs/{running_one}/cancel", {}).body == {"state": "running"}
    assert api.about(claimed, "heartbeat").body["cancel_requested"] is True
    assert api.about(claimed, "fail").body == {"state": "cancelled"}


def test_s3_every_call_of_a_silent_worker_is_refused_after_its_job_was_taken(store: MemoryStore, clock: FakeClock) -> None:
    settings = Settings.of("memory://", poll_interval="0.05s", recovery_interval="0.05s")
    with running(store, clock, settings=settings, maintains=True) as broker:
        api = Caller(broker.url)
        job = api.submit()
        first = api.claim()
        until(lambda: clock.advance(1.0) or api.get(f"/jobs/{job}").body["state"] == "available", within=30.0)
        second = api.claim()
        assert (second["id"], second["attempt"]) == (job, 2)
        bodies = {
            "heartbeat": {},
            "checkpoint": {"data": 1},
            "complete": {"result": 1},
            "fail": {},
            "release": {},
            "snooze": {"for": 1},
        }
        for verb, body in bodies.items():
            assert api.about(first, verb, **body).status == 409, verb
        assert api.about(second, "complete", result=2).status == 200
        assert api.get(f"/jobs/{job}?include=result").body["result"] == 2


def test_a_token_of_another_job_or_none_is_refused(api: Caller) -> None:
    api.submit()
    other, claimed = api.submit(), api.claim()
    assert api.post(f"/jobs/{other}/complete", {"token": claimed["token"]}).status == 409
    assert api.post(f"/jobs/{CHANCE.uuid4()}/complete", {"token": claimed["token"]}).status == 404
    for token in ("", "x", "a.b.c", f"{claimed['token']}0" * 9, claimed["token"] + "²"):
        assert api.post(f"/jobs/{other}/complete", {"token": token}).status == 422
    assert api.about(claimed, "complete").status == 200


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"task": 1},
        {"task": ""},
        {"task": "a b"},
        {"task": "t", "payload": []},
        {"task": "t", "colour": "red"},
        {"task": "t", "options": {"priority": 2**40}},
        {"task": "t", "options": {"delay": "soon"}},
        {"task": "t", "options": {"delay": -1}},
        {"task": "t", "options": {"run_at": "2030-01-01T00:00:00"}},
        {"task": "t", "options": {"run_at": "tomorrow"}},
        {"task": "t", "options": {"tags": ["\u0000"]}},
        {"task": "t", "options": {"max_attempts": 0}},
        [],
        [{"task": "t"}, {"task": "a b"}],
        [{"task": "t"}] * 1001,
        "t",
        None,
    ],
)
def test_a_wrong_submission_stores_nothing_and_names_the_field(api: Caller, body: object) -> None:
    answer = api.post("/jobs", body)
    assert (answer.status, answer.body["code"]) == (422, "invalid")
    assert answer.body["detail"]
    assert answer.headers["content-type"] == "application/problem+json"
    assert api.get("/stats").body["jobs"]["available"] == 0


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b'{"task":"t","payload":{"a":' + b"[" * 100_000, b'{"task":"\\ud800"}', b"\x00"]
)
def test_bytes_that_are_not_json_are_refused(api: Caller, data: bytes) -> None:
    assert api.send("POST", "/jobs", data, Content_Type=JSON).status == 400


def test_a_page_of_another_site_cannot_submit_a_form(api: Caller) -> None:
    assert api.send("POST", "/jobs", b'{"task":"t"}', Content_Type="text/plain").status == 415
    assert api.send("POST", "/jobs", b'{"task":"t"}').status == 415


def test_payloads_and_bodies_have_a_limit(api: Caller) -> None:
    assert api.post("/jobs", {"task": "t", "payload": {"x": "a" * 300_000}}).status == 413
    assert api.post("/jobs", [{"task": "t", "payload": {"x": "a" * 5000}}] * 900).status == 413
    api.submit()
    claimed = api.claim()
    assert api.about(claimed, "complete", result="a" * 300_000).status == 413
    assert api.about(claimed, "complete").status == 200


def test_each_role_may_do_its_own_calls_only(store: MemoryStore, clock: FakeClock) -> None:
    tokens = Tokens.parse("\n".join(line for _, line in (PRODUCER, WORKER, VIEWER)))
    with running(store, clock, authenticate=tokens) as broker:
        producer, worker, viewer = (Caller(broker.url, token) for token, _ in (PRODUCER, WORKER, VIEWER))
        job = producer.submit()
        ask = {"worker": "w", "tasks": ["t"]}
        assert [each.post("/jobs/claim", ask).status for each in (Caller(broker.url), producer, viewer)] == [401, 403, 403]
        assert [each.post("/jobs", {"task": "t"}).status for each in (Caller(broker.url), worker, viewer)] == [401, 403, 403]
        assert [each.get(f"/jobs/{job}").status for each in (Caller(broker.url), producer, worker, viewer)] == [
            401,
            200,
            200,
            200,
        ]
        assert worker.post("/jobs/claim", ask).status == 200
        assert Caller(broker.url).get("/openapi.json").status == 200


def test_a_sender_with_too_many_requests_is_asked_to_wait_and_others_are_not(store: MemoryStore, clock: FakeClock) -> None:
    tokens = Tokens.parse("\n".join(line for _, line in (PRODUCER, VIEWER)))
    with running(store, clock, authenticate=tokens, rate=4) as broker:
        producer, viewer = (Caller(broker.url, token) for token, _ in (PRODUCER, VIEWER))
        answers = [producer.post("/jobs", {"task": "t"}) for _ in range(5)]
        assert [each.status for each in answers] == [201] * 4 + [429]
        assert (answers[4].body["code"], answers[4].headers["retry-after"]) == ("too_many", "1")
        assert viewer.get("/stats").status == 200
        clock.advance(0.25)
        assert [producer.post("/jobs", {"task": "t"}).status for _ in range(2)] == [201, 429]


def test_no_error_and_no_list_shows_a_payload(api: Caller, store: MemoryStore, capfd: pytest.CaptureFixture[str]) -> None:
    secret = "hunter2hunter2"
    body = {"task": "t", "payload": {"password": secret}, "options": {"unique_key": "k"}}
    api.post("/jobs", body)
    answers = [
        api.post("/jobs", {**body, "payload": {"password": secret + "!"}}),
        api.post("/jobs", {**body, "options": {"priority": secret}}),
        api.send("POST", "/jobs", json.dumps(body).encode()[:-1], Content_Type=JSON),
        api.get("/stats"),
    ]
    assert secret not in str(answers)
    assert secret not in "".join(capfd.readouterr())


def test_an_error_of_the_store_is_a_problem_without_its_text(store: MemoryStore, clock: FakeClock) -> None:
    class Broken(MemoryStore):
        async def get(self, job: object) -> Any:
            raise OSError("password=hunter2")

    with running(Broken(clock), clock) as broker:
        found = Caller(broker.url).get(f"/jobs/{CHANCE.uuid4()}")
        assert (found.status, found.body["code"]) == (500, "broken")
        assert "hunter2" not in str(found)


def test_paths_and_methods_that_are_not_there_are_problems(api: Caller) -> None:
    assert api.get("/nothing")[0] == 404
    assert api.send("DELETE", "/stats", None)[0] == 405
    assert api.get("/jobs/not-an-id").body["code"] == "job_not_found"


def test_the_lease_of_a_claim_that_found_no_job_does_not_stay(api: Caller, store: MemoryStore) -> None:
    api.post("/jobs/claim", {"worker": "w", "tasks": ["t"]})
    api.submit()
    api.about(api.claim(), "complete")
    assert api.get("/stats").body["workers"] == 0
    assert [lease for lease in store.book.workers(store.moment()) if lease.tasks] == []
