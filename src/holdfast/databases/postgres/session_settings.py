"""How each session is set up, and whether the server behind it can be used."""

from collections.abc import Mapping

from holdfast.databases.postgres.pool import Connection
from holdfast.errors import ConfigurationError

OLDEST = 14
"""The first release that can detach a partition without blocking anybody."""

_LOCAL = {
    "statement_timeout": "20s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "30s",
    # Planned once for any number of jobs; the hot tables are often empty when they are looked at, and full a second later.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "jit": "off",
    "timezone": "UTC",
}
_SESSION = {
    **_LOCAL,
    "default_transaction_isolation": "read committed",
    # The server gives up a client that is gone without a word, and with it the locks of what it was doing.
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
"""For sessions in which a user's own code runs: nothing but what shows the server that the client is gone."""

SEARCHING = """
SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_seqscan = on; SET LOCAL statement_timeout = '60s'
"""
"""For one who wants to look at all there is."""

_RAISE = (
    "SELECT set_config('synchronous_commit', 'on', {is_local}) "
    "WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')"
)


def settings(name: str, users: Mapping[str, str], ours: Mapping[str, str], *, is_pooled: bool) -> dict[str, str]:
    """For a new connection. A pooler shares it with others, and lets nothing but a name pass."""
    named = {"application_name": name[:63]}
    return {**named, **users} if is_pooled else {**named, **_SESSION, **users, **ours}


def begin(*, is_pooled: bool) -> str:
    """What begins a transaction: behind a pooler, with everything that a session of our own has anyway."""
    if not is_pooled:
        return "BEGIN ISOLATION LEVEL READ COMMITTED"
    local = "".join(f"SET LOCAL {name} = '{value}'; " for name, value in _LOCAL.items())
    return f"BEGIN ISOLATION LEVEL READ COMMITTED; {local}{_RAISE.format(is_local='true')}"


async def prepare(link: Connection, public: str, *, is_pooled: bool) -> None:
    """Make commits durable. ``ConfigurationError`` for a server that is too old."""
    require_version(link, public)
    if not is_pooled:
        await link.execute(_RAISE.format(is_local="false"))


def require_version(link: Connection, public: str) -> None:
    """``ConfigurationError`` for a server that cannot do what the queries need."""
    major = link.get_server_version().major
    if major < OLDEST:
        raise ConfigurationError([f"{public} is PostgreSQL {major}, {OLDEST} or newer is needed: upgrade it, or name another"])
