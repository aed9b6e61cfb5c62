"""The composition root: App wires store, transport, clock and host. The only file that knows all rooms."""

import inspect
import os
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from holdfast._core.durations import Duration
from holdfast._core.payload import encode_payload
from holdfast._core.policy import Backoff, CrashPolicy, Policy
from holdfast._engine.connections import Connections
from holdfast._engine.context import Job, SyncJob
from holdfast._engine.decorator import Decorator
from holdfast._engine.events import Event, Events
from holdfast._engine.handle import Handle
from holdfast._engine.operators import Jobs, RecoveryRun, Workers
from holdfast._engine.options import Options
from holdfast._engine.recovery import Contact, Recovery, Rescued
from holdfast._engine.registry import Errors, Registry, define, problems_of_names
from holdfast._engine.task import Desk, Task
from holdfast._ports.clock import SystemChance, SystemClock
from holdfast._ports.store import Check, LeaseView, Store
from holdfast._ports.transport import Transport
from holdfast.errors import ConfigurationError
from holdfast.settings import Settings
from holdfast.sync import blocking

Payload = ParamSpec("Payload")
Result = TypeVar("Result")
Subscriber = TypeVar("Subscriber", bound=Callable[[Event], object])


class App:
    """Tasks, and the store their jobs live in. Opens nothing until first used.

    >>> app = App("memory://")
    >>> @app.task
    ... def resize(path: str, width: int = 800) -> str: ...
    >>> handle = resize.enqueue("a.png")
    >>> handle.get().payload
    {'path': 'a.png'}
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        ttl: Duration = "30s",
        beat: Duration | None = None,
        margin: Duration | None = None,
        recovery_interval: Duration = "5s",
        poll_interval: Duration = "1s",
        max_block: Duration = "5m",
        grace: Duration = "20s",
        reconcile: Literal["process", "hostname", "off"] = "process",
    ) -> None:
        url = url or os.environ.get("HOLDFAST_URL")
        problems = [] if url is None or url == "" else problems_of_url(url)
        try:
            self.settings = Settings.of(
                url,
                ttl=ttl,
                beat=beat,
                margin=margin,
                recovery_interval=recovery_interval,
                poll_interval=poll_interval,
                max_block=max_block,
                grace=grace,
                reconcile=reconcile,
            )
        except ConfigurationError as error:
            problems += error.problems
        if problems:
            raise ConfigurationError(problems)
        self.registry = Registry()
        self.events = Events()
        self._connections = Connections(self.settings, self.events, open_store, open_transport)
        self._desk = Desk(self._connections.client, self._connections.chance)
        self.jobs = Jobs(self._connections.client)
        self.workers = Workers(self._read_workers)
        self.recovery = RecoveryRun(self._recover)

    @overload
    def task(
        self, function: Callable[Concatenate[Job, Payload], Coroutine[Any, Any, Result]], /
    ) -> Task[Concatenate[Job, Payload], Coroutine[Any, Any, Result], Payload]: ...
    @overload
    def task(
        self, function: Callable[Concatenate[SyncJob, Payload], Result], /
    ) -> Task[Concatenate[SyncJob, Payload], Result, Payload]: ...
    @overload
    def task(self, function: Callable[Payload, Result], /) -> Task[Payload, Result, Payload]: ...
    @overload
    def task(
        self,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 0,
        max_attempts: int = 3,
        max_crashes: int = 3,
        backoff: Backoff | None = None,
        retry_for: Errors = (),
        fail_for: Errors = (),
        on_crash: CrashPolicy | Literal["retry", "fail", "hold"] = "retry",
        retention: Duration = "7d",
    ) -> Decorator: ...
    def task(self, function: Callable[..., Any] | None = None, **options: Any) -> Any:
        """Register a handler, bare or with options. ``ConfigurationError`` names everything that cannot work.

        The job parameter is optional and comes first: ``Job`` in ``async def``, ``SyncJob`` in ``def`` (run in a thread).

        >>> @app.task(max_attempts=5, backoff=Backoff.exponential("1s", cap="1h"))  # doctest: +SKIP
        ... async def analyze(job: Job, repo_url: str, limit: int = 100) -> dict: ...
        """

        known = set(inspect.signature(define).parameters) - {"function"}
        if unknown := sorted(set(options) - known):
            there_are = f"there are {', '.join(sorted(known))}"
            raise ConfigurationError([f"app.task has no option {name!r}; {there_are}" for name in unknown])

        def register(handler: Callable[..., Any]) -> Task[..., Any, ...]:
            definition = define(handler, **options)
            self.registry.add(definition)
            return Task(definition, self._desk)

        return register if function is None else register(function)

    async def aenqueue(self, task: str, /, **payload: object) -> Handle:
        """Enqueue by name, for producers that do not have the code; checked as far as this App knows the task."""
        known = self.registry.get(task)
        if known is not None:
            handles = await self._desk.enqueue(known, Options(), [known.payload.encode((), payload)])
        else:
            if problems := problems_of_names(task, "default", 0):
                raise ConfigurationError(problems)
            data = encode_payload(task, payload)
            handles = await self._desk.write(task, [data], "default", 0, policy=Policy(), options=Options())
        return handles[0]

    def on(self, event: str) -> Callable[[Subscriber], Subscriber]:
        """Have a function called for each event of that name (``"*"``: all); it can never break the engine.

        >>> @app.on("job.rescued")  # doctest: +SKIP
        ... def tell(event): print(event.fields["job"])
        """

        def subscribe(callback: Subscriber) -> Subscriber:
            self.events.on(event, callback)
            return callback

        return subscribe

    async def amigrate(self) -> tuple[int, int]:
        """Bring the store's schema up to date; versions before and after."""
        return await self._connections.store.migrate()

    async def acheck(self) -> tuple[Check, ...]:
        """What is right and wrong with settings and store, all findings at once."""
        warnings = (Check("warning", "settings", text, "raise ttl or lower beat") for text in self.settings.timing.warnings())
        return (*warnings, *await self._connections.store.check())

    async def aclose(self) -> None:
        """Close what this App has opened for the running event loop; the next use opens it again."""
        await self._connections.close()

    enqueue = blocking(aenqueue)
    migrate = blocking(amigrate)
    check = blocking(acheck)
    close = blocking(aclose)

    async def _read_workers(self) -> Sequence[LeaseView]:
        return await self._connections.store.workers()

    async def _recover(self, now: bool) -> Sequence[Rescued]:
        from holdfast._ports.system_host import SystemHost

        store, clock, timing = self._connections.store, self._connections.clock, self.settings.timing
        contact = Contact(timing, clock.monotonic)
        recovery = Recovery(
            store,
            contact,
            now=clock.monotonic,
            chance=self._connections.chance,
            events=self.events,
            publish=self._connections.transport.publish,
            host=None if self.settings.reconcile == "off" else SystemHost(),
        )
        rescued = [*await recovery.reconcile(), *await recovery.step(skip_amnesty=now)]
        while not now and any(lease.end is None and not contact.allows(lease.timing) for lease in await store.expired(100)):
            await clock.sleep(timing.beat / 2)
            rescued += await recovery.step()
        return rescued


