"""Names that people bring along from Celery, and what does that here: for error messages."""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Final, TypeVar, cast

from holdfast.errors import ConfigurationError

Method = TypeVar("Method", bound=Callable[..., Any])

METHODS: Final[Mapping[str, str]] = {
    "delay": "task.enqueue(…)",
    "apply_async": "task.options(…).enqueue(…)",
    "s": "task.bind(…)",
    "si": "task.bind(…)",
}
OPTIONS: Final[Mapping[str, str]] = {
    "countdown": "delay=",
    "eta": "run_at=",
    "expires": "expires_in=",
    "max_retries": "max_attempts=, which counts the first attempt, too",
    "autoretry_for": "retry_for=",
    "default_retry_delay": "backoff=",
    "retry_backoff": "backoff=",
    "time_limit": "timeout=",
    "bind": "a first parameter `job: Job`",
}


def missing(kind: str, name: str) -> str:
    """Return the message for an attribute that a task does not have.

    >>> missing("Task", "delay")
    "'Task' object has no attribute 'delay'; Holdfast: task.enqueue(…)"
    """
    here = METHODS.get(name)
    return f"{kind!r} object has no attribute {name!r}" + ("" if here is None else f"; Holdfast: {here}")


def unknown_options(where: str, given: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return a problem for each option that does not exist, with what does it here.

    >>> unknown_options("app.task", ["bind", "queue"], ["queue"])
    ["app.task has no option 'bind'; Holdfast: a first parameter `job: Job`"]
    """
    there_are = f"there are {', '.join(sorted(known))}"
    unknown = sorted(set(given) - set(known))
    here = {name: f"Holdfast: {OPTIONS[name]}" if name in OPTIONS else there_are for name in unknown}
    return [f"{where} has no option {name!r}; {here[name]}" for name in unknown]


def with_hints(options: Method) -> Method:
    """Wrap a method that takes options, so that the error for one of Celery's names what does it here."""

    @wraps(options)
    def checked(*args: Any, **given: Any) -> Any:
        if not OPTIONS.keys().isdisjoint(given):
            raise ConfigurationError(unknown_options("task.options", given.keys() & OPTIONS.keys(), ()))
        return options(*args, **given)

    return cast(Method, checked)
