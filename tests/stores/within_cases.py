"""What `within=` promises on any connection; the test classes of SQLite and PostgreSQL provide the connections."""

from collections.abc import Callable

import pytest

from holdfast import App, ConfigurationError, Event, Node, SchemaMissing, UniqueConflict, Unsupported, Workflow
from holdfast._engine.workflows.definition import WorkflowDefinition
from holdfast._ports.transport import Hint
from tests.e2e.waiting import STALL, eventually
from tests.stores.callers import Awaited, Caller

ORDER = "INSERT INTO orders VALUES (1)"


def shrink(path: str, width: int = 800) -> None: ...


def expect(caller: Caller, actual: Callable[[], object], wanted: object) -> None:
    """Expect a value at once, or for an awaited library once its event loop has run pending callbacks."""
    if isinstance(caller, Awaited):
        caller.run(eventually(lambda: actual() == wanted, within=STALL))
    assert actual() == wanted


def chained(app: App) -> WorkflowDefinition[[str], str]:
    """Return a workflow of two nodes in a row and one beside them."""

    @app.task
    def work(text: str) -> str:
        return text

    @app.task
    def end(text: str) -> str:
        return f"{text}: done"

    @app.workflow
    def release(w: Workflow, text: str) -> Node[str]:
        last = w.add(end.bind(w.add(work.bind(text), name="first").output), name="second")
        w.add(work.bind("x"), name="side")
        return last

    return release


