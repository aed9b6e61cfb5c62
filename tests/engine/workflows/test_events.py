"""The end of a workflow, and its pause for a failed node, are events of the process whose write did it."""

import pytest

from holdfast import Failed, Node, State, Workflow
from holdfast._engine.events import Event
from tests.engine.workflows.stores import new_app


class Scene:
    """An App with workflows of two nodes, and its events of workflows."""

    def __init__(self, on_failure: str = "fail") -> None:
        self.app = app = new_app()
        self.seen = list[tuple[str, dict[str, object]]]()
        app.on("*")(self._see)

        @app.task(max_attempts=1)
        def build(ref: str) -> str:
            if ref == "bad":
                raise ValueError(ref)
            return ref

        @app.task
        def publish(built: str | Failed) -> str:
            return "nothing" if isinstance(built, Failed) else built

        @app.workflow(on_failure=on_failure)  # type: ignore[arg-type]
        def release(w: Workflow, ref: str) -> Node[str]:
            return w.add(publish.bind(w.add(build.bind(ref)).output))

        self.release = release

    def _see(self, event: Event) -> None:
        if event.name.value.startswith("workflow."):
            self.seen.append((event.name.value, event.fields))


@pytest.mark.parametrize(
    ("on_failure", "ref", "name", "reason"),
    [
        ("fail", "good", "workflow.completed", None),
        ("fail", "bad", "workflow.failed", "DEPENDENCY_FAILED"),
        ("continue", "bad", "workflow.completed", None),
        ("cancel", "bad", "workflow.failed", "DEPENDENCY_FAILED"),
        ("pause", "bad", "workflow.paused", "DEPENDENCY_FAILED"),
    ],
)
def test_the_exchange_of_a_worker_reports_the_workflow_once(on_failure: str, ref: str, name: str, reason: str | None) -> None:
    at = Scene(on_failure)
    handle = at.release.enqueue(ref)
    assert at.seen == []
    at.app.run_due()
    at.app.run_due()
    assert at.seen == [(name, {"workflow": handle.id, "reason": reason})]


def test_an_operator_who_cancels_a_waiting_workflow_reports_its_end() -> None:
    at = Scene()
    handle = at.release.enqueue("good")
    assert at.app.workflows.cancel(handle.id) is State.CANCELLED
    at.app.workflows.cancel(handle.id)
    at.app.jobs.cancel(handle.id)
    assert at.seen == [("workflow.cancelled", {"workflow": handle.id, "reason": "BY_OPERATOR"})]


def test_a_job_that_is_cancelled_alone_reports_the_workflow_that_it_fails() -> None:
    at = Scene()
    handle = at.release.enqueue("good")
    at.app.jobs.cancel(handle.nodes()[0].job)
    assert at.seen == [("workflow.failed", {"workflow": handle.id, "reason": "DEPENDENCY_FAILED"})]


def test_an_operator_who_resumes_a_paused_failure_reports_the_end_after_the_resume() -> None:
    at = Scene("pause")
    handle = at.release.enqueue("bad")
    at.app.run_due()
    at.seen.clear()
    at.app.workflows.resume(handle.id, failed="fail")
    assert sorted(name for name, _ in at.seen) == ["workflow.failed", "workflow.resumed"]


def test_a_callback_of_one_event_is_called_for_it_alone() -> None:
    at, ends = Scene(), list[Event]()
    at.app.on("workflow.failed")(ends.append)
    for ref in ("good", "bad"):
        at.release.enqueue(ref)
    at.app.run_due()
    assert [event.fields["reason"] for event in ends] == ["DEPENDENCY_FAILED"]
