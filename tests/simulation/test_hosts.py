"""Simulated machines keep the promises of the host port."""

import asyncio
from collections.abc import Sequence
from typing import Any

from holdfast._core.identity import is_provably_dead
from holdfast._ports.host import Exit, SupervisorLink
from proof.simulator.hosts import SimChannel, SimHost
from proof.simulator.loop import Process
from tests.simulation.support import Stage, on_stage


def _host(stage: Stage, cells: list[Any], *, lasts: float = 1000.0) -> SimHost:
    async def run(cell: SupervisorLink, process: Process, arguments: Sequence[str]) -> None:
        cells.append(cell)
        await stage.clock.sleep(lasts)

    return SimHost(stage.machine, stage.machine.process("supervisor"), run)


def test_messages_arrive_whole_and_in_order_then_the_end() -> None:
    async def play(stage: Stage) -> None:
        ours, theirs = SimChannel.pair(stage.loop)
        ours.send(b"1")
        ours.send(b"2")
        ours.close()
        assert [await theirs.receive() for _ in range(4)] == [b"1", b"2", None, None]
        assert await ours.receive() is None

    on_stage(play)


def test_a_killed_worker_is_reaped_and_its_pipe_ends() -> None:
    async def play(stage: Stage) -> None:
        child = await _host(stage, []).spawn(())
        await stage.clock.sleep(1)
        child.kill()
        assert await child.wait() == Exit(signal="SIGKILL")
        assert await child.channel.receive() is None

    on_stage(play)


def test_a_worker_that_returns_ends_with_code_0() -> None:
    async def play(stage: Stage) -> None:
        child = await _host(stage, [], lasts=1.0).spawn(())
        assert await child.wait() == Exit(code=0)

    on_stage(play)


def test_a_stopped_process_is_seen_as_stopped_a_busy_one_is_not() -> None:
    async def play(stage: Stage) -> None:
        host = _host(stage, [])
        child = await host.spawn(())
        worker = host.workers[0][0]
        worker.freeze("busy")
        assert not child.is_stopped()
        worker.freeze("stopped")
        assert child.is_stopped()

    on_stage(play)


def test_the_guard_kills_code_at_its_deadline() -> None:
    async def play(stage: Stage) -> None:
        cells: list[Any] = []
        host = _host(stage, cells)
        child = await host.spawn(())
        await stage.clock.sleep(1)
        child.set_deadline(stage.clock.monotonic() + 10)
        cells[0].set_code_running(True)
        await stage.clock.sleep(9)
        child.set_deadline(stage.clock.monotonic() + 10)
        await stage.clock.sleep(9.9)
        assert not host.workers[0][0].is_dead
        await stage.clock.sleep(0.2)
        assert host.workers[0][0].exit == Exit(signal="SIGKILL")

    on_stage(play)


def test_the_guard_spares_an_idle_worker_until_it_runs_code() -> None:
    async def play(stage: Stage) -> None:
        cells: list[Any] = []
        host = _host(stage, cells)
        child = await host.spawn(())
        await stage.clock.sleep(1)
        child.set_deadline(stage.clock.monotonic() + 1)
        await stage.clock.sleep(5)
        assert not host.workers[0][0].is_dead
        cells[0].set_code_running(True)
        await stage.clock.sleep(0.1)
        assert host.workers[0][0].is_dead

    on_stage(play)


def test_a_frozen_guard_checks_its_deadline_when_it_is_thawed() -> None:
    async def play(stage: Stage) -> None:
        cells: list[Any] = []
        host = _host(stage, cells)
        child = await host.spawn(())
        await stage.clock.sleep(1)
        cells[0].set_code_running(True)
        child.set_deadline(stage.clock.monotonic() + 1)
        worker, guard = host.workers[0]
        guard.process.freeze()
        await stage.clock.sleep(5)
        assert not worker.is_dead
        guard.process.thaw()
        await stage.clock.sleep(0.1)
        assert worker.is_dead

    on_stage(play)


def test_a_supervisors_death_ends_the_pipe_and_a_worker_without_a_lease() -> None:
    async def play(stage: Stage) -> None:
        cells: list[Any] = []
        host = _host(stage, cells)
        first, second = await asyncio.gather(host.spawn(()), host.spawn(()))
        await stage.clock.sleep(1)
        first.set_deadline(stage.clock.monotonic() + 10)
        stage.machine.processes[0].end(Exit(signal="SIGKILL"))
        assert await cells[0].channel.receive() is None
        assert [worker.is_dead for worker, _ in host.workers] == [False, True]
        assert second.process != first.process

    on_stage(play)


def test_a_reused_pid_has_another_start_time_and_proves_the_first_process_dead() -> None:
    async def play(stage: Stage) -> None:
        host = _host(stage, [])
        first = stage.machine.process("worker")
        assert not is_provably_dead(first.identity, host.process(), is_running=host.is_running(first.identity))
        first.end(Exit(code=0))
        await stage.clock.sleep(1)
        second = stage.machine.process("worker")
        assert second.identity.pid == first.identity.pid
        assert is_provably_dead(first.identity, host.process(), is_running=host.is_running(first.identity))

    on_stage(play)


def test_after_a_power_loss_the_machine_has_its_name_and_another_boot() -> None:
    async def play(stage: Stage) -> None:
        before = stage.machine.process("supervisor")
        stage.machine.lose_power()
        after = stage.machine.process("supervisor")
        assert before.is_dead
        assert after.identity.host == before.identity.host
        assert after.identity.boot != before.identity.boot

    on_stage(play)
