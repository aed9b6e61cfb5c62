"""The databases and networks between workers and their jobs, and their faults: locked files, servers, and the ways to them."""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Literal
from uuid import UUID

from holdfast import App
from proof.checker import history_sqlite
from tests.e2e.fleet import Crew
from tests.e2e.machines import HERE, Machine
from tests.e2e.server_site import PARTITIONS, Site, site
from tests.e2e.torture import foreign_sessions
from tests.e2e.torture.brokers import BrokerGrounds, FailoverGrounds
from tests.e2e.torture.buckets import BucketGrounds, signed
from tests.e2e.torture.grounds import LOCKED, OUTAGE, RUBBISH, Grounds, outage_length, run_in_file
from tests.e2e.torture.kept import DATA
from tests.e2e.torture.mongo_grounds import MongoGrounds
from tests.e2e.torture.runner import AMNESTY, RECOVERY, Harm, Torturer

Store = Literal["sqlite", "postgres", "postgres+nats", "mongo", "objects", "objects+broker", "objects+failover"]
BUCKETS = {"objects": BucketGrounds, "objects+broker": BrokerGrounds, "objects+failover": FailoverGrounds}
NATS_ALIVE, NATS_DEAD = 6.0, 2.0


class FileGrounds(Grounds):
    """A SQLite file, and machines that share a kernel."""

    bound = Grounds.bound + LOCKED

    def __init__(self, folder: Path) -> None:
        self._database = folder / "jobs.db"

    def machine(self, name: str) -> Machine:
        """Return a machine; the first two share this kernel, where deaths of processes are provable."""
        return HERE if name in ("web-1", "web-2") else Machine(name)

    def hurt(self, torturer: Torturer, chance: random.Random) -> float:
        """Let another process write for long, or copy the file."""
        torturer.choose(
            Harm("locks", 2, partial(self._lock, torturer)),
            Harm("copies", 1, partial(self._copy, torturer, "copies", foreign_sessions.copy_in_this_process)),
            Harm("backups", 1, partial(self._copy, torturer, "backups", foreign_sessions.back_up)),
        ).do()
        return AMNESTY + RECOVERY + chance.uniform(1.0, 4.0)

    def say(self, *statements: str) -> list[str]:
        return run_in_file(self._database, *statements)

    def _lock(self, torturer: Torturer) -> None:
        with torturer.calm, history_sqlite.opened(self._database) as blocker:
            blocker.execute("BEGIN IMMEDIATE")
            torturer.pause(LOCKED)
            blocker.execute("ROLLBACK")
        torturer.counts["locks"] += 1

    def _copy(self, torturer: Torturer, name: str, copy: Callable[[Path], None]) -> None:
        copy(self._database)
        torturer.counts[name] += 1

    def spoil(self, jobs: Sequence[UUID]) -> None:
        with history_sqlite.opened(self._database) as connection:
            for number, job in enumerate(jobs):
                rubbish = RUBBISH[number % len(RUBBISH)]
                connection.execute("UPDATE holdfast_jobs SET payload = ? WHERE id = ?", (rubbish, job.bytes))


