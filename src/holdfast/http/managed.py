"""What the management API works on: the verbs of an App, or those of a broker that has none."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from uuid import UUID

from msgspec import Struct

from holdfast._core.answers import Check
from holdfast._core.record import JobRecord
from holdfast._engine.client.client import Client
from holdfast._engine.environment import Environment
from holdfast._engine.operators.check import check
from holdfast._engine.operators.errors import Errors
from holdfast._engine.operators.limits import Limits
from holdfast._engine.operators.operators import Jobs, Workers, client_of
from holdfast._engine.operators.queues import Queues
from holdfast._engine.operators.schedules import Schedules
from holdfast._engine.operators.workflows import Workflows
from holdfast._engine.rows.rows import Rows
from holdfast._engine.tasks.registry import Registry
from holdfast._ports.clock import Randomness
from holdfast.app import App, environment_of
from holdfast.http.cursors import Cursors
from holdfast.http.redact import Redact, no_more
from holdfast.http.submitting import not_found
from holdfast.settings import Settings, public_url


class Managed(Struct, frozen=True, kw_only=True):
    """The store and its verbs. ``environment`` opens the store when it is first asked. ``check``: what is right and wrong with it.

    ``watches``: the tables that the App watches. ``redact``: what a program hides beside sensitive names.
    """

    environment: Callable[[], Environment]
    settings: Settings
    registry: Registry
    jobs: Jobs
    errors: Errors
    queues: Queues
    limits: Limits
    workers: Workers
    schedules: Schedules
    workflows: Workflows
    check: Callable[[], Awaitable[tuple[Check, ...]]]
    cursors: Cursors
    watches: Mapping[str, Rows] = {}
    redact: Redact = no_more

    @classmethod
    def of_app(cls, app: App, redact: Redact = no_more) -> "Managed":
        """Return the verbs of an App; nothing is opened yet."""
        return cls(
            environment=lambda: environment_of(app),
            settings=app.settings,
            registry=app.registry,
            jobs=app.jobs,
            errors=app.errors,
            queues=app.queues,
            limits=app.limits,
            workers=app.workers,
            schedules=app.schedules,
            workflows=app.workflows,
            check=app.acheck,
            cursors=Cursors(app.settings.url),
            watches=app.watches,
            redact=redact,
        )

    @classmethod
    def of_store(cls, environment: Environment, settings: Settings, registry: Registry, client: Client) -> "Managed":
        """Return verbs for an open store, which use this client."""
        connect = _Connect(client, environment.chance)
        return cls(
            environment=lambda: environment,
            settings=settings,
            registry=registry,
            jobs=Jobs(connect.client),
            errors=Errors(connect.client),
            queues=Queues(connect.client),
            limits=Limits(connect.client),
            workers=Workers(connect.client),
            schedules=Schedules(connect),
            workflows=Workflows(connect.client),
            check=lambda: check(environment.store, settings, registry),
            cursors=Cursors(settings.url),
        )

    @property
    def client(self) -> Client:
        """The client of the running event loop."""
        return client_of(self.jobs)

    @property
    def url(self) -> str:
        """The store's URL without its password."""
        return public_url(self.settings.url)

    async def record(self, job: UUID) -> JobRecord:
        """Return a job as the store has it; ``JobNotFound``."""
        found = await self.client.ask("get", lambda store: store.get(job))
        if found is None:
            raise not_found(job)
        return found

    def now(self) -> datetime:
        """Return the time on this machine's clock, for people."""
        return self.client.now()

    def sensitive(self, task: str) -> frozenset[str]:
        """Return the names under which a task declares values as sensitive."""
        definition = self.registry.get(task)
        return frozenset() if definition is None else definition.sensitive


class _Connect:
    """One client, where an App has one for each event loop."""

    def __init__(self, client: Client, chance: Randomness) -> None:
        self._client, self.chance = client, chance

    def client(self) -> Client:
        return self._client
