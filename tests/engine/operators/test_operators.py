"""The verbs of operators, and the options of callers for one job, on every store that needs no server."""

import asyncio
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast import (
    App,
    Cause,
    Code,
    ConfigurationError,
    Event,
    Fail,
    Failure,
    Handle,
    InsideEventLoop,
    InvalidCursor,
    JobNotFound,
    PayloadInvalid,
    PayloadTooLarge,
    Pruned,
    Reason,
    State,
    Steered,
    StoreUnavailable,
    UniqueConflict,
    Unsupported,
    Where,
)
from holdfast._core.answers import SteerAnswer
from holdfast._core.audit import AuditNote
from holdfast._core.error_groups import ErrorList
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import Claim, RescueReason
from holdfast._core.lifecycle import LeaseEnd, finish
from holdfast._core.outcome import Done, Outcome, Raised
from holdfast._core.record import JobRecord
from holdfast._core.requests import BeatNote, ClaimRequest, JobFilter, NewLease, Steer, SteerVerb
from holdfast._core.steps import StepRecord
from holdfast._core.timing import LeaseTiming
from holdfast._engine import store_defaults
from holdfast._engine.client.client import Client
from holdfast._engine.operators import operators

LEASE = UUID(int=1)
UNKNOWN = UUID(int=5)
FAR = datetime(2100, 1, 1, tzinfo=UTC)


def shrink(path: str, width: int = 800) -> str:
    return path


