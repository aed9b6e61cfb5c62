"""Sentry gets one event for a job that failed for good, grouped by its cause, without its payload."""

from collections.abc import Iterator
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from holdfast import App, SyncJob
from holdfast.integrations import sentry
from holdfast.integrations.new_apps import on_new_app
from holdfast.integrations.sentry import SentryIntegration

CANARY = "canary-4711"
Events = list[dict[str, Any]]


class Kept(Transport):
    """A transport that keeps what it is given."""

    def __init__(self, events: Events) -> None:
        super().__init__()
        self.events = events

    def capture_envelope(self, envelope: Envelope) -> None:
        if (event := envelope.get_event()) is not None:
            self.events.append(dict(event))


@pytest.fixture(params=[False, True], ids=["final", "every_attempt"])
def events(request: pytest.FixtureRequest) -> Iterator[Events]:
    """Send to a list, as a program whose option ``every_attempt`` is off or on."""
    undo = on_new_app(sentry._instrument)
    found: Events = []
    integration = SentryIntegration(every_attempt=request.param)
    with sentry_sdk.isolation_scope(), sentry_sdk.new_scope() as scope:
        client = sentry_sdk.Client(
            dsn="https://key@localhost/1", transport=Kept(found), default_integrations=False, auto_enabling_integrations=False
        )
        client.integrations["holdfast"] = integration
        scope.set_client(client)
        yield found
        client.close()
    undo()


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_a_job_that_fails_for_good_is_one_event_of_its_cause(
    events: Events, kind: str, request: pytest.FixtureRequest
) -> None:
    app = App("memory://")

    def broken(password: str) -> None:
        raise ValueError(f"refused {password}")

    if kind == "loop":

        @app.task(max_attempts=2)
        async def sync(password: str) -> None:
            broken(password)
    else:

        @app.task(max_attempts=2)
        def sync(job: SyncJob, password: str) -> None:
            broken(password)

    for _ in range(2):
        await app.aenqueue("sync", password=CANARY)
    for _ in range(2):
        await app.arun_due()
        waiting = [view.id for view in await app.jobs.alist(state="scheduled")]
        for job in waiting:
            await app.jobs.areschedule(job, delay=0)
    assert len(events) == (4 if "every_attempt" in request.node.name else 2)
    final = events[-2:]
    assert final[0]["fingerprint"] == final[1]["fingerprint"]
    assert len(final[0]["fingerprint"][0]) == 16
    assert final[0]["tags"]["holdfast.task"] == "sync"
    assert final[0]["tags"]["holdfast.attempt"] == "2"
    assert final[0]["exception"]["values"][0]["type"] == "ValueError"
    assert CANARY not in str(events)
