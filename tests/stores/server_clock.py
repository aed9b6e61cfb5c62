"""The clock of a PostgreSQL server as far as a store on one of its databases can see: it moves when a FakeClock does."""

from typing import Self

import psycopg

from holdfast.testing.clock import FakeClock

_FAKE = """
CREATE SCHEMA fake;
CREATE TABLE fake.clock (now timestamptz NOT NULL);
INSERT INTO fake.clock VALUES (to_timestamp(0));
ALTER TABLE fake.clock REPLICA IDENTITY FULL;
CREATE FUNCTION fake.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE SECURITY DEFINER
    BEGIN ATOMIC SELECT now FROM fake.clock; END;
GRANT USAGE ON SCHEMA fake TO PUBLIC;
"""


class ServerClock:
    """What ``clock_timestamp()`` says in one database, to everybody whose session begins after ``install``.

    It stands still and follows a FakeClock; where that steps its wall clock, as of a machine that is not the server, it does not.
    """

    def __init__(self, dsn: str) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._start = self._passed = 0.0

    def install(self) -> Self:
        """Once for each database. A copy of a database has the function, and needs this for its sessions to see it."""
        if self._connection.execute("SELECT to_regnamespace('fake')").fetchone() == (None,):
            self._connection.execute(_FAKE)
        database = self._connection.info.dbname
        self._connection.execute(f'ALTER DATABASE "{database}" SET search_path = fake, pg_catalog')
        return self

    def follow(self, clock: FakeClock) -> None:
        """Say what it says now, and move as it moves."""
        self._start, self._passed = clock.wall(), 0.0
        clock.lead(self.advance)
        self.advance(0.0)

    def advance(self, seconds: float) -> None:
        """Let time pass for the server alone; back, if negative."""
        self._passed += seconds
        self._connection.execute("UPDATE fake.clock SET now = to_timestamp(%s)", [self._start + self._passed])

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()