@pytest.fixture(params=["memory://", "sqlite:///{}/jobs.db"], ids=["memory", "sqlite"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    app = App(request.param.format(tmp_path))
    yield app
    app.close()


def recorded(app: App, name: str) -> list[dict[str, object]]:
    """Return a list that receives the fields of each event of that name from now on."""
    fields: list[dict[str, object]] = []

    def record(event: Event) -> None:
        fields.append(event.fields)

    app.on(name)(record)
    return fields


def claim(app: App, count: int = 1, task: str = "shrink") -> list[Claim]:
    """Claim jobs for a worker and return the claims."""

    async def claim_jobs() -> list[Claim]:
        store, timing = app._connections.store, app.settings.timing
        lease = NewLease(LEASE, "worker-1", ProcessIdentity("host", 1), timing, tasks=("shrink",), slots=count)
        await store.open_lease(lease)
        definition = app.registry.get(task)
        assert definition is not None
        policies = {task: definition.policy}
        request = ClaimRequest(lease=LEASE, claim=app._connections.chance.uuid4(), tasks=policies, limit=count)
        return list((await store.exchange([], request)).claims)

    return asyncio.run(claim_jobs())


def end(app: App, handle: Handle, outcome: Outcome | None = None) -> None:
    """Claim the job and settle it with the outcome."""
    (claimed,) = claim(app)
    assert claimed.job.id == handle.id
    move = finish(claimed.job, outcome or Done(b"1"), jitter=0.0)
    asyncio.run(app._connections.store.exchange([move]))


# enqueue


def test_every_option_is_on_the_job(app: App) -> None:
    prepared = app.task(shrink).options(delay="1h", priority=-5, unique_key="k", queue="q", expires_in="2h", tags=["a", "b"])
    view = prepared.enqueue("a").get()
    assert (view.state, view.priority, view.unique_key, view.queue, view.tags) == (State.SCHEDULED, -5, "k", "q", ("a", "b"))
    assert view.expires_at is not None
    assert (view.expires_at - view.created_at).total_seconds() == pytest.approx(7200, abs=0.001)
    assert (view.available_at - view.created_at).total_seconds() == pytest.approx(3600, abs=0.001)


def test_s11_one_unfinished_job_per_key_and_a_second_enqueue_returns_it(app: App) -> None:
    task, other = app.task(shrink), app.task(name="other")(shrink)
    keyed = task.options(unique_key="k")
    first = keyed.enqueue("a")
    assert first.created
    again = keyed.enqueue("a")
    assert (again.created, again.id) == (False, first.id)
    assert other.options(unique_key="k").enqueue("a").created, "a key belongs to its task"
    assert task.options(unique_key="l").enqueue("a").created
    with pytest.raises(UniqueConflict, match=f"job {first.id} has the unique key 'k' and another payload") as caught:
        keyed.enqueue("b")
    assert caught.value.job == first.id
    first.cancel()
    assert keyed.enqueue("b").created, "a finished job frees its key"


def test_s11_the_same_payload_in_another_order_is_the_same(app: App) -> None:
    def gather(names: set[str], sizes: dict[str, int]) -> None: ...

    keyed = app.task(gather).options(unique_key="k")
    names = [f"name {n}" for n in range(50)]
    first = keyed.enqueue(set(names), {"a": 1, "b": 2})
    again = keyed.enqueue(sizes={"b": 2, "a": 1}, names=set(names))
    assert (again.created, again.id) == (False, first.id)
    assert keyed.bind(names=set(names), sizes={}).payload.startswith(b'{"names":["name 0","name 1","name 10",')
    with pytest.raises(UniqueConflict):
        keyed.enqueue(set(names[1:]), {"a": 1, "b": 2})


def test_a_retry_of_a_job_whose_key_another_job_has_names_that_job(app: App) -> None:
    keyed = app.task(shrink).options(unique_key="k")
    first = keyed.enqueue("a")
    first.cancel()
    second = keyed.enqueue("b")
    with pytest.raises(UniqueConflict, match=str(second.id)) as caught:
        first.retry()
    assert caught.value.job == second.id
    assert app.jobs.retry([first.id, second.id]) == {first.id: State.CANCELLED, second.id: State.AVAILABLE}
    second.cancel()
    assert first.retry() is State.AVAILABLE


def test_concurrent_keyed_enqueues_make_one_job(app: App) -> None:
    keyed = app.task(shrink).options(unique_key="k")

    async def main() -> list[Handle]:
        return await asyncio.gather(*(keyed.aenqueue("a") for _ in range(20)))

    handles = asyncio.run(main())
    assert len({handle.id for handle in handles}) == 1
    assert sum(handle.created for handle in handles) == 1


def test_many_jobs_cannot_share_a_key(app: App) -> None:
    keyed = app.task(shrink).options(unique_key="k")
    with pytest.raises(ConfigurationError, match="unique_key"):
        keyed.enqueue_many([{"path": "a"}, {"path": "b"}])
    assert app.jobs.list() == []
    assert [handle.created for handle in keyed.enqueue_many([{"path": "a"}])] == [True]
    assert keyed.enqueue_many([]) == []


@pytest.mark.parametrize(
    ("item", "error", "words"),
    [
        ({"path": 5}, PayloadInvalid, r"payloads\[2\]: shrink: Expected `str`, got `int` - at `\$.path`"),
        ({}, PayloadInvalid, r"payloads\[2\]: shrink: .*missing required field `path`"),
        ({"path": "x" * 300_000}, PayloadTooLarge, r"payloads\[2\]: shrink: the payload has"),
        ("path", PayloadInvalid, r"payloads\[2\]: str is not a dict"),
    ],
)
def test_the_invalid_payload_of_many_is_named_by_its_index(app: App, item: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        app.task(shrink).enqueue_many([{"path": "a"}, {"path": "b"}, item])  # type: ignore[list-item]
    assert app.jobs.list() == []


# within the caller's transaction


def test_a_store_without_callers_transactions_refuses_within() -> None:
    app = App("memory://")
    with closing(sqlite3.connect(":memory:")) as connection:
        prepared = app.task(shrink).options(within=connection)
        with pytest.raises(Unsupported, match="memory"):
            prepared.enqueue("a")
        with pytest.raises(Unsupported, match="memory"):
            asyncio.run(prepared.aenqueue("a"))
    app.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.mark.parametrize("method", ["enqueue", "aenqueue", "enqueue_many", "aenqueue_many"])
@pytest.mark.parametrize("commits", [True, False])
def test_s7_within_a_transaction_a_job_exists_if_and_only_if_it_commits(file: Path, method: str, commits: bool) -> None:
    app = App(f"sqlite:///{file}")
    app.migrate()
    announced = recorded(app, "job.enqueued")
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("CREATE TABLE orders (id)")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO orders VALUES (1)")
    prepared = app.task(shrink).options(within=connection)
    match method:
        case "enqueue":
            handle = prepared.enqueue("a")
        case "aenqueue":
            handle = asyncio.run(prepared.aenqueue("a"))
        case "enqueue_many":
            (handle,) = prepared.enqueue_many([{"path": "a"}])
        case _:
            (handle,) = asyncio.run(prepared.aenqueue_many([{"path": "a"}]))
    with pytest.raises(JobNotFound):
        handle.get()
    connection.execute("COMMIT" if commits else "ROLLBACK")
    rows = connection.execute("SELECT count(*) FROM orders").fetchone()[0]
    connection.close()
    assert (rows, sum(app.jobs.counts().values())) == (int(commits), int(commits))
    assert announced == [], "no event is emitted before the commit"
    handle.notify()
    app.close()


def test_within_a_transaction_a_duplicate_and_a_conflict_leave_it_usable(file: Path) -> None:
    app = App(f"sqlite:///{file}")
    task = app.task(shrink)
    first = task.options(unique_key="k").enqueue("a")
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    again = task.options(unique_key="k", within=connection).enqueue("a")
    assert (again.created, again.id) == (False, first.id)
    with pytest.raises(UniqueConflict):
        task.options(unique_key="k", within=connection).enqueue("b")
    other = task.options(unique_key="l", within=connection).enqueue("b")
    connection.execute("COMMIT")
    connection.close()
    assert {job.id for job in app.jobs.list()} == {first.id, other.id}
    app.close()


def test_within_needs_its_twin_inside_an_event_loop(file: Path) -> None:
    app = App(f"sqlite:///{file}")
    connection = sqlite3.connect(file)
    prepared = app.task(shrink).options(within=connection)

    async def main() -> None:
        with pytest.raises(InsideEventLoop, match="await aenqueue"):
            prepared.enqueue("a")
        with pytest.raises(InsideEventLoop, match="await aenqueue_many"):
            prepared.enqueue_many([{"path": "a"}])

    asyncio.run(main())
    connection.close()
    app.close()


def test_within_refuses_an_object_that_is_not_a_connection_of_its_store(app: App) -> None:
    with pytest.raises(Unsupported):
        app.task(shrink).options(within=object()).enqueue("a")


# operators


def test_jobs_are_rescheduled(app: App) -> None:
    events = recorded(app, "job.rescheduled")
    task = app.task(shrink)
    later, now = task.options(delay="1h").enqueue("a"), task.enqueue("b")
    assert app.jobs.reschedule(later.id, delay=0) == {later.id: State.AVAILABLE}
    assert app.jobs.reschedule([str(now.id), UNKNOWN], run_at=FAR) == {now.id: State.SCHEDULED}
    assert now.get().available_at == FAR
    assert [fields["job"] for fields in events] == [later.id, now.id]
    for wrong, words in (({}, "pass delay"), ({"delay": "x"}, "delay: "), ({"delay": 1, "run_at": FAR}, "one of them")):
        with pytest.raises(ConfigurationError, match=words):
            app.jobs.reschedule(now.id, **wrong)  # type: ignore[arg-type]


def test_jobs_without_an_owner_are_deleted(app: App) -> None:
    events = recorded(app, "job.deleted")
    task = app.task(shrink)
    finished = task.enqueue("a")
    end(app, finished)
    running = task.enqueue("b")
    claim(app)
    waiting = task.enqueue("c")
    assert app.jobs.delete([finished.id, running.id, str(waiting.id)]) == {running.id: State.RUNNING}
    assert [job.id for job in app.jobs.list()] == [running.id]
    assert {fields["job"] for fields in events} == {finished.id, waiting.id}


def test_ids_select_for_verbs_that_take_many(app: App) -> None:
    task = app.task(shrink)
    failed = task.options(tags=["x"]).enqueue("a")
    end(app, failed, Fail("no"))
    waiting = [handle.id for handle in task.options(queue="q", tags=["x"]).enqueue_many([{"path": "b"}] * 3)]
    assert app.jobs.ids(state="failed") == app.jobs.ids(reason="PERMANENT") == [failed.id]
    assert app.jobs.ids(tag="x", limit=2) == waiting[:0:-1]
    assert app.jobs.ids() == [*waiting[::-1], failed.id]
    assert app.jobs.ids(task="shrink", queue="q", reason=Reason.PERMANENT) == []
    assert app.jobs.retry(app.jobs.ids(state=State.FAILED)) == {failed.id: State.AVAILABLE}
    for wrong in ({"state": "gone"}, {"reason": "because"}, {"limit": 0}):
        with pytest.raises(ConfigurationError, match="use"):
            app.jobs.ids(**wrong)  # type: ignore[arg-type]


def test_conditions_steer_many_jobs_and_the_answer_counts_them(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "BATCH", 2)
    task = app.task(shrink)
    completed, failed = task.enqueue("a"), task.options(key="tenant").enqueue("b")
    end(app, completed)
    end(app, failed, Fail("no"))
    running = task.options(key="tenant").enqueue("c")
    claim(app)
    waiting = [handle.id for handle in task.options(key="tenant").enqueue_many([{"path": "d"}] * 5)]
    tenant, seen = Where(key="tenant"), list[tuple[str, dict[str, object]]]()
    app.on("*")(lambda event: seen.append((event.name.value, event.fields)) if event.name.startswith("jobs.") else None)
    plan = app.jobs.cancel(where=tenant, dry_run=True)
    assert plan == Steered(6, {"available": 5, "running": 1})
    assert app.jobs.cancel(where=tenant, limit=3) == Steered(3, {"cancelled": 3})
    assert app.jobs.get(waiting[0]).state is State.AVAILABLE, "newest first"
    assert app.jobs.reschedule(where=tenant, delay="1h") == Steered(2, {"scheduled": 2})
    plan = app.jobs.delete(where=tenant, dry_run=True)
    assert (plan.jobs, plan.refused) == (7, {running.id: State.RUNNING})
    assert app.jobs.delete(where=tenant) == Steered(7, {"deleted": 6, "running": 1}, {running.id: State.RUNNING})
    plan = app.jobs.cancel(where=Where(state="completed"), dry_run=True)
    assert plan == Steered(1, {"completed": 1}, {completed.id: State.COMPLETED})
    assert app.jobs.cancel(where=Where(state="completed")) == plan
    assert app.jobs.retry(where=Where(state="completed")) == Steered(1, {"available": 1})
    assert app.jobs.cancel(where=tenant) == Steered(1, {"running": 1})
    assert seen == [
        ("jobs.cancelled", {"jobs": 3, "refused": 0}),
        ("jobs.rescheduled", {"jobs": 2, "refused": 0}),
        ("jobs.deleted", {"jobs": 6, "refused": 1}),
        ("jobs.cancelled", {"jobs": 0, "refused": 1}),
        ("jobs.retried", {"jobs": 1, "refused": 0}),
        ("jobs.cancelled", {"jobs": 1, "refused": 0}),
    ]
    with pytest.raises(ConfigurationError, match="name a state, a reason or an error"):
        app.jobs.retry(where=Where(task="shrink"))
    with pytest.raises(ConfigurationError, match="not both"):
        app.jobs.cancel([UUID(int=1)], where=Where(task="shrink"))  # type: ignore[call-overload]
    wrongs: tuple[dict[str, object], ...] = (
        *({"state": "gone"}, {"reason": "because"}, {"older_than": "soon"}, {"attempts_at_least": 0}, {"state": []}, {"tag": ()}),
        *(
            {"state": ["failed", "gone"]},
            {"queue": ["a", "b c"]},
            {"workflow": "x"},
            {"text": ""},
            {"up_to": datetime(2026, 1, 1)},
        ),
    )
    for wrong in wrongs:
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            app.jobs.delete(where=Where(**wrong))  # type: ignore[arg-type]


def test_what_fails_after_a_person_has_looked_is_left_alone(app: App) -> None:
    task = app.task(shrink)
    seen, later, other = task.enqueue("a"), task.enqueue("b"), task.enqueue("c")
    end(app, seen, Fail("no"))
    (found,) = app.jobs.list(state=["failed", "cancelled"], text="shrink")
    assert found.finished_at is not None
    end(app, later, Fail("no"))
    other.cancel()
    which = Where(state=["cancelled", "failed"], task=["shrink", "grow"], rescued=False, up_to=found.finished_at)
    assert app.jobs.retry(where=which) == Steered(1, {"available": 1})
    assert [job.id for job in app.jobs.list(state={"failed"}, worker=[found.worker or "", "other"])] == [later.id]


def test_jobs_are_listed_by_ranges_of_times_and_pages(app: App) -> None:
    task = app.task(shrink)
    first = task.enqueue("a")
    between = app.jobs.get(first.id).created_at + timedelta(microseconds=1)
    rest = [handle.id for handle in task.options(delay="1h").enqueue_many([{"path": "b"}] * 3)]
    assert app.jobs.ids(created_before=between) == [first.id]
    assert app.jobs.ids(created_after=between) == app.jobs.ids(available_after=between + timedelta(minutes=30)) == rest[::-1]
    assert app.jobs.ids(finished_before=between) == []
    end(app, first)
    assert app.jobs.ids(finished_after=between) == [first.id]
    assert app.jobs.delete(where=Where(finished_before=between)) == Steered(0, {})
    newest = app.jobs.list(limit=2)
    assert [job.id for job in app.jobs.list(cursor=newest[-1].id)] == [rest[0], first.id]
    with pytest.raises(InvalidCursor, match="the id of the last job"):
        app.jobs.list(cursor="page-2")
    with pytest.raises(ConfigurationError, match=r"created_after=.*time zone"):
        app.jobs.list(created_after=datetime(2026, 1, 1))


def test_stale_jobs_are_reported_by_task_and_nothing_moves(app: App) -> None:
    task = app.task(shrink)
    handle = task.enqueue("a")
    assert app.recovery.stale() == []
    claim(app)
    assert app.recovery.stale(by="task") == {}
    asyncio.run(app._connections.store.end_lease(LEASE, LeaseEnd(RescueReason.CRASHED)))
    assert app.recovery.stale(by="task") == {"shrink": {"expired": 0, "ended": 1, "overdue": 0}}
    (stale,) = app.recovery.stale()
    assert (stale.id, stale.task, stale.attempt, stale.why) == (handle.id, "shrink", 1, "ended")
    assert app.jobs.get(handle.id).state is State.RUNNING
    with pytest.raises(ConfigurationError, match="use 'task'"):
        app.recovery.stale(by="queue")  # type: ignore[call-overload]


def test_a_job_that_moved_between_the_look_and_the_write_is_judged_there(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    task = app.task(shrink)
    handle = task.enqueue("a")
    gone = task.enqueue("b")
    page = Client.page

    async def moved(client: Client, which: JobFilter) -> Sequence[JobRecord]:
        found = await page(client, which)
        if found:
            await client.cancel([handle.id])
            await client.delete([gone.id])
        return found

    monkeypatch.setattr(Client, "page", moved)
    answer = app.jobs.reschedule(where=Where(task="shrink"), delay="1h")
    assert answer == Steered(2, {"cancelled": 1, "unknown": 1}, {handle.id: State.CANCELLED})


@pytest.mark.parametrize(
    ("verb", "state"), [("cancel", "cancelled"), ("reschedule", "scheduled"), ("retry", "available"), ("delete", "deleted")]
)
def test_a_job_that_a_call_without_an_answer_has_moved_is_not_refused(
    app: App, monkeypatch: pytest.MonkeyPatch, verb: str, state: str
) -> None:
    kind: Any = type(app._connections.store)
    task, calls, steer = app.task(shrink), list[SteerVerb](), kind.steer
    handle = task.enqueue("a")
    if verb == "retry":
        end(app, handle, Fail("no"))

    async def lossy(self: Any, how: Steer, ids: Sequence[UUID], which: JobFilter, *, by: AuditNote | None = None) -> SteerAnswer:
        answer: SteerAnswer = await steer(self, how, ids, which, by=by)
        calls.append(how.verb)
        if len(calls) == 1:
            raise StoreUnavailable("the answer is lost")
        return answer

    monkeypatch.setattr(kind, "steer", lossy)
    where = Where(state="failed" if verb == "retry" else "available")
    options = {"delay": "1h"} if verb == "reschedule" else {}
    assert getattr(app.jobs, verb)(where=where, **options) == Steered(1, {state: 1})
    assert len(calls) == 2
    assert [(entry.action, entry.count) for entry in app.audit.list()] == [(verb, 1)]


def test_jobs_named_by_id_are_asked_for_again_while_they_are_locked(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    task, kind = app.task(shrink), type(app._connections.store)
    first, second = task.enqueue("a"), task.enqueue("b")
    steer, locked = kind.steer, [{second.id}]

    async def busy(self: Any, how: Steer, ids: Sequence[UUID], which: JobFilter, *, by: AuditNote | None = None) -> SteerAnswer:
        skipped = frozenset(locked.pop() if locked else ())
        answer: SteerAnswer = await steer(self, how, [job for job in ids if job not in skipped], which, by=by)
        return SteerAnswer(answer.states | dict.fromkeys(skipped, State.AVAILABLE), answer.left | skipped)

    monkeypatch.setattr(kind, "steer", busy)
    with app.audit.acting(who="anna", reason="wrong address"):
        assert app.jobs.cancel([first.id, second.id]) == dict.fromkeys((first.id, second.id), State.CANCELLED)
    assert [(entry.who, entry.reason, entry.count) for entry in app.audit.list()] == [("anna", "wrong address", 2)]


def test_lists_are_by_the_same_conditions(app: App) -> None:
    task = app.task(shrink)
    failed = task.enqueue("a")
    end(app, failed, Fail("no"))
    task.enqueue("b")
    chosen = app.jobs.list(state="failed", reason="PERMANENT", older_than=0, attempts_at_least=1, key="")
    assert [job.id for job in chosen] == app.jobs.ids(attempts_at_least=1) == [failed.id]
    assert app.jobs.list(older_than="1h") == app.jobs.ids(key="tenant") == []


def test_failed_jobs_are_errors_that_are_listed_found_and_retried_by_their_key(app: App) -> None:
    task = app.task(shrink)
    assert app.errors.list() == ErrorList()
    handles = []
    for outcome in (Fail("first"), Raised(Failure("E", "other"), is_final=True), Fail("last")):
        handles.append(task.enqueue("a"))
        end(app, handles[-1], outcome)
    failed, different, again = handles
    key = again.get().error_key
    found = app.errors.list(limit=1)
    assert (found.kinds, found.looked_at, len(found.groups)) == (2, 3, 1)
    assert app.errors.get(key) == app.errors.get(key[:6]) == found.groups[0]
    assert (found.groups[0].job, found.groups[0].count, found.groups[0].message) == (again.id, 2, "last")
    assert app.jobs.ids(error_key=key) == [again.id, failed.id]
    with pytest.raises(JobNotFound, match="errors list"):
        app.errors.get("nothing")
    with pytest.raises(ConfigurationError, match="look=0"):
        app.errors.list(look=0)
    assert app.jobs.retry(where=Where(error_key=key)) == Steered(2, {"available": 2})
    assert [group.job for group in app.errors.list().groups] == [different.id]
    assert app.jobs.retry(where=Where(error_key=key)) == Steered(0, {})


def test_actions_of_operators_emit_events(app: App) -> None:
    cancelled, reopened = recorded(app, "job.cancel_requested"), recorded(app, "job.reopened")
    handle = app.task(shrink).enqueue("a")
    handle.cancel()
    handle.retry()
    assert cancelled == [{"job": handle.id, "state": "cancelled"}]
    assert reopened == [{"job": handle.id, "state": "available"}]


def test_queues_are_paused_resumed_purged_and_listed(app: App) -> None:
    paused, resumed, purged = recorded(app, "queue.paused"), recorded(app, "queue.resumed"), recorded(app, "queue.purged")
    task = app.task(shrink)
    task.options(queue="a").enqueue_many([{"path": "x"}] * 3)
    task.options(queue="b", delay="1h").enqueue("x")
    app.queues.pause("a")
    app.queues.pause(["b", "later"])
    assert [(queue.name, queue.paused_at is None) for queue in app.queues.list()] == [
        ("a", False),
        ("b", False),
        ("later", False),
    ]
    assert claim(app, 5) == []
    app.queues.resume(["a", "later"])
    assert [(queue.name, queue.paused_at is None) for queue in app.queues.list()] == [("a", True), ("b", False)]
    assert app.queues.list()[0].counts == dict.fromkeys(State, 0) | {State.AVAILABLE: 3}
    assert len(claim(app, 1)) == 1
    assert app.queues.purge(["a", "b", "none"]) == 3
    assert [job.state for job in app.jobs.list()] == [State.RUNNING]
    assert [fields["queue"] for fields in (*paused, *resumed)] == ["a", "b", "later", "a", "later"]
    assert purged == [{"queue": "a", "jobs": 2}, {"queue": "b", "jobs": 1}, {"queue": "none", "jobs": 0}]
    for verb in (app.queues.pause, app.queues.resume, app.queues.purge):
        with pytest.raises(ConfigurationError) as caught:
            verb(["fine", "a b", ""])
        assert len(caught.value.problems) == 2


def test_a_manual_prune_keeps_young_records(app: App) -> None:
    events = recorded(app, "store.pruned")
    handle = app.task(retention=0)(shrink).enqueue("a")
    end(app, handle)
    assert app.prune() == Pruned(stubs=1)
    assert events == [{"jobs": 0, "stubs": 1, "receipts": 0, "leases": 0, "attempts": 0, "beats": 0}]
    assert handle.get().state is State.COMPLETED
    with pytest.raises(JobNotFound, match="retention"):
        handle.result()
    assert app.prune() == Pruned()
    assert handle.retry() is State.COMPLETED, "nothing is left of it to run"


def test_explain_names_why_a_job_does_not_run(app: App) -> None:
    task = app.task(shrink)

    def codes(handle: Handle) -> list[Code]:
        explanation = app.jobs.explain(handle.id)
        assert all(isinstance(cause, Cause) for cause in explanation.causes)
        assert explanation.state is handle.get().state
        return [cause.code for cause in explanation.causes]

    waiting, later = task.enqueue("a"), task.options(delay="1h", queue="q").enqueue("b")
    assert codes(waiting) == [Code.NO_LIVE_WORKER]
    app.queues.pause("q")
    assert codes(later) == [Code.PAUSED, Code.DUE_LATER, Code.NO_LIVE_WORKER]
    (claimed,) = claim(app)
    assert codes(waiting) == [Code.RUNNING]
    assert codes(task.enqueue("c")) == [Code.AT_CAPACITY]
    assert codes(app.enqueue("elsewhere")) == [Code.UNKNOWN_TASK]
    move = finish(claimed.job, Done(b"1"), jitter=0.0)
    asyncio.run(app._connections.store.exchange([move]))
    assert codes(waiting) == [Code.FINISHED]
    assert codes(task.enqueue("d")) == []
    with pytest.raises(JobNotFound):
        app.jobs.explain(UNKNOWN)


async def test_the_history_of_a_worker_is_read_by_its_name_newest_first(app: App) -> None:
    store = app._connections.store
    lease = NewLease(UUID(int=7), "web-1-42-5f2c", ProcessIdentity("web-1", 42), LeaseTiming.of("1h"), slots=4)
    await store.open_lease(lease)
    for running in (1, 2):
        await store.beat([lease.id], notes=[BeatNote(lease=lease.id, kept=60.0, running=running)])
    assert [(beat.running, beat.slots) for beat in await app.workers.ahistory("web-1-42-5f2c")] == [(2, 4), (1, 4)]
    assert [beat.running for beat in await app.workers.ahistory("web-1-42-5f2c", limit=1)] == [2]
    assert await app.workers.ahistory("web-1") == []
    for limit in (0, True):
        with pytest.raises(ConfigurationError, match="limit="):
            await app.workers.ahistory("web-1", limit=limit)


async def test_every_verb_has_its_async_twin(app: App) -> None:
    handle = await app.task(shrink).aenqueue("a")
    assert (await app.jobs.aexplain(handle.id)).state is State.AVAILABLE
    assert await app.jobs.areschedule(handle.id, delay="1h") == {handle.id: State.SCHEDULED}
    assert await app.jobs.aids() == [handle.id]
    await app.queues.apause("default")
    await app.queues.aresume("default")
    assert len(await app.queues.alist()) == 1
    assert await app.queues.apurge("default") == 1
    assert await app.jobs.adelete(handle.id) == {}
    assert await app.aprune() == Pruned()


def test_s23_a_signal_is_accepted_by_an_unfinished_job_and_refused_by_a_finished_one(app: App) -> None:
    task = app.task(shrink)
    handle = task.options(unique_key="order-7").enqueue(path="a")
    assert handle.signal("approved", {"by": "ada"})
    assert app.jobs.signal(str(handle.id), "approved")
    assert app.jobs.signal_key("shrink", "order-7", "approved", [1])
    with pytest.raises(JobNotFound):
        app.jobs.signal_key("shrink", "order-8", "approved")
    with pytest.raises(JobNotFound):
        app.jobs.signal(UNKNOWN, "approved")
    with pytest.raises(PayloadTooLarge):
        handle.signal("approved", "x" * 65_536)
    with pytest.raises(ConfigurationError, match="signal ':a'"):
        handle.signal(":a")
    handle.cancel()
    assert not handle.signal("approved")
    assert not app.jobs.signal(handle.id, "approved")


def test_a_job_takes_a_limited_number_of_signals(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("holdfast._core.book.steps", "holdfast.stores.sqlite.steps", "holdfast._engine.client.client"):
        monkeypatch.setattr(f"{module}.MOST_SIGNALS", 2)
    handle = app.task(shrink).enqueue(path="a")
    assert handle.signal("go")
    assert handle.signal("go")
    with pytest.raises(PayloadTooLarge, match="has 2 signals that it has not consumed: wait until it asks for them"):
        handle.signal("go")


def test_a_fresh_retry_forgets_steps_and_a_plain_one_keeps_them(app: App) -> None:
    handle = app.task(shrink).enqueue(path="a")
    store = app._connections.store
    steps = store_defaults.steps(store)

    async def fail_after_a_step(claim: Claim) -> None:
        record = StepRecord(name="charge", nth=1, place=0, is_sequential=True, result=b"1")
        assert await steps.record_step(claim.job.id, claim.job.token, record)
        await store.exchange([finish(claim.job, Fail(), jitter=0.0)])

    def has_steps() -> bool:
        return bool(asyncio.run(steps.steps(handle.id)).records)

    asyncio.run(fail_after_a_step(claim(app)[0]))
    handle.retry()
    assert has_steps()
    for retry in (
        lambda: handle.retry(fresh=True),
        lambda: app.jobs.retry(handle.id, fresh=True),
        lambda: app.jobs.retry(where=Where(state="failed"), fresh=True),
    ):
        asyncio.run(fail_after_a_step(claim(app)[0]))
        assert has_steps()
        retry()
        assert not has_steps()
