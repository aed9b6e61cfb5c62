"""``app.workflows``: workflows are listed, read, drawn, steered by id, and repaired all at once."""

import pytest

from holdfast import ConfigurationError, Failed, JobNotFound, Node, State, Workflow
from holdfast._engine.events import Event
from holdfast._engine.workflows.handle import WorkflowHandle
from holdfast.settings import RecoverySwitches
from tests.engine.workflows.stores import new_app, set_needs


class Scene:
    """An App with a workflow whose second node fails for the ref ``bad``, and the events of it."""

    def __init__(self, recovery: RecoverySwitches | None = None) -> None:
        self.app = app = new_app(recovery=recovery)
        self.events: list[Event] = []
        app.on("*")(self.events.append)

        @app.task
        def build(ref: str) -> str:
            return ref

        @app.task(max_attempts=1)
        def check(built: str) -> str:
            if built == "bad":
                raise ValueError(built)
            return built

        @app.task
        def publish(checked: str | Failed) -> str:
            return "nothing" if isinstance(checked, Failed) else checked

        @app.workflow(on_failure="pause")
        def release(w: Workflow, ref: str) -> Node[str]:
            checked = w.add(check.bind(built=w.add(build.bind(ref)).output))
            return w.add(publish.bind(checked.output))

        self.build, self.release = build, release

    def damage(self, handle: WorkflowHandle[str]) -> None:
        set_needs(self.app, handle.nodes()[2].job, 9)

    def fields(self, name: str) -> list[dict[str, object]]:
        return [event.fields for event in self.events if event.name == name]


def test_workflows_are_listed_without_their_nodes_and_plain_jobs() -> None:
    at = Scene()
    handles = [at.release.options(tags=[ref]).enqueue(ref) for ref in "abc"]
    at.build.enqueue("plain")
    ids = [handle.id for handle in reversed(handles)]
    assert [each.id for each in at.app.workflows.list()] == ids
    assert [each.id for each in at.app.workflows.list(name="release", limit=2)] == ids[:2]
    assert [each.id for each in at.app.workflows.list(cursor=ids[1])] == ids[2:]
    assert [each.id for each in at.app.workflows.list(tag="b")] == [handles[1].id]
    assert at.app.workflows.list(state="completed") == at.app.workflows.list(key="other") == []
    with pytest.raises(ConfigurationError, match="limit=0"):
        at.app.workflows.list(limit=0)


def test_a_workflow_is_read_with_its_nodes_and_drawn() -> None:
    at = Scene()
    handle = at.release.enqueue("main")
    view = at.app.workflows.get(str(handle.id))
    assert (view.name, view.state, [node.name for node in view.nodes]) == (
        "release",
        State.BLOCKED,
        ["build", "check", "publish"],
    )
    assert at.app.workflows.picture(handle.id).startswith("release: waiting, 0 of 3 nodes done")
    assert at.app.workflows.picture(handle.id, "svg").startswith("<svg")
    with pytest.raises(JobNotFound):
        at.app.workflows.get("nonsense")


@pytest.mark.parametrize(
    ("failed", "runs", "result"), [("fail", 0, "failed"), ("retry", 1, "blocked"), ("continue", 1, "completed")]
)
def test_a_paused_failure_is_decided_by_an_operator(failed: str, runs: int, result: str) -> None:
    at = Scene()
    handle = at.release.enqueue("bad")
    at.app.run_due()
    assert at.app.workflows.get(handle.id).paused_at is not None
    waiting = at.app.jobs.explain(handle.nodes()[2].job)
    assert "--failed retry" in waiting.causes[0].remedy
    at.app.workflows.resume(handle.id, failed)  # type: ignore[arg-type]
    assert at.app.run_due() == runs
    assert handle.get().state.value == result
    assert at.fields("workflow.resumed") == [{"workflow": handle.id, "failed": failed}]


