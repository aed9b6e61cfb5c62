"""Hints between the processes of one machine."""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast._core.identity import ProcessIdentity
from holdfast._ports.transport import Hint
from holdfast.transports import local
from holdfast.transports.local import LocalTransport
from holdfast.transports.polling import PollingTransport

OURS = ProcessIdentity("host", os.getpid(), 1)
HINT = Hint("default", (UUID(int=1),))


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 20))


class Listener:
    """Collects what arrives."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[Hint] = asyncio.Queue()

    async def next(self) -> Hint:
        return await asyncio.wait_for(self.received.get(), 5)


async def listening(transport: LocalTransport) -> Listener:
    listener = Listener()
    await transport.subscribe(listener.received.put_nowait)
    return listener


def test_every_listener_receives_a_hint(tmp_path: Path) -> None:
    async def scenario() -> None:
        transports = [LocalTransport(tmp_path / "jobs.db", OURS) for _ in range(3)]
        listeners = [await listening(transport) for transport in transports]
        await LocalTransport(tmp_path / "jobs.db", OURS).publish([HINT])
        for listener in listeners:
            assert await listener.next() == HINT
        for transport in transports:
            await transport.close()

    run(scenario)


def test_a_database_is_the_same_by_every_path(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").symlink_to(tmp_path / "there")

    async def scenario() -> None:
        listener = LocalTransport(tmp_path / "there" / "jobs.db", OURS)
        received = await listening(listener)
        await LocalTransport(tmp_path / "here" / "jobs.db", OURS).publish([HINT])
        assert await received.next() == HINT
        await listener.close()

    run(scenario)


def test_closing_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scenario() -> None:
        before = len(os.listdir("/proc/self/fd"))
        first, second = (LocalTransport(tmp_path / "jobs.db", OURS) for _ in range(2))
        await listening(first)
        received = await listening(second)
        assert (tmp_path / "jobs.db-wake").stat().st_mode & 0o777 == 0o700
        await first.publish([HINT])
        await first.close()
        await second.publish([HINT])
        assert [await received.next(), await received.next()] == [HINT, HINT]
        await second.close()
        await second.close()
        assert os.listdir(tmp_path) == []
        assert len(os.listdir("/proc/self/fd")) == before

    run(scenario)


def test_what_a_killed_listener_left_is_removed(tmp_path: Path) -> None:
    async def scenario() -> None:
        transport = LocalTransport(tmp_path / "jobs.db", OURS)
        received = await listening(transport)
        stale = tmp_path / "jobs.db-wake" / "1-1-0"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
            dead.bind(str(stale))
        await transport.publish([HINT])
        assert not stale.exists()
        assert await received.next() == HINT
        await transport.close()

    run(scenario)


def test_rubbish_is_ignored(tmp_path: Path) -> None:
    async def scenario() -> None:
        transport = LocalTransport(tmp_path / "jobs.db", OURS)
        received = await listening(transport)
        (name,) = (tmp_path / "jobs.db-wake").iterdir()
        (tmp_path / "jobs.db-wake" / "notes.txt").write_text("no socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            for data in (b"", b"\xff", b"[]", b'{"queue": 1}', b'{"queue": "q", "ids": ["x"]}', b"{" * 60_000):
                sender.sendto(data, str(name))
        await transport.publish([HINT])
        assert await received.next() == HINT
        assert received.received.empty()
        (tmp_path / "jobs.db-wake" / "notes.txt").unlink()
        await transport.close()

    run(scenario)


def test_many_ids_are_cut_to_fit(tmp_path: Path) -> None:
    async def scenario() -> None:
        transport = LocalTransport(tmp_path / "jobs.db", OURS)
        received = await listening(transport)
        await transport.publish([Hint("default", tuple(UUID(int=number) for number in range(5000))), Hint("mail")])
        first = await received.next()
        assert first.queue == "default"
        assert 0 < len(first.ids) < 5000
        assert await received.next() == Hint("mail")
        await transport.close()

    run(scenario)


def test_a_listener_that_does_not_read_delays_no_publisher(tmp_path: Path) -> None:
    async def scenario() -> None:
        frozen, awake = (LocalTransport(tmp_path / "jobs.db", OURS) for _ in range(2))
        await listening(frozen)
        assert frozen._listener is not None
        asyncio.get_running_loop().remove_reader(frozen._listener)
        received = await listening(awake)
        for _ in range(2000):
            await awake.publish([HINT])
            assert await received.next() == HINT
        await frozen.close()
        await awake.close()

    run(scenario)


def test_the_deepest_folder_will_do(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    assert_it_carries(deep / "jobs.db")


def test_without_proc_short_paths_are_used_as_they_are_and_long_ones_lead_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "OPEN_FILES", tmp_path / "missing")
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    with tempfile.TemporaryDirectory() as short:
        monkeypatch.setattr("tempfile.tempdir", short)
        assert_it_carries(deep / "jobs.db")
    assert list(deep.iterdir()) == []


def assert_it_carries(database: Path) -> None:
    async def scenario() -> None:
        transport = LocalTransport(database, OURS)
        received = await listening(transport)
        await LocalTransport(database, OURS).publish([HINT])
        assert await received.next() == HINT
        await transport.close()

    run(scenario)


def test_where_no_folder_can_be_made_nothing_is_raised(tmp_path: Path) -> None:
    (tmp_path / "jobs.db-wake").write_text("in the way")

    async def scenario() -> None:
        for database in (tmp_path / "jobs.db", tmp_path / "missing" / "jobs.db"):
            transport = LocalTransport(database, OURS)
            await listening(transport)
            await transport.publish([HINT])
            await transport.close()

    run(scenario)
    assert [path.name for path in tmp_path.iterdir()] == ["jobs.db-wake"]
    assert (tmp_path / "jobs.db-wake").read_text() == "in the way"


def test_polling_carries_nothing() -> None:
    async def scenario() -> None:
        transport, listener = PollingTransport(), Listener()
        await transport.subscribe(listener.received.put_nowait)
        await transport.publish([HINT])
        await transport.close()
        assert listener.received.empty()

    run(scenario)


ECHO = """
import asyncio, os, sys
from holdfast._core.identity import ProcessIdentity
from holdfast.transports.local import LocalTransport

async def main():
    ours = LocalTransport(sys.argv[1], ProcessIdentity("host", os.getpid(), 1))
    heard = asyncio.Queue()
    await ours.subscribe(heard.put_nowait)
    print("ready", flush=True)
    while (hint := await heard.get()).queue != "end":
        if hint.queue == "ping":
            print(hint.queue, flush=True)
    await ours.close()

asyncio.run(main())
"""


def test_an_idle_process_wakes_within_50_ms(tmp_path: Path) -> None:
    async def scenario() -> None:
        transport = LocalTransport(tmp_path / "jobs.db", OURS)
        echo = await asyncio.create_subprocess_exec(sys.executable, "-c", ECHO, str(tmp_path / "jobs.db"), stdout=subprocess.PIPE)
        assert echo.stdout is not None
        assert await echo.stdout.readline() == b"ready\n"
        clock = asyncio.get_running_loop()
        delays = []
        for _ in range(200):
            sent = clock.time()
            await transport.publish([Hint("ping")])
            assert await echo.stdout.readline() == b"ping\n"
            delays.append(clock.time() - sent)
        await transport.publish([Hint("end")])
        assert await echo.wait() == 0
        assert sorted(delays)[197] < 0.05, sorted(delays)[-5:]
        await transport.close()

    run(scenario)
