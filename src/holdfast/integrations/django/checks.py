"""Django's system checks: what is wrong with the settings, and, where a database may be opened, what ``holdfast check`` finds."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import django
from django.conf import settings
from django.core import checks

from holdfast._core.answers import Check
from holdfast._engine.tasks.registry import NAME
from holdfast.app import App
from holdfast.errors import ConfigurationError, HoldfastError
from holdfast.integrations.django import wiring
from holdfast.integrations.django.options import KNOWN, OF_PROJECT, BackendOptions
from holdfast.integrations.django.store_url import locks_too_late

ELSEWHERE: Final = '{"URL": "sqlite:///jobs.db"}'
OF_OLD_SQLITE: Final = (
    "use a Python with SQLite 3.51.3 or later; or keep the jobs in another file, {}, whose cost is that an enqueue is not part of "
    "your transaction any more"
)
TOO_LATE: Final = (
    "a transaction of Django takes SQLite's lock at its first write: after a read that fails with 'database is locked' if a worker "
    "has written in between"
)
NEEDS_5_1: Final = "Install Django 5.1 or later, which has the option transaction_mode."
Problem = tuple[str, str | None, str]


def problems_of(backend: Any) -> Iterator[Problem]:
    """Yield what is wrong with the settings of a backend: the problem, a hint and the id of the check."""
    for queue in sorted(backend.queues):
        if not NAME.fullmatch(queue):
            yield f"QUEUES: {queue!r} is not a queue name", "Use letters, digits and _ . : -", "holdfast.E001"
    try:
        app = backend.app
        for task in wiring.tasks():
            wiring.registered(app, task)
    except ConfigurationError as error:
        for problem in error.problems:
            yield problem, None, "holdfast.E002"
        return
    options = backend.holdfast
    if options.url is not None:
        return
    connection = wiring.connection_of(options)
    if options.mode == "now" and connection.vendor == "sqlite":
        yield (
            "TRANSACTION='now' waits for the lock of the caller's own transaction, because SQLite has one for the whole file",
            "Use 'join', or 'after_commit'.",
            "holdfast.E003",
        )
    if options.joins and connection.vendor == "postgresql" and not _has_psycopg_3():
        yield "jobs join transactions of psycopg 3, and Django uses psycopg2", "pip install 'psycopg[binary]'", "holdfast.E004"


def check_settings(**kwargs: Any) -> list[Any]:
    """Return what is wrong with ``HOLDFAST``, and with ``TASKS`` in a Django without tasks. Newer releases check ``TASKS`` themselves."""
    del kwargs
    given = getattr(settings, "HOLDFAST", {})
    problems = [f"HOLDFAST: there is no {name!r}: use {', '.join(OF_PROJECT)}" for name in given if name not in OF_PROJECT]
    if wiring.is_too_old():
        problems.append(f"{wiring.NEEDS_6}{wiring.WITHOUT_TASKS}")
    try:
        options = BackendOptions.of({name: value for name, value in given.items() if name in KNOWN})
        if options.url is None:
            wiring.connection_of(options)
        App(options.url or "memory://", **options.settings)
    except ConfigurationError as error:
        problems += [f"HOLDFAST: {problem}" for problem in error.problems]
    return [checks.Error(problem, id="holdfast.E005") for problem in problems]


def check_transactions(**kwargs: Any) -> list[Any]:
    """Return a warning for each file of SQLite with jobs in it, whose transactions do not wait for the lock at their start."""
    del kwargs
    try:
        there_are = wiring.backends().values()
        connections = {each.database: wiring.connection_of(each) for each in there_are if each.url is None}
    except ConfigurationError:  # the other checks of settings report it
        return []
    warned = [alias for alias, connection in connections.items() if locks_too_late(connection.vendor, connection.settings_dict)]
    return [_too_late(alias, connections[alias].settings_dict) for alias in warned]


def _too_late(alias: str, database: Mapping[str, Any]) -> Any:
    name = f'DATABASES["{alias}"]["OPTIONS"]'
    line = (
        f'{name}["transaction_mode"] = "IMMEDIATE"'
        if database.get("OPTIONS")
        else f'{name} = {{"transaction_mode": "IMMEDIATE"}}'
    )
    hint = f"{line}  # in the settings, below DATABASES" if django.VERSION >= (5, 1) else NEEDS_5_1
    return checks.Warning(f"DATABASES[{alias!r}]: {TOO_LATE}", hint=hint, id="holdfast.W002")


def _has_psycopg_3() -> bool:
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    return bool(is_psycopg3)


def check_stores(databases: Sequence[str] | None = None, **kwargs: Any) -> list[Any]:
    """Return what ``holdfast check`` finds, where Django's checks may open the database: ``check --database default``, ``migrate``, tests.

    All are warnings: an error would keep ``migrate`` from the very database that lacks its schema.
    """
    del kwargs
    found = []
    try:
        there_are = wiring.backends()
    except ConfigurationError:  # the checks of settings report it
        return []
    for alias, options in there_are.items():
        if options.url is None and options.database in (databases or ()):
            found += [_warning(alias, problem) for problem in _findings(alias) if problem.level != "ok"]
    return found


def _is_about_to_be_made(problem: Check) -> bool:
    """Return whether the finding is a schema that is missing or old, and ``migrate`` is what runs."""
    return problem.name == "schema" and "migrate" in problem.remedy and sys.argv[1:2] == ["migrate"]


def _findings(alias: str) -> Sequence[Check]:
    try:
        return [each for each in wiring.get_app(alias).check() if not _is_about_to_be_made(each)]
    except ConfigurationError:  # the checks of settings report it, and a database in memory has no store
        return ()
    except HoldfastError as error:
        return (Check("error", "store", str(error)),)


def _warning(alias: str, problem: Check) -> Any:
    elsewhere = f'"OPTIONS": {ELSEWHERE}' if wiring.is_of_tasks() else f"HOLDFAST = {ELSEWHERE}"
    hint = OF_OLD_SQLITE.format(elsewhere) if problem.name == "sqlite" else problem.remedy or None
    return checks.Warning(f"{alias}: {problem.name}: {problem.message}", hint=hint, id="holdfast.W001")
