"""Every exception users meet; each message names the remedy.

HoldfastError
├── ConfigurationError      .problems: everything that is wrong, at once
│   ├── MissingExtra        a driver is not installed; names the packages to install
│   ├── InvalidCron         cron(…) cannot be read.
│   └── InvalidCursor       cursor= is not the id of a job.
├── PayloadInvalid          (also a ValueError) the payload does not fit the handler
│   ├── PayloadTooLarge
│   └── ResultInvalid       .result: what is stored does not fit the type that the task is annotated with
├── UnknownTask             (also a LookupError)
├── UniqueConflict          .job: an unfinished job has that unique key, with another payload
├── JobNotFound             (also a LookupError)
├── JobFailed               .reason .error .attempts
├── JobCancelled
├── StoreUnavailable        the outcome is *unknown*: it may or may not have happened
│   ├── StoreDamaged        the file of the store is damaged: restore a backup
│   └── StoreBusy           .jobs .lost: another session keeps a lock; of these jobs nothing was written
├── StoreRefused            the store is up and refuses: nothing happened; names the remedy
│   └── StoreFull           a store in a bucket has reached a limit, and takes no new jobs
├── SchemaMissing
├── SchemaTooNew
├── Unsupported             this store cannot do that, by its nature
├── RowsLost                .keys: rows of a batch that another worker has by now; the transaction is rolled back
└── InsideEventLoop         a blocking call inside a running loop; names the a-twin
JobLost                     a BaseException: the job belongs to another worker now, the handler must end
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID


class HoldfastError(Exception):
    """Base of all errors raised by Holdfast."""

    def __reduce__(self) -> tuple[Any, ...]:
        # A process pool copies what its code raised; the parameters of ``__init__`` are not always the message.
        return _remade, (type(self), self.args), self.__dict__


def _remade(kind: type[Exception], args: tuple[object, ...]) -> Exception:
    return kind.__new__(kind, *args)


class ConfigurationError(HoldfastError):
    """Settings that cannot work; ``problems`` lists all of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


PACKAGES: Final[Mapping[str, str]] = {
    "apsw": "apsw",
    "broker": "starlette uvicorn",
    "dashboard": "jinja2 starlette uvicorn",
    "demo": "matplotlib",
    "django": "django jinja2 'psycopg[binary]' starlette",
    "mongo": "pymongo",
    "nats": "nats-py",
    "objects": "obstore",
    "opentelemetry": "opentelemetry-api opentelemetry-instrumentation",
    "postgres": "asyncpg 'psycopg[binary]'",
    "prometheus": "prometheus_client",
    "remote": "aiohttp",
    "schedules": "cronsim tzdata",
    "sentry": "sentry-sdk",
    "sqlalchemy": "'sqlalchemy[asyncio]'",
}
"""The packages of each extra, as a shell takes them. They install the drivers also where Holdfast itself came from a clone or a file."""


class MissingExtra(ConfigurationError):
    """A driver is not installed; the message names the packages to install, which are those of an extra."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__([f"{module} is not installed: pip install {PACKAGES[extra]} (the extra holdfast[{extra}])"])


class InvalidCron(ConfigurationError):
    """A cron expression, or its time zone, cannot be read."""


class InvalidCursor(ConfigurationError):
    """A cursor is not the id of a job: pass that of the last job of the page before."""


class PayloadInvalid(HoldfastError, ValueError):
    """A payload does not fit the task's signature, or is not JSON."""


class PayloadTooLarge(PayloadInvalid):
    """A payload, result or checkpoint is beyond its cap."""


class ResultInvalid(PayloadInvalid):
    """A stored result does not fit the type that its task is annotated with; ``result`` is what is stored, as JSON."""

    def __init__(self, message: str, result: bytes = b"null") -> None:
        super().__init__(message)
        self.result = result


class UnknownTask(HoldfastError, LookupError):
    """No task of that name is registered here."""


class UniqueConflict(HoldfastError):
    """An unfinished job has that unique key, with another payload; ``job`` is its id."""

    def __init__(self, message: str, job: object) -> None:
        super().__init__(message)
        self.job = job


class JobNotFound(HoldfastError, LookupError):
    """No job has that id: it never existed, or its retention has passed."""


class JobFailed(HoldfastError):
    """The job whose result was asked for has failed."""

    def __init__(self, reason: str, error: object, attempts: object) -> None:
        super().__init__(reason if error is None else f"{reason}: {error}")
        self.reason, self.error, self.attempts = reason, error, attempts


class JobCancelled(HoldfastError):
    """The job whose result was asked for was cancelled."""


class StoreUnavailable(HoldfastError):
    """The store did not answer. Whether the write happened is unknown, so nothing may be concluded from it."""


class StoreDamaged(StoreUnavailable):
    """The file of the store is damaged. Trying again does not help: workers end, and an operator has to restore a backup."""


class StoreBusy(StoreUnavailable):
    """The store did answer: another session keeps a lock that the write needs, and nothing of it has happened.

    ``jobs``: only these were not written, because their rows are locked; empty: nothing was. ``lost``: of the others, those that
    belong to another attempt by now. ``states``: of the others, what an operator's verb has left them in.
    """

    def __init__(
        self,
        message: str,
        jobs: frozenset[UUID] = frozenset(),
        lost: frozenset[UUID] = frozenset(),
        states: Mapping[UUID, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.jobs, self.lost, self.states = jobs, lost, states or {}


class StoreRefused(HoldfastError):
    """The store is up and refuses the write, for example because of a trigger, a constraint or a publication.

    Nothing was written. Unlike ``StoreUnavailable`` it does not end by itself: workers try again, and an operator has to act.
    """


class StoreFull(StoreRefused):
    """A store in a bucket has reached one of its limits: it takes no new jobs. All that ends or deletes jobs goes on."""


class SchemaMissing(HoldfastError):
    """The store has no schema yet."""


class SchemaTooNew(HoldfastError):
    """The store was migrated by a newer release; this one would not understand it."""


class Unsupported(HoldfastError):
    """This store cannot do that, by its nature."""


class RowsLost(HoldfastError):
    """Rows of a batch were taken from it: nothing of the transaction that would have finished them is left.

    ``keys``: which ones. ``batch.open`` has the others, which can be finished in a separate transaction.
    """

    def __init__(self, message: str, keys: Sequence[object]) -> None:
        super().__init__(message)
        self.keys = list(keys)


class InsideEventLoop(HoldfastError):
    """A blocking call was made inside a running event loop, which it would block."""

    def __init__(self, twin: str) -> None:
        use = twin if twin.startswith("async ") else f"await {twin}(...)"
        super().__init__(f"called inside a running event loop: use `{use}` here")


class JobLost(BaseException):
    """The job belongs to another worker now; the handler must end. A BaseException, so that no ``except Exception`` hides it."""
