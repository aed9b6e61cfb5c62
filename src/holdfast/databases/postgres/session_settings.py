"""The settings of each session, and the check that the server can be used."""

from collections.abc import Mapping

from holdfast.databases.postgres.pool import Connection
from holdfast.errors import ConfigurationError

OLDEST = 14
"""The first release that can detach a partition without blocking other sessions."""

_LOCAL = {
    "statement_timeout": "20s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "30s",
    # One plan for any number of jobs: the hot tables are often empty when a plan is made, and full a second later.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "jit": "off",
    "timezone": "UTC",
}
_SESSION = {
    **_LOCAL,
    "default_transaction_isolation": "read committed",
    # The server ends the session of a client that vanished silently, and so releases its locks.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "3",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
KEPT_ALIVE = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "3",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "15s",
}
"""Settings of sessions that run a user's own code: only those by which the server detects that the client is gone."""

SEARCHING = """
SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_seqscan = on; SET LOCAL statement_timeout = '60s'
"""
"""Settings of a transaction that reads whole tables: plans for its values, sequential scans, 60 s."""

_RAISE = (
    "SELECT set_config('synchronous_commit', 'on', {is_local}) "
    "WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')"
)


def settings(name: str, users: Mapping[str, str], ours: Mapping[str, str], *, is_pooled: bool) -> dict[str, str]:
    """Return the settings of a new connection. Behind a pooler, which shares sessions, only the name and the user's settings."""
    named = {"application_name": name[:63]}
    return {**named, **users} if is_pooled else {**named, **_SESSION, **users, **ours}


def begin(*, is_pooled: bool) -> str:
    """Return the SQL that begins a transaction; behind a pooler it also sets what a direct session has from its start."""
    if not is_pooled:
        return "BEGIN ISOLATION LEVEL READ COMMITTED"
    local = "".join(f"SET LOCAL {name} = '{value}'; " for name, value in _LOCAL.items())
    return f"BEGIN ISOLATION LEVEL READ COMMITTED; {local}{_RAISE.format(is_local='true')}"


async def prepare(link: Connection, public: str, *, is_pooled: bool) -> None:
    """Make the session's commits durable. ``ConfigurationError`` for a server that is too old."""
    require_version(link, public)
    if not is_pooled:
        await link.execute(_RAISE.format(is_local="false"))


def require_version(link: Connection, public: str) -> None:
    """Raise ``ConfigurationError`` for a server too old for the queries."""
    major = link.get_server_version().major
    if major < OLDEST:
        raise ConfigurationError([f"{public} is PostgreSQL {major}, {OLDEST} or newer is needed: upgrade it, or name another"])
