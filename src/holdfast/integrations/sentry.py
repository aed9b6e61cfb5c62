"""``holdfast.integrations.sentry``: jobs that failed for good as events of Sentry, grouped by cause."""

from collections.abc import Iterator
from types import TracebackType
from typing import Any

from holdfast._core import lifecycle
from holdfast._core.fingerprint import Frame, error_key
from holdfast._core.job import ActiveJob, State
from holdfast._core.lifecycle import Transition
from holdfast._engine.runners.current import current_job, current_mask
from holdfast._engine.runners.outcomes import outcome_of_error
from holdfast._engine.tasks.around_enqueue import NewJobView
from holdfast._engine.tasks.context import Job, SyncJob
from holdfast.app import App
from holdfast.errors import MissingExtra
from holdfast.integrations.new_apps import on_new_app

try:
    import sentry_sdk
    from sentry_sdk.integrations import Integration
    from sentry_sdk.utils import event_from_exception
except ModuleNotFoundError as missing:
    raise MissingExtra(missing.name or "sentry_sdk", "sentry") from missing


class SentryIntegration(Integration):
    """Reports each job of any App when its last attempt fails, with ``every_attempt=True`` each failed attempt.

    Programs call ``sentry_sdk.init`` before they make their App, in every process that loads it.

    >>> sentry_sdk.init(dsn, integrations=[SentryIntegration()])  # doctest: +SKIP
    """

    identifier = "holdfast"

    def __init__(self, *, every_attempt: bool = False) -> None:
        self.every_attempt = every_attempt

    @staticmethod
    def setup_once() -> None:
        """Reach each App that is made from now on; Sentry calls it once in a process."""
        on_new_app(_instrument)


def _instrument(app: App) -> None:
    def publish(job: NewJobView) -> Iterator[None]:
        with sentry_sdk.start_span(op="queue.publish", name=job.task) as span:
            _describe(span, str(job.id), job.queue)
            yield

    def process(job: Job | SyncJob) -> Iterator[None]:
        held, integration = current_job(), sentry_sdk.get_client().get_integration(SentryIntegration)
        if held is None or integration is None:
            yield
            return
        with sentry_sdk.isolation_scope() as scope:
            scope.clear_breadcrumbs()
            scope.set_transaction_name(held.task)
            tags = {"task": held.task, "queue": held.queue, "attempt": held.attempt, "rescued": job.rescued or "no"}
            scope.set_tags({f"holdfast.{name}": str(value) for name, value in tags.items()})
            with sentry_sdk.start_transaction(op="queue.process", name=held.task) as span:
                _describe(span, str(held.id), held.queue)
                try:
                    yield
                except Exception as error:
                    _report(app, held, error, every_attempt=integration.every_attempt)
                    raise

    app.around_enqueue(publish)
    app.around_run(process)


def _describe(span: Any, job: str, queue: str) -> None:
    span.set_data("messaging.message.id", job)
    span.set_data("messaging.destination.name", queue)


def _report(app: App, job: ActiveJob, error: Exception, *, every_attempt: bool) -> None:
    """Send the failure if no attempt follows it. What the store then does is decided in the same way."""
    move = _move_after(app, job, error)
    if move is None or move.error is None or not (every_attempt or move.to is State.FAILED):
        return
    event, hint = event_from_exception(
        error,
        client_options=sentry_sdk.get_client().options,
        mechanism={"type": SentryIntegration.identifier, "handled": False},
    )
    mask = current_mask() or str
    for shown in event.get("exception", {}).get("values", ()):
        shown["value"] = mask(str(shown.get("value") or ""))
        for frame in (shown.get("stacktrace") or {}).get("frames", ()):
            frame.pop("vars", None)  # they hold the payload
    kind = f"{type(error).__module__}.{type(error).__qualname__}"
    reason = "" if move.reason is None else move.reason.value
    event["fingerprint"] = [error_key(job.task, reason, kind, list(_frames(error.__traceback__)))]
    sentry_sdk.capture_event(event, hint)


def _move_after(app: App, job: ActiveJob, error: Exception) -> Transition | None:
    task = app.registry.get(job.task)
    outcome = None if task is None else outcome_of_error(error, task, is_stopped=False, saw_cancellation=False)
    return None if outcome is None else lifecycle.finish(job, outcome, jitter=0.0)


def _frames(trace: TracebackType | None) -> Iterator[Frame]:
    while trace is not None:
        code = trace.tb_frame.f_code
        yield Frame(code.co_filename, trace.tb_frame.f_globals.get("__name__", ""), code.co_qualname)
        trace = trace.tb_next