def open_store(settings: Settings) -> Store:
    """The store a URL names; drivers are loaded only now."""
    if _scheme(settings.url) == "memory":
        from holdfast.stores.memory import MemoryStore

        return MemoryStore(SystemClock())
    from holdfast._ports.system_host import SystemHost
    from holdfast.stores.sqlite.store import SqliteStore

    return SqliteStore(_path(settings.url), clock=SystemClock(), chance=SystemChance(), process=SystemHost().process())


def open_transport(settings: Settings) -> Transport:
    """How workers that share the URL's store wake each other."""
    if _scheme(settings.url) == "memory":
        from holdfast.transports.polling import PollingTransport

        return PollingTransport()
    from holdfast._ports.system_host import SystemHost
    from holdfast.transports.local import LocalTransport

    return LocalTransport(_path(settings.url), SystemHost().process())


def problems_of_url(url: str) -> list[str]:
    """What is wrong with a store's URL, naming the remedy."""
    if not isinstance(url, str):
        return [f"{url!r} names no store: pass a text such as 'sqlite:///jobs.db'"]
    scheme, found, rest = url.partition("://")
    if not found or scheme not in ("sqlite", "memory"):
        return [f"{url!r} names no store; there are sqlite:///relative.db, sqlite:////absolute.db and memory://"]
    if scheme == "memory" and rest:
        return [f"{url!r}: write memory:// and nothing behind it"]
    path = rest.removeprefix("/")
    if scheme == "sqlite" and (not rest.startswith("/") or not path or path.startswith(":") or "?" in path):
        return [f"{url!r}: write sqlite:///relative/path.db or sqlite:////absolute/path.db"]
    return []


def _scheme(url: str) -> str:
    return url.partition("://")[0]


def _path(url: str) -> str:
    return url.removeprefix("sqlite:///")
