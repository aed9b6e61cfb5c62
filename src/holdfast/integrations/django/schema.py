"""The schema of the store as an operation of Django's migrations."""

from typing import Any

from django.db.migrations.operations.base import Operation

from holdfast.app import App
from holdfast.integrations.django import wiring


class StoreSchema(Operation):  # type: ignore[misc]
    """Bring the schema of the stores that are in a database of the project up to date.

    The numbers are the versions that the release of this migration needs. A newer release brings it to its own: then the migration of
    that one has nothing left to do. Backwards nothing is done, because jobs are not thrown away.
    """

    reversible = True
    reduces_to_sql = False

    def __init__(self, *, sqlite: int, postgresql: int) -> None:
        self.sqlite, self.postgresql = sqlite, postgresql

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Change nothing: Django has no models of these tables."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Migrate each store in this database, and close it: Django copies test databases that have no other connections."""
        if schema_editor.collect_sql:  # sqlmigrate
            schema_editor.collected_sql.append("-- the store's own migrations: holdfast migrate")
            return
        for app in apps_in(schema_editor.connection):
            app.migrate()
            app.close()

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Keep the tables, which may hold jobs."""

    def describe(self) -> str:
        """Return what ``migrate --plan`` shows."""
        return f"Holdfast's schema, version {self.sqlite} on SQLite and {self.postgresql} on PostgreSQL"


def apps_in(connection: Any) -> list[App]:
    """Return the App of each backend whose jobs are in the database of this connection; none if that is in memory."""
    if connection.vendor == "sqlite" and connection.is_in_memory_db():
        return []
    return [
        wiring.app_of(alias, options)
        for alias, options in wiring.backends().items()
        if options.url is None and options.database == connection.alias
    ]


def close_before_drop(connection: Any) -> None:
    """Have the connections to a test database closed before Django drops it: PostgreSQL refuses to while there are any."""
    drop = connection.creation.destroy_test_db

    def close_and_drop(*args: Any, **kwargs: Any) -> Any:
        wiring.close_all(connection.alias)
        return drop(*args, **kwargs)

    connection.creation.destroy_test_db = close_and_drop