class WithinStories:
    """The tests; they need the fixtures ``app``, ``caller``, ``opened`` (a second caller of the kind) and ``orders`` (a count)."""

    @pytest.fixture
    def announced(self, app: App) -> list[object]:
        """Return a list that collects the ids of announced jobs."""
        found: list[object] = []

        def note(event: Event) -> None:
            found.append(event.fields["job"])

        app.on("job.enqueued")(note)
        return found

    @pytest.fixture
    def hinted(self, app: App, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Return a list that collects the queues whose idle workers were woken."""
        found: list[str] = []

        async def publish(hints: list[Hint]) -> None:
            found.extend(hint.queue for hint in hints)

        monkeypatch.setattr(app._connections.transport, "publish", publish)
        return found

    def test_s7_job_and_row_exist_once_both_are_committed(
        self, app: App, caller: Caller, orders: Callable[[], int], announced: list[object], hinted: list[str]
    ) -> None:
        caller.execute(ORDER)
        handle = caller.enqueue(app.task(shrink).options(within=caller.within, queue="q"), "a")
        assert (orders(), sum(app.jobs.counts().values())) == (0, 0)
        assert (announced, hinted) == ([], [])
        caller.commit()
        assert orders() == 1
        assert handle.get().payload == {"path": "a"}
        expect(caller, lambda: (announced, hinted), ([handle.id], ["q"]) if caller.announces else ([], []))

    def test_s7_neither_job_nor_row_exists_after_a_rollback_and_the_connection_stays_usable(
        self, app: App, caller: Caller, orders: Callable[[], int], announced: list[object]
    ) -> None:
        task = app.task(shrink)
        caller.execute(ORDER)
        caller.enqueue(task.options(within=caller.within, unique_key="k"), "a")
        caller.rollback()
        assert (orders(), sum(app.jobs.counts().values())) == (0, 0)
        caller.begin()
        caller.execute(ORDER)
        handle = caller.enqueue(task.options(within=caller.within, unique_key="k"), "b")
        caller.commit()
        assert (orders(), [job.id for job in app.jobs.list()]) == (1, [handle.id])
        expect(caller, lambda: announced, [handle.id] if caller.announces else [])

    def test_s7_a_job_that_a_savepoint_rolls_back_never_existed(
        self, app: App, caller: Caller, orders: Callable[[], int], announced: list[object]
    ) -> None:
        task = app.task(shrink)
        first = caller.enqueue(task.options(within=caller.within), "first")
        caller.set_savepoint()
        caller.execute(ORDER)
        caller.enqueue(task.options(within=caller.within, unique_key="k"), "undone")
        caller.undo_savepoint()
        caller.set_savepoint()
        kept = caller.enqueue(task.options(within=caller.within, unique_key="k"), "kept")
        caller.keep_savepoint()
        assert announced == []
        caller.commit()
        assert (orders(), {job.id for job in app.jobs.list()}) == (0, {first.id, kept.id})
        expect(caller, lambda: announced, [first.id, kept.id] if caller.announces else [])

    def test_a_taken_key_is_answered_a_conflict_is_raised_and_the_transaction_continues(self, app: App, caller: Caller) -> None:
        task = app.task(shrink)
        first = task.options(unique_key="k").enqueue("a")
        same = caller.enqueue(task.options(unique_key="k", within=caller.within), "a")
        assert (same.created, same.id) == (False, first.id)
        with pytest.raises(UniqueConflict) as conflict:
            caller.enqueue(task.options(unique_key="k", within=caller.within), "b")
        assert conflict.value.job == first.id
        other = caller.enqueue(task.options(unique_key="l", within=caller.within), "b")
        again = caller.enqueue(task.options(unique_key="l", within=caller.within), "b")
        assert (again.created, again.id) == (False, other.id)
        caller.commit()
        assert {job.id for job in app.jobs.list()} == {first.id, other.id}

    def test_a_payload_arrives_as_it_was_written(self, app: App, caller: Caller) -> None:
        task, odd = app.task(shrink), "100 % $1 :x %(s)s {} \\ '\" \0 ✂ \U0001f600"
        long = caller.enqueue(task.options(within=caller.within, tags=["50 %", "$1 ✂"]), "x" * 100_000)
        short = caller.enqueue(task.options(within=caller.within, unique_key="%s'$1"), odd, 1)
        caller.commit()
        assert (long.get().payload, long.get().tags) == ({"path": "x" * 100_000}, ("50 %", "$1 ✂"))
        assert (short.get().payload, short.get().unique_key) == ({"path": odd, "width": 1}, "%s'$1")

    def test_s7_a_workflow_exists_with_all_its_nodes_once_the_transaction_is_committed(
        self, app: App, caller: Caller, orders: Callable[[], int], announced: list[object]
    ) -> None:
        release = chained(app)
        caller.enqueue(release.options(within=caller.within, unique_key="k"), "undone")
        caller.rollback()
        assert (sum(app.jobs.counts().values()), announced) == (0, [])
        caller.begin()
        caller.execute(ORDER)
        handle = caller.enqueue(release.options(within=caller.within, unique_key="k"), "100 % $1")
        assert sum(app.jobs.counts().values()) == 0
        caller.commit()
        assert orders() == 1
        assert [(node.name, node.state.value, node.after) for node in handle.nodes()] == [
            ("first", "available", ()),
            ("second", "blocked", ("first",)),
            ("side", "available", ()),
        ]
        ids = [*(node.job for node in handle.nodes()), handle.id]
        expect(caller, lambda: announced, ids if caller.announces else [])
        assert app.workflows.recover_stuck(dry_run=True).repairs == ()
        app.run_due()
        assert (handle.result(timeout=1), handle.get().state) == ("100 % $1: done", "completed")

    def test_a_taken_key_of_a_workflow_is_answered_and_a_conflict_leaves_the_transaction_usable(
        self, app: App, caller: Caller, orders: Callable[[], int]
    ) -> None:
        release = chained(app)
        first = release.options(unique_key="k").enqueue("a")
        same = caller.enqueue(release.options(unique_key="k", within=caller.within), "a")
        assert (same.created, same.id) == (False, first.id)
        with pytest.raises(UniqueConflict) as conflict:
            caller.enqueue(release.options(unique_key="k", within=caller.within), "b")
        assert conflict.value.job == first.id
        caller.execute(ORDER)
        caller.commit()
        assert orders() == 1
        assert len(app.workflows.list()) == 1
        assert sum(app.jobs.counts().values()) == 4

    def test_a_workflow_without_nodes_is_refused_and_so_is_a_call_that_does_not_await(self, app: App, caller: Caller) -> None:
        release = chained(app)

        @app.workflow
        def empty(w: Workflow) -> None:
            pass

        @app.workflow
        def outer(w: Workflow, text: str) -> None:
            w.add(empty.bind(), name="inner")
            w.add(release.bind(text))

        with pytest.raises(ConfigurationError, match=r"within: inner has no nodes, .* enqueue it after your commit"):
            caller.enqueue(outer.options(within=caller.within), "a")
        if caller.is_awaited:
            with pytest.raises(Unsupported, match=r"is awaited: use `await … \.aenqueue"):
                release.options(within=caller.within).enqueue("a")
        caller.commit()
        assert sum(app.jobs.counts().values()) == 0

    def test_many_are_one_write(self, app: App, caller: Caller) -> None:
        order = app.task(shrink).options(within=caller.within)
        payloads = [{"path": "x" * size} for size in (0, 10, 10_000)]
        if isinstance(caller, Awaited):
            handles = caller.run(order.aenqueue_many(payloads))
            assert caller.run(order.aenqueue_many([])) == []
        else:
            handles = order.enqueue_many(payloads)
            assert order.enqueue_many([]) == []
        caller.commit()
        assert [handle.get().payload for handle in handles] == payloads

    def test_an_awaited_connection_is_refused_by_the_call_that_does_not_await(self, app: App, caller: Caller) -> None:
        order = app.task(shrink).options(within=caller.within)
        if caller.is_awaited:
            with pytest.raises(Unsupported, match=r"is awaited: use `await … \.aenqueue"):
                order.enqueue("a")
            with pytest.raises(Unsupported, match=r"is awaited"):
                order.enqueue_many([{"path": "a"}])
        else:
            order.enqueue("a")
        caller.commit()
        assert app.jobs.counts()["available"] == int(not caller.is_awaited)

    def test_a_connection_to_another_database_is_refused_and_stays_usable(
        self, app: App, elsewhere: Caller, orders: Callable[[], int]
    ) -> None:
        order = app.task(shrink).options(within=elsewhere.within)
        elsewhere.execute("CREATE TABLE notes (text TEXT)")
        for _ in range(2):
            with pytest.raises((Unsupported, SchemaMissing), match=r"only in one (file|database)|use one to"):
                elsewhere.enqueue(order, "a")
        elsewhere.execute("INSERT INTO notes VALUES ('goes on')")
        elsewhere.commit()
        assert sum(app.jobs.counts().values()) == 0
