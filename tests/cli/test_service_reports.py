"""What systemd receives from a worker: that it has started, that it lives, that it drains; and nothing where no manager asks."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from holdfast._engine.events import EventName, Events
from holdfast._system.service_manager import ServiceManager, pause_of
from holdfast.cli.service_reports import ServiceReports
from tests.e2e.fleet import START, fleet
from tests.e2e.waiting import until


class Manager:
    """A manager's end of its socket."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.address)
        self._socket.setblocking(False)

    def received(self) -> list[str]:
        """Return the messages since the last call."""
        found = []
        while True:
            try:
                found.append(self._socket.recv(4096).decode().partition("\n")[0])
            except BlockingIOError:
                return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    made = Manager(tmp_path)
    yield made
    made.close()


def test_a_worker_of_a_unit_is_ready_lives_and_stops(tmp_path: Path, manager: Manager) -> None:
    with fleet(tmp_path, grace="20s") as ships:
        ships.environment |= {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "150000"}
        crew = ships.crew("--processes", "2")
        got: list[str] = []

        def receives(*words: str) -> bool:
            got.extend(manager.received())
            return {*words} <= {*got}

        until(partial(receives, "READY=1", "WATCHDOG=1"), within=START)
        assert got.count("READY=1") == 1
        assert len(crew.workers()) == 2
        got.clear()
        until(partial(receives, "WATCHDOG=1"), within=START)
        assert not any(b"NOTIFY_SOCKET" in Path(f"/proc/{pid}/environ").read_bytes() for pid in crew.workers())
        crew.send(signal.SIGTERM)
        assert crew.wait(START) == 0
        assert receives("STOPPING=1")


def test_ready_waits_for_the_lease_of_each_worker_and_a_drain_of_one_does_not_stop(manager: Manager) -> None:
    events = Events()
    ServiceReports(ServiceManager(manager.address), 2).listen(events)
    events.emit(EventName.LEASE_OPENED, lease=None, worker="a")
    assert manager.received() == []
    events.emit(EventName.LEASE_OPENED, lease=None, worker="b")
    events.emit(EventName.WORKER_DRAINING, worker="a", reason="an operator")
    events.emit(EventName.LEASE_OPENED, lease=None, worker="c")
    assert manager.received() == ["READY=1"]
    events.emit(EventName.WORKER_DRAINING, workers=2)
    assert manager.received() == ["STOPPING=1"]


def test_a_restart_after_a_change_of_code_does_not_stop(manager: Manager) -> None:
    events = Events()
    ServiceReports(ServiceManager(manager.address), 1, restarts=True).listen(events)
    events.emit(EventName.WORKER_DRAINING, workers=1)
    assert manager.received() == []


def test_the_words_of_the_manager_are_not_inherited(manager: Manager) -> None:
    environ = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "7", "HOME": "/"}
    assert ServiceManager.of(environ, 7) == ServiceManager(manager.address, 1.0)
    assert environ == {"HOME": "/"}
    assert ServiceManager.of({"WATCHDOG_USEC": "3000000"}, 7) == ServiceManager()


@pytest.mark.parametrize(
    ("words", "pause"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 20.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "7"}, 20.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_a_pause_is_a_third_of_what_the_manager_waits_for_this_process(words: dict[str, str], pause: float | None) -> None:
    assert pause_of(words, 7) == pause


def test_a_manager_that_is_gone_or_absent_changes_nothing(tmp_path: Path) -> None:
    assert not ServiceManager(str(tmp_path / "gone")).notify("READY=1")
    assert not ServiceManager().notify("READY=1")


def test_a_name_of_the_kernel_is_reached() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("")
        name = manager.getsockname()
        assert ServiceManager("@" + name[1:].decode()).notify("READY=1")
        assert manager.recv(64) == b"READY=1"


class Counting:
    """A clock of which the third pause never ends."""

    def __init__(self) -> None:
        self.paused: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.paused.append(seconds)
        if len(self.paused) == 3:
            await asyncio.Event().wait()


def test_signs_of_life_come_in_time_and_only_if_they_are_expected(manager: Manager) -> None:
    async def live() -> list[float]:
        clock = Counting()
        await ServiceReports(ServiceManager(manager.address), 1).keep_alive(clock)  # type: ignore[arg-type]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await ServiceReports(ServiceManager(manager.address, 20.0), 1).keep_alive(clock)  # type: ignore[arg-type]
        return clock.paused

    assert asyncio.run(live()) == [20.0] * 3
    assert manager.received() == ["WATCHDOG=1"] * 3
