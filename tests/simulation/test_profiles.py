"""Stores that are more than memory: each behaves as its kind of store does, and worlds on it show that."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.answers import Capabilities
from holdfast._core.book.book import Book
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import NewJob, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.policy import Policy
from holdfast._core.requests import JobFilter, NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._ports.host import Exit
from holdfast._ports.store import Store
from holdfast.errors import StoreUnavailable
from proof.checker.history import Event, History, Phase
from proof.search.decisions import Birth, Strike
from proof.simulator.loop import Process
from proof.simulator.plans import Mode, draw
from proof.simulator.profiles import Entrance, LeaseClock, Profile
from proof.simulator.programs import NEW
from proof.simulator.simulation import Outcome, perform
from proof.stores.gateways import VERBS, Gateway
from proof.stores.recording_store import witnessed
from tests.simulation.support import Stage, on_stage

TTL, BEAT = 30.0, 6.0
JOB, OTHER, CALL = UUID(int=1), UUID(int=2), UUID(int=3)
LEASE = NewLease(UUID(int=9), "worker", ProcessIdentity("m", 1), LeaseTiming(TTL, BEAT, 5.0))
CRASH = LeaseEnd(RescueReason.EXPIRED)


def new(job: UUID = JOB) -> NewJob:
    return NewJob(id=job, task="task", payload=b"{}", policy=Policy())


class ProfiledStore:
    """A store of one kind, and processes that use it."""

    def __init__(self, stage: Stage, profile: Profile, clock: LeaseClock = "kernel") -> None:
        self.stage, self.history = stage, History()
        profiled = Capabilities("simulated", clock)
        self.store = witnessed(Book, stage.clock, history=self.history, now=stage.loop.time, profile=profiled)
        self.store.clock_of = lambda process: stage.clock
        self.entrance = Entrance(profile, stage.loop, self.store, stage.clock, timeout=2.0, longest=1.0)

    def introduce(self, name: str) -> None:
        self.store.caller = name

    def gateway(self, process: Process) -> Store:
        """The store as this process reaches it."""

        def carry(call: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
            return self.stage.loop.create_task(call, context=self.stage.loop.context_of(process.thread))

        return self.entrance.gateway(process, lambda: self.introduce("m"), carry)

    def come(self, name: str, act: Callable[[Store], Awaitable[object]]) -> tuple[Process, "asyncio.Future[object]"]:
        """A process that makes one call, and the answer to it."""
        process, answer = self.stage.machine.process(name), self.stage.loop.create_future()

        async def live() -> None:
            try:
                answer.set_result(await act(self.gateway(process)))
            except StoreUnavailable as error:
                answer.set_exception(error)

        self.stage.loop.start(process, live())
        return process, answer


def at(profile: Profile, play: Callable[[ProfiledStore], Awaitable[None]], clock: LeaseClock = "kernel") -> None:
    async def run(stage: Stage) -> None:
        await play(ProfiledStore(stage, profile, clock))

    on_stage(run)


def test_every_verb_goes_through_the_gateway() -> None:
    assert all(name in vars(Gateway) for name in VERBS)


# one writer at a time


def test_writers_wait_for_each_other_and_readers_do_not_wait() -> None:
    async def play(profiled: ProfiledStore) -> None:
        write_lock = profiled.entrance.write_lock
        assert write_lock is not None
        first, one = profiled.come("first", lambda store: store.enqueue(CALL, [new()]))
        while write_lock.holder is not first:
            await profiled.stage.clock.sleep(0.001)
        first.freeze()
        _, two = profiled.come("second", lambda store: store.enqueue(UUID(int=4), [new(OTHER)]))
        _, three = profiled.come("third", lambda store: store.get(JOB))
        assert await three is None
        with pytest.raises(StoreUnavailable, match="enqueue: the database is locked"):
            await two
        assert write_lock.holder is first
        first.thaw()
        await one
        assert write_lock.holder is None
        _, four = profiled.come("second", lambda store: store.enqueue(UUID(int=4), [new(OTHER)]))
        await four
        assert [row.id for row in await profiled.store.list(JobFilter())] == [OTHER, JOB]

    at(Profile.SQLITE, play)


def test_a_busy_event_loop_does_not_delay_writes() -> None:
    async def play(profiled: ProfiledStore) -> None:
        write_lock = profiled.entrance.write_lock
        assert write_lock is not None
        first, one = profiled.come("first", lambda store: store.enqueue(CALL, [new()]))
        while write_lock.holder is not first:
            await profiled.stage.clock.sleep(0.001)
        first.freeze("busy")
        _, two = profiled.come("second", lambda store: store.enqueue(UUID(int=4), [new(OTHER)]))
        await two
        assert not one.done()
        first.thaw("busy")
        await one

    at(Profile.SQLITE, play)


def test_a_death_during_a_write_releases_the_lock_and_undoes_the_write() -> None:
    async def play(profiled: ProfiledStore) -> None:
        write_lock = profiled.entrance.write_lock
        assert write_lock is not None
        first, _ = profiled.come("first", lambda store: store.enqueue(CALL, [new()]))
        while write_lock.holder is not first:
            await profiled.stage.clock.sleep(0.001)
        _, two = profiled.come("second", lambda store: store.enqueue(UUID(int=4), [new(OTHER)]))
        first.end(Exit(signal="SIGKILL"))
        await two
        await profiled.stage.clock.sleep(10)
        assert await profiled.store.get(JOB) is None

    at(Profile.SQLITE, play)


# a majority


@pytest.mark.parametrize("is_rolled_back", [True, False])
def test_no_write_is_confirmed_without_a_majority_and_unconfirmed_writes_may_be_undone(is_rolled_back: bool) -> None:
    async def play(profiled: ProfiledStore) -> None:
        quorum = profiled.entrance.quorum
        assert quorum is not None
        _, before = profiled.come("client", lambda store: store.enqueue(CALL, [new()]))
        await before
        quorum.lose()
        waiting = [profiled.come("client", lambda store: store.request_cancel([JOB]))[1] for _ in range(20)]
        await profiled.stage.clock.sleep(0.01)
        _, read = profiled.come("reader", lambda store: store.get(JOB))
        row = await read
        assert getattr(row, "state", None) is State.AVAILABLE, "reads do not wait, and see what a majority had"
        assert not any(each.done() and each.exception() is None for each in waiting)
        quorum.find(is_rolled_back=is_rolled_back)
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert any(isinstance(each, dict) for each in answers) is not is_rolled_back
        found = await profiled.store.get(JOB)
        assert found is not None
        assert found.state is (State.AVAILABLE if is_rolled_back else State.CANCELLED)
        recorded = [event.by.verb for event in profiled.history if event.phase is Phase.TRUTH and event.by is not None]
        assert recorded == (["enqueue"] if is_rolled_back else ["enqueue", "request_cancel"])

    at(Profile.MONGODB, play, "server")


# worlds


def play(strikes: list[Strike], tasks: tuple[str, ...] = ("long",), **changes: object) -> Outcome:
    """Two supervisors, some jobs, and these faults only."""
    plan = next(plan for plan in map(draw, map(random.Random, range(1000))) if plan.mode is Mode.SAFETY)
    script = (*(Birth(client, job, task) for client in range(2) for job, task in enumerate(tasks)), *strikes)
    calm: dict[str, object] = {
        "supervisors": 2, "processes": 1, "concurrency": 3, "jobs": 2 * len(tasks), "clients": 2, "tasks": tasks, "keys": 0,
        "expires": False, "has_strangers": False, "has_queue": False, "has_hooks": False, "has_releases": False,
        "longest_write": 0.05, "chaos": 60.0, "script": script,
    }  # fmt: skip
    return perform(structs.replace(plan, **{**calm, **changes}), 1)


def test_a_worker_stopped_during_a_write_is_killed_before_a_lease_runs_out() -> None:
    strike = Strike(5.3, "freeze_writer", slot=1, pick=1.0, seconds=1000.0)
    outcome = play([strike], ("steady",) * 4, profile=Profile.SQLITE, lease_clock="kernel")
    assert outcome.is_clean, outcome.explain()
    timing = outcome.plan.settings.timing
    (frozen,) = _named(outcome, "process.freeze")
    (killed,) = [event for event in _named(outcome, "process.end") if event.process == frozen.process]
    assert "SIGKILL" in killed.note
    assert killed.time - frozen.time < timing.ttl - timing.margin
    assert outcome.report.unknown.total() > 0, "it kept others from writing"


def test_old_workers_run_known_tasks_and_leave_new_ones() -> None:
    outcome = play([], ("quick", *NEW, "long"), has_releases=True)
    assert outcome.is_clean, outcome.explain()
    assert outcome.report.checked["S16"] > 0
    claims = [event for event in outcome.history if event.what == "claim" and event.phase is Phase.OK]
    tasks = {event.job: event.after.task for event in outcome.history if event.what == "job" and hasattr(event.after, "task")}
    old = {outcome.titles["worker 1.1"]}
    by_old = {tasks[event.job] for event in claims if event.process in old}
    assert by_old
    assert not by_old & set(NEW)


def test_every_profile_and_both_releases_are_drawn() -> None:
    plans = [draw(random.Random(seed)) for seed in range(300)]
    assert {plan.profile for plan in plans} == set(Profile)
    assert {plan.lease_clock for plan in plans} == {"kernel", "server", "none"}
    assert {plan.has_releases for plan in plans} == {True, False}
    strikes = {strike for plan in plans for strike in plan.strikes}
    assert strikes >= {"freeze_writer", "lose_quorum", "deploy"}


def _named(outcome: Outcome, what: str) -> list[Event]:
    return [event for event in outcome.history if event.what == what]
