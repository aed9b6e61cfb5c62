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
    """What ``clock_timestamp()`` returns in one database, in every session that begins after ``install``.

    It stands still and follows a FakeClock. It does not follow steps of the FakeClock's wall clock, which is that of another machine.
    """

    def __init__(self, dsn: str) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._start = self._passed = 0.0

    def install(self) -> Self:
        """Install the clock once per database. A copy of a database has the function, but its sessions see it only after this."""
        if self._connection.execute("SELECT to_regnamespace('fake')").fetchone() == (None,):
            self._connection.execute(_FAKE)
        database = self._connection.info.dbname
        self._connection.execute(f'ALTER DATABASE "{database}" SET search_path = fake, pg_catalog')
        return self

    def follow(self, clock: FakeClock) -> None:
        """Take over the time of this clock, and move with it."""
        self._start, self._passed = clock.wall(), 0.0
        clock.lead(self.advance)
        self.advance(0.0)

    def advance(self, seconds: float) -> None:
        """Let time pass on the server only; a negative number moves it back."""
        self._passed += seconds
        self._connection.execute("UPDATE fake.clock SET now = to_timestamp(%s)", [self._start + self._passed])

    def close(self) -> None:
        """Close the connection to the database."""
        self._connection.close()