class ServedGrounds(Grounds):
    """A PostgreSQL server and optionally a NATS server, with separate ways for each machine."""

    bound, stamp = Grounds.bound + OUTAGE, "timestamptz"

    def __init__(self, served: Site) -> None:
        self._site, self.url, self.transport = served, served.url, served.transport
        self._peaceful_until = 0.0

    def machine(self, name: str) -> Machine:
        return self._site.machine(name)

    def hurt(self, torturer: Torturer, chance: random.Random) -> float:
        """Break a machine's way to the server or, if the server had no fault for a while, the server itself."""
        partition = Harm("cuts", 12, partial(self._cut_off, torturer, chance, torturer.victim()))
        if time.monotonic() < self._peaceful_until:
            partition.do()
            return chance.uniform(0.0, 0.5)
        harm = torturer.choose(
            partition,
            Harm("restarts", 8, partial(self._restart, torturer, chance)),
            Harm("backends killed", 1, partial(self._kill_a_backend, torturer, chance)),
            Harm("backends stopped", 1, partial(self._stop_a_backend, torturer, chance)),
            Harm("connections ended", 2, partial(self._end_connections, torturer, chance)),
            Harm("read only", 1, partial(self._refuse_writes, torturer, chance)),
            Harm("rows locked", 4, partial(self._lock_rows, torturer, chance)),
            Harm("statements cancelled", 2, partial(self._cancel_statements, torturer)),
        )
        harm.do()
        return chance.uniform(0.0, 0.5)

    @contextmanager
    def _away(self, torturer: Torturer, name: str) -> Iterator[None]:
        """Take the server away from all. A bound holds only if the processes that keep it meet no fault afterwards."""
        with torturer.calm:
            yield
            torturer.app.jobs.counts()
        torturer.counts[name] += 1
        self._peaceful_until = time.monotonic() + AMNESTY + RECOVERY + 2.0

    def lanes(self, torturer: Torturer, chance: random.Random) -> list[Callable[[], float]]:
        server = self._site.nats
        if server is None:
            return super().lanes(torturer, chance)

        def hurt_nats() -> float:
            torturer.pause(NATS_ALIVE)
            if chance.random() < 0.3:
                server.stop()
                server.forget()
            else:
                server.kill()
            try:
                torturer.pause(NATS_DEAD)
            finally:
                server.start()
            torturer.counts["NATS killed"] += 1
            return 0.0

        return [*super().lanes(torturer, chance), hurt_nats]

    @contextmanager
    def watched(self, app: App) -> Iterator[None]:
        app.create_roles()
        self.say(
            f"CREATE USER {foreign_sessions.WORKER}",
            f"GRANT holdfast_work, holdfast_enqueue, holdfast_read TO {foreign_sessions.WORKER}",
            f"ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO {foreign_sessions.WORKER}",
        )
        self._site.user = foreign_sessions.WORKER
        with foreign_sessions.subscribed(self._site.postgres, self.url):
            yield

    def say(self, *statements: str) -> list[str]:
        return self._site.postgres.sql(*statements, dsn=self.url).splitlines()

    def spoil(self, jobs: Sequence[UUID]) -> None:
        made = [
            f"UPDATE holdfast.pending SET payload = '\\x{RUBBISH[number % len(RUBBISH)].hex()}' WHERE id = '{job}'"
            for number, job in enumerate(jobs)
        ]
        self.say(*made)

    def keep(self, folder: Path) -> None:
        server = self._site.postgres
        if server.is_running:
            server.stop()
        shutil.copytree(server.data, folder / DATA)

    def _cut_off(self, torturer: Torturer, chance: random.Random, crew: Crew) -> None:
        """Cut off the crew's machine, for longer or shorter than its leases last."""
        with crew.lock:
            if crew not in torturer.crews:
                return
            self._site.cut_off(crew.machine, PARTITIONS[torturer.counts["cuts"] % len(PARTITIONS)])
            try:
                torturer.pause(outage_length(chance))
            finally:
                self._site.reconnect(crew.machine)
        torturer.counts["cuts"] += 1

    def _restart(self, torturer: Torturer, chance: random.Random) -> None:
        """Restart the server cleanly or by a crash, for longer or shorter than a lease; requests wait in that time."""
        server = self._site.postgres
        ways: list[Callable[[], None]] = [server.kill, partial(server.stop, "fast"), partial(server.stop, "immediate")]
        stop = chance.choice(ways)
        with self._away(torturer, "restarts"):
            stop()
            try:
                torturer.pause(outage_length(chance))
            finally:
                server.start()

    def _kill_a_backend(self, torturer: Torturer, chance: random.Random) -> None:
        """Kill one backend; the server ends all others with it."""
        with self._away(torturer, "backends killed"):
            self._site.postgres.kill_backend(chance.choice(self._backends()))

    def _stop_a_backend(self, torturer: Torturer, chance: random.Random) -> None:
        """Freeze a backend with all of its locks."""
        with self._away(torturer, "backends stopped"), suppress(ProcessLookupError):
            os.kill(backend := chance.choice(self._backends()), signal.SIGSTOP)
            try:
                torturer.pause(LOCKED)
            finally:
                os.kill(backend, signal.SIGCONT)

    def _end_connections(self, torturer: Torturer, chance: random.Random) -> None:
        """End some backends in the middle of their work."""
        with self._away(torturer, "connections ended"):
            some = self._backends()
            for backend in chance.sample(some, chance.randint(1, len(some))):
                self._site.postgres.sql(f"SELECT pg_terminate_backend({backend})")

    def _refuse_writes(self, torturer: Torturer, chance: random.Random) -> None:
        """Make the server read-only, as after a fail-over to the wrong side."""
        with self._away(torturer, "read only"):
            self._site.postgres.configure(default_transaction_read_only="on")
            try:
                torturer.pause(outage_length(chance))
            finally:
                self._site.postgres.configure(default_transaction_read_only="off")

    def _lock_rows(self, torturer: Torturer, chance: random.Random) -> None:
        """Lock some jobs and a lease in a session that does not end its transaction."""
        with self._away(torturer, "rows locked"), foreign_sessions.locked_rows(self.url, chance):
            torturer.pause(outage_length(chance))

    def _cancel_statements(self, torturer: Torturer) -> None:
        """Cancel everything that runs, as an administrator may."""
        with self._away(torturer, "statements cancelled"):
            foreign_sessions.cancel_statements(self.url, torturer)

    def _backends(self) -> list[int]:
        """List the backends of workers, supervisors and this process."""
        name = self.url.rpartition("/")[2]
        asked = f"SELECT pid FROM pg_stat_activity WHERE datname = '{name}' AND backend_type = 'client backend'"
        return [int(line) for line in self._site.postgres.sql(asked).splitlines()]


@contextmanager
def grounds(store: Store, folder: Path) -> Iterator[Grounds]:
    """Make new grounds for a round."""
    with ExitStack() as stack:
        if store == "sqlite":
            yield FileGrounds(folder)
        elif store == "mongo":
            yield MongoGrounds(folder, stack)
        elif store in BUCKETS:
            stack.enter_context(signed())
            yield BUCKETS[store](folder, stack)
        else:
            yield ServedGrounds(stack.enter_context(site("nats" if store == "postgres+nats" else "", {"wal_level": "logical"})))
