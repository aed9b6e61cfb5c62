"""Open the table that a URL and a watch name."""

from holdfast._core.identity import ProcessIdentity
from holdfast._core.schemes import POSTGRES
from holdfast._core.table_spec import TableSpec
from holdfast._ports.clock import Clock, Randomness
from holdfast._ports.table import Table
from holdfast.errors import ConfigurationError, MissingExtra


def open_table(
    url: str, watch: TableSpec, *, clock: Clock, chance: Randomness, process: ProcessIdentity, pooler: str | None = None
) -> Table:
    """Make a table in PostgreSQL or SQLite; its first verb opens it. Drivers are loaded only now.

    Raises ``ConfigurationError`` for the URL of anything else, and where a driver is not installed.
    """
    scheme, _, place = url.partition("://")
    if scheme == "sqlite":
        from holdfast.rows.sqlite.table import SqliteTable  # noqa: PLC0415

        return SqliteTable(place.removeprefix("/"), watch, clock=clock, chance=chance, process=process)
    if scheme in POSTGRES:
        try:
            from holdfast.rows.postgres.table import PostgresTable  # noqa: PLC0415
        except ModuleNotFoundError as error:
            if error.name != "asyncpg":
                raise
            raise MissingExtra("asyncpg", "postgres") from error

        return PostgresTable(url, watch, clock=clock, chance=chance, process=process, pooler=pooler)
    raise ConfigurationError(
        [f"rows {watch.name}: {scheme}:// has no tables: name a database, as url='postgresql://…' or 'sqlite:///…'"]
    )
