"""The front door in use: blocking and async, in threads, loops and forked children."""

import asyncio
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

import holdfast
from holdfast import App, ConfigurationError, Job, JobNotFound, PayloadInvalid, RecoverySwitches, State
from holdfast.errors import InsideEventLoop


async def analyze(job: Job, repo_url: str, limit: int = 100) -> str:
    return f"{repo_url} {limit}"


def shrink(path: str) -> str:
    return path


@pytest.fixture
def app() -> Iterator[App]:
    app = App("memory://")
    yield app
    app.close()


def test_calling_a_task_calls_the_plain_function(app: App) -> None:
    assert app.task(shrink)("a.png") == "a.png"
    task = app.task(name="resize")(shrink)
    assert (task.name, task.__name__, task.__wrapped__) == ("resize", "shrink", shrink)  # type: ignore[attr-defined]


def test_an_enqueued_job_can_be_seen_cancelled_and_run_again(app: App) -> None:
    handle = app.task(analyze).enqueue(repo_url="u")
    assert handle.created
    view = handle.get()
    assert (view.id, view.task, view.state, view.payload) == (handle.id, "analyze", State.AVAILABLE, {"repo_url": "u"})
    assert handle.cancel() is State.CANCELLED
    assert handle.retry() is State.AVAILABLE
    assert app.jobs.get(str(handle.id)).state is State.AVAILABLE


def test_options_apply_to_the_jobs_enqueued_through_them(app: App) -> None:
    task = app.task(queue="slow", priority=3)(shrink)
    assert (task.enqueue("a").get().queue, task.enqueue("a").get().priority) == ("slow", 3)
    view = task.options(queue="q", priority=-5, delay="1h", tags=["a", "b"]).enqueue("a").get()
    assert (view.queue, view.priority, view.state, view.tags) == ("q", -5, State.SCHEDULED, ("a", "b"))
    when = datetime(2100, 1, 1, tzinfo=UTC)
    assert task.options(run_at=when).enqueue("a").get().available_at == when


def test_many_are_enqueued_at_once_or_not_at_all(app: App) -> None:
    task = app.task(analyze)
    with pytest.raises(PayloadInvalid, match="limit"):
        task.enqueue_many([{"repo_url": "a"}, {"repo_url": "b", "limit": "x"}])
    assert app.jobs.list() == []
    handles = task.enqueue_many([{"repo_url": "a"}, {"repo_url": "b", "limit": 1}])
    assert [handle.get().payload for handle in handles] == [{"repo_url": "a"}, {"repo_url": "b", "limit": 1}]
    assert [job.id for job in app.jobs.list(limit=1)] == [handles[1].id]
    assert [job.id for job in app.jobs.list(cursor=handles[1].id)] == [handles[0].id]


def test_producers_without_the_code_enqueue_by_name(app: App) -> None:
    assert app.enqueue("elsewhere", anything=[1, 2]).get().payload == {"anything": [1, 2]}
    app.task(queue="slow")(analyze)
    assert app.enqueue("analyze", repo_url="u").get().queue == "slow"
    with pytest.raises(PayloadInvalid, match="repo_url"):
        app.enqueue("analyze")
    with pytest.raises(ConfigurationError, match="letters, digits"):
        app.enqueue("no such name")


async def test_a_blocking_call_inside_an_event_loop_names_its_twin(app: App) -> None:
    task = app.task(analyze)
    for call, twin in ((lambda: task.enqueue("u"), "aenqueue"), (app.jobs.counts, "acounts"), (app.close, "aclose")):
        with pytest.raises(InsideEventLoop, match=f"await {twin}"):
            call()