def test_workflows_are_steered_by_their_ids_and_each_verb_is_an_event() -> None:
    at = Scene()
    handle = at.release.enqueue("main")
    assert at.app.workflows.pause(handle.id) is State.BLOCKED
    assert at.app.jobs.get(handle.nodes()[0].job).held_for == "pause"
    assert at.app.jobs.explain(handle.nodes()[0].job).causes[0].remedy.startswith(f"`holdfast workflows resume {handle.id}`")
    assert at.app.workflows.resume(handle.id) is State.BLOCKED
    assert at.app.workflows.cancel(handle.id) is State.CANCELLED
    assert at.app.workflows.retry(handle.id) is State.BLOCKED
    at.app.run_due()
    assert at.app.workflows.retry(handle.id, from_="check") is State.BLOCKED
    assert at.app.run_due() == 2
    recorded = [(each.action, each.count, each.selector) for each in reversed(at.app.audit.list())]
    actions = ("pause", "resume", "cancel", "retry", "retry")
    assert recorded == [(f"workflow.{action}", 1, f'{{"workflow":"{handle.id}"}}') for action in actions]
    assert at.fields("workflow.paused") == [{"workflow": handle.id}]
    assert at.fields("job.reopened") == [{"job": handle.id, "state": "blocked"}] * 2
    assert at.fields("job.cancel_requested") == [{"job": handle.id, "state": "cancelled"}]


@pytest.mark.parametrize("verb", ["get", "picture", "pause", "resume", "cancel", "retry", "recover_stuck"])
def test_every_verb_refuses_the_id_of_a_job_that_is_not_a_workflow(verb: str) -> None:
    at = Scene()
    parent, done, node = at.build.enqueue("parent"), at.build.enqueue("done"), at.release.enqueue("main").nodes()[0].job
    at.app.run_due(limit=2)
    at.build.options(after=[parent]).enqueue("dependent")
    before = [at.app.jobs.get(job) for job in (parent.id, done.id, node)]
    for job in (parent.id, done.id, node):
        with pytest.raises(JobNotFound, match=f"no workflow has the id {job}: .*`holdfast jobs`"):
            getattr(at.app.workflows, verb)(job)
    assert [at.app.jobs.get(job) for job in (parent.id, done.id, node)] == before


def test_damaged_workflows_are_repaired_all_at_once_or_one_by_one() -> None:
    at = Scene()
    handles = [at.release.enqueue("main") for _ in range(25)]
    for handle in handles:
        at.damage(handle)
    assert len(at.app.workflows.recover_stuck(dry_run=True).repairs) == 25
    assert at.fields("workflow.repaired") == []
    (only,) = at.app.workflows.recover_stuck(handles[3].id).repairs
    assert (only.flow, only.node, only.was, only.now) == (handles[3].id, "publish", (9, 1), (1, 1))
    assert len(at.app.workflows.recover_stuck().repairs) == 24
    assert at.app.workflows.recover_stuck().repairs == ()
    assert len(at.fields("workflow.repaired")) == 25
    recorded = [(each.count, each.selector) for each in at.app.audit.list(action="workflow.recover")]
    assert recorded == [(0, '{"all":true}'), (24, '{"all":true}'), (1, f'{{"workflow":"{handles[3].id}"}}')]


@pytest.mark.parametrize(("only", "repaired"), [(None, 0), (["workflows"], 1), (["claimed"], 0)])
def test_a_recovery_by_hand_repairs_workflows_unless_that_kind_is_off(only: list[str] | None, repaired: int) -> None:
    at = Scene(RecoverySwitches(workflows=False))
    at.damage(at.release.enqueue("main"))
    at.app.recovery.run_once(only=only)
    assert len(at.fields("workflow.repaired")) == repaired


def test_check_names_workflows_that_are_not_recovered() -> None:
    at = Scene(RecoverySwitches(workflows=False))
    at.app.migrate()
    messages = [each.message for each in at.app.check() if each.name == "recovery"]
    assert messages == ["App(recovery=…) switches the recovery of workflows off"]
