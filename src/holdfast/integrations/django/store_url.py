"""What a store finds in one of Django's databases: its URL, and when its transactions take their lock."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from holdfast.errors import ConfigurationError

NAMED: Final = 'name another store: "URL": "postgresql://…" in HOLDFAST, or in OPTIONS of TASKS'
NO_APSW: Final = (
    "HOLDFAST_SQLITE=apsw would damage it, because Django has the file open by sqlite3: unset HOLDFAST_SQLITE, or keep the jobs in "
    'another file: "URL": "sqlite:///jobs.db" in HOLDFAST, or in OPTIONS of TASKS'
)
LOCKS_AT_ITS_START: Final = ("IMMEDIATE", "EXCLUSIVE")
PASSED_ON: Final = ("sslmode", "sslrootcert", "sslcert", "sslkey", "passfile", "target_session_attrs", "connect_timeout")
"""Options of libpq that the store has, too. All others are about Django's connections."""


def url_of(alias: str, vendor: str, database: Mapping[str, Any]) -> str:
    """Return the URL of a database as ``settings.DATABASES`` describes it; ``ConfigurationError`` if no store can be in it.

    >>> url_of("default", "postgresql", {"NAME": "shop", "USER": "ada", "PASSWORD": "p@ss", "HOST": "db", "PORT": 5432})
    'postgresql://ada:p%40ss@db:5432/shop'
    >>> url_of("default", "sqlite", {"NAME": "/srv/shop.db"})
    'sqlite:////srv/shop.db'
    """
    match vendor:
        case "postgresql":
            return _postgres(alias, database)
        case "sqlite":
            return _sqlite(alias, str(database.get("NAME") or ""))
        case _:
            raise ConfigurationError([f"DATABASES[{alias!r}]: jobs cannot be kept in {vendor}: {NAMED}"])


def _postgres(alias: str, database: Mapping[str, Any]) -> str:
    options: Mapping[str, Any] = database.get("OPTIONS") or {}
    if not database.get("NAME") or "service" in options:
        raise ConfigurationError([f"DATABASES[{alias!r}] has no NAME, only the name of a service: {NAMED}"])
    user, host = (str(database.get(name) or "") for name in ("USER", "HOST"))
    who = ":".join(quote(str(each), safe="") for each in (user, database.get("PASSWORD")) if each) if user else ""
    asked = {name: str(options[name]) for name in PASSED_ON if options.get(name)}
    if host.startswith("/"):  # the folder of a socket
        asked["host"], host = host, ""
        if database.get("PORT"):
            asked["port"] = str(database["PORT"])
    where = f"{host}:{database['PORT']}" if host and database.get("PORT") else host
    query = f"?{urlencode(asked, quote_via=quote)}" if asked else ""
    return f"postgresql://{who}{'@' if who else ''}{where}/{quote(str(database['NAME']), safe='')}{query}"


def is_in_memory(name: str) -> bool:
    """Return whether ``NAME`` is a database of SQLite that only one process sees."""
    return not name or ":memory:" in name or name.startswith("file:")


def locks_too_late(vendor: str, database: Mapping[str, Any]) -> bool:
    """Return whether a database is a file of SQLite, and its transactions take the lock at their first write.

    >>> locks_too_late("sqlite", {"NAME": "shop.db"}), locks_too_late("postgresql", {"NAME": "shop"})
    (True, False)
    >>> locks_too_late("sqlite", {"NAME": "shop.db", "OPTIONS": {"transaction_mode": "immediate"}})
    False
    """
    if vendor != "sqlite" or is_in_memory(str(database.get("NAME") or "")):
        return False
    mode = (database.get("OPTIONS") or {}).get("transaction_mode")
    return str(mode).upper() not in LOCKS_AT_ITS_START


def _sqlite(alias: str, name: str) -> str:
    if is_in_memory(name):
        remedy = f'give tests a file, DATABASES[{alias!r}]["TEST"] = {{"NAME": BASE_DIR / "test.db"}}, or {NAMED}'
        raise ConfigurationError(
            [f"DATABASES[{alias!r}] is in the memory of one process, where no worker can see its jobs: {remedy}"]
        )
    if os.environ.get("HOLDFAST_SQLITE") == "apsw":
        raise ConfigurationError([f"DATABASES[{alias!r}]: {NO_APSW}"])
    return f"sqlite:///{Path(name).absolute()}"