def test_every_loop_and_thread_sees_the_same_jobs(app: App) -> None:
    task = app.task(analyze)

    async def main() -> int:
        await asyncio.gather(*(task.aenqueue("u") for _ in range(10)))
        return sum((await app.jobs.acounts()).values())

    assert asyncio.run(main()) == 10
    assert asyncio.run(main()) == 20
    threads = [threading.Thread(target=task.enqueue, args=("u",)) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert app.jobs.counts()["available"] == 30


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(("url", "seen"), [("memory://", b"1"), ("sqlite:///{}/jobs.db", b"2")])
def test_a_forked_child_opens_its_own_connections(tmp_path: Path, url: str, seen: bytes) -> None:
    app = App(url.format(tmp_path))
    task = app.task(analyze)
    task.enqueue("u")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            task.enqueue("u")
            os.write(writer, str(app.jobs.counts()["available"]).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        assert answer.read() == seen  # each process has its own memory store
    assert os.waitpid(child, 0)[1] == 0
    assert str(app.jobs.counts()["available"]).encode() == seen
    app.close()


def test_an_app_opens_nothing_until_used_and_opens_again_after_close(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    task = app.task(analyze)
    assert list(tmp_path.iterdir()) == []
    handle = task.enqueue("u")
    app.close()
    assert handle.get().state is State.AVAILABLE
    app.close()
    assert [path.name for path in tmp_path.iterdir()] == ["jobs.db"]


def test_malformed_and_unknown_ids_are_not_found(app: App) -> None:
    for unknown in ("nonsense", UUID(int=5), str(UUID(int=5))):
        with pytest.raises(JobNotFound):
            app.jobs.get(unknown)
    assert app.jobs.cancel([UUID(int=5)]) == {}


def test_wrong_arguments_are_refused_with_a_remedy(app: App) -> None:
    with pytest.raises(ConfigurationError) as caught:
        app.jobs.list(state="done", limit=0)
    assert len(caught.value.problems) == 2
    with pytest.raises(ConfigurationError, match="'queue' or 'task'"):
        app.jobs.counts(by="state")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"job\.rescued"):
        app.on("job.saved")(print)


def test_subscribers_receive_events(app: App) -> None:
    tasks = []

    @app.on("job.enqueued")
    def record(event: holdfast.Event) -> None:
        tasks.append(event.fields["task"])

    app.task(analyze).enqueue("u")
    assert tasks == ["analyze"]


def test_recovery_with_nothing_to_do_ends_at_once(app: App) -> None:
    assert app.recovery.run_once() == []
    assert app.workers.list() == []


@pytest.mark.parametrize(
    "url", ["jobs.db", "mysql://x", "sqlite://jobs.db", "sqlite:///", "sqlite:///:memory:", "sqlite:///a?b=c", "memory://x"]
)
def test_a_url_that_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"sqlite:///|memory://"):
        App(url)


def test_all_wrong_settings_are_named_together(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError) as caught:
        App("nosql://x", ttl="soon", grace=-1)
    assert len(caught.value.problems) == 3
    monkeypatch.delenv("HOLDFAST_URL", raising=False)
    with pytest.raises(ConfigurationError, match="HOLDFAST_URL"):
        App()
    monkeypatch.setenv("HOLDFAST_URL", "memory://")
    assert App().settings.url == "memory://"


def test_two_apps_in_one_process_do_not_meet() -> None:
    one, other = App("memory://"), App("memory://")
    one.task(shrink).enqueue("a")
    other.task(shrink)
    assert (sum(one.jobs.counts().values()), sum(other.jobs.counts().values())) == (1, 0)
    one.close()
    other.close()


def test_an_option_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(ConfigurationError, match=r"no option 'max_atempts'; there are .*max_attempts"):
        App("memory://").task(max_atempts=3)  # type: ignore[call-overload]


@pytest.mark.parametrize("url", [5, b"sqlite:///x.db"])
def test_a_url_that_is_not_a_string_is_a_wrong_setting(url: object) -> None:
    with pytest.raises(ConfigurationError, match="is not a store URL"):
        App(url)  # type: ignore[arg-type]


def test_broken_rules_are_reported_together_with_bad_values() -> None:
    with pytest.raises(ConfigurationError) as caught:
        App("memory://", ttl="1s", beat="2s", grace="x", beat_history="a day")
    assert len(caught.value.problems) >= 4
    assert any(problem.startswith("beat_history: ") for problem in caught.value.problems)


def test_the_refusal_of_a_url_does_not_show_its_password() -> None:
    with pytest.raises(ConfigurationError) as refused:
        App("nosuch://jobs:s3cret@db/shop?password=s3cret")
    assert "s3cret" not in str(refused.value)


def test_recovery_by_hand_takes_kinds_and_refuses_unknown_ones() -> None:
    app = App("memory://", recovery=RecoverySwitches(claimed=False))
    assert app.recovery.run_once(only=["claimed"]) == []
    with pytest.raises(ConfigurationError, match="only='lost': use claimed, running, overrun, expired"):
        app.recovery.run_once(only=["lost"])
    app.close()
    with pytest.raises(ConfigurationError, match="recovery=True: pass RecoverySwitches"):
        App("memory://", recovery=True)  # type: ignore[arg-type]
