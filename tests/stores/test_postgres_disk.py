"""The PostgreSQL store on a full disk: a verb that fails changes nothing, and the store works again once space is free."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from holdfast._core.answers import Answer, EnqueueAnswer
from holdfast._core.job import State
from holdfast.errors import StoreUnavailable
from holdfast.testing.contracts.scene import Scene, done, play
from holdfast.testing.servers import PostgresServer
from tests.e2e.disks import Disk, small_disk
from tests.stores.postgres_faulty_databases import Site, in_the_end, migrate

SIZE = 128 << 20
BIG = b"x" * 100_000
SMALL_FILES_OF_LOG = ("--locale=C.UTF-8", "--wal-segsize=1")


class Full:
    """A server whose database, or all of it, is on a disk that can be full."""

    def __init__(self, server: PostgresServer, disk: Disk, dsn: str) -> None:
        self.server, self.disk, self.dsn = server, disk, dsn

    def free(self) -> None:
        """Free space on the disk; start the server again if it has stopped, as its operators would."""
        self.disk.free()
        if not self.server.is_running:
            self.server.kill()
            self.server.start()


@pytest.fixture(params=["tables", "everything"])
def full(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Full]:
    with small_disk(tmp_path, lambda: users(server), size=SIZE) as disk:
        is_all = request.param == "everything"
        server = PostgresServer(data=disk.folder / "data" if is_all else None, initdb=SMALL_FILES_OF_LOG)
        with server:
            space = disk.folder / "tables"
            space.mkdir()
            server.sql(f"CREATE TABLESPACE small LOCATION '{space}'", "CREATE DATABASE test TABLESPACE small")
            migrate(server.dsn("test"))
            yield Full(server, disk, server.dsn("test"))


def users(server: PostgresServer) -> list[int]:
    """Return the ids of the server's processes."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    return [server.pid, *map(int, children)]


def test_a_verb_that_meets_a_full_disk_changes_nothing_and_succeeds_later(full: Full) -> None:
    async def act(at: Scene) -> None:
        known = list(await at.enqueue(*(at.new(payload=BIG) for _ in range(30))))
        active = await at.running()
        full.disk.fill()
        refused = list[tuple[UUID, UUID]]()
        for _ in range(100):
            call, job = at.chance.uuid4(), at.new(payload=BIG)
            try:
                assert await at.store.enqueue(call, [job]) == EnqueueAnswer()
                known.append(job.id)
            except StoreUnavailable:
                refused.append((call, job))
            if len(refused) == 3:
                break
        assert len(refused) == 3
        full.free()
        assert await in_the_end(lambda: at.settle(done(active))) == (Answer.APPLIED,)
        for call, job in refused:
            assert await in_the_end(lambda: at.store.enqueue(call, [job])) == EnqueueAnswer()  # noqa: B023
            known.append(job.id)
        assert await at.store.counts() == {("", State.AVAILABLE): len(known), ("", State.COMPLETED): 1}
        assert {row.id for row in await at.store.list(at.everything)} == {*known, active.id}

    play(Site(full.dsn), act)
