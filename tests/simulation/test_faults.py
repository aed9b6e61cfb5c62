"""Every verb is wrapped, and each fault has the effect that it names, around a simulated store and a real one."""

import asyncio
import inspect
import random
from pathlib import Path
from uuid import UUID

import pytest

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import NewJob, Token
from holdfast._core.policy import Policy
from holdfast._ports.host import Exit
from holdfast._ports.store import CallerTransactions, Store
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.errors import StoreUnavailable, Unsupported
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite.store import SqliteStore
from proof.checker.history import History, Phase
from proof.simulator.call_outcomes import Fault, Faults, Mix
from proof.simulator.faults import faulty
from proof.stores.gateways import PROTOCOLS, VERBS
from tests.simulation.support import Stage, on_stage

JOB, CALL = UUID(int=1), UUID(int=2)
NEW = NewJob(id=JOB, task="task", payload=b"{}", policy=Policy())


def _always(fault: Fault) -> Faults:
    return Faults(random.Random(1), Mix(rates={fault: 1.0}, latest=10.0))


def _wrapped(stage: Stage, fault: Fault, history: History | None = None) -> tuple[Store, Store]:
    store = MemoryStore(stage.clock)
    noted = History() if history is None else history
    return store, faulty(store, process="client", faults=_always(fault), clock=stage.clock, history=noted)


IN_CALLERS_TRANSACTION = {"enqueue_within", "transaction", "blocking_transaction"}


def test_every_verb_of_the_port_is_wrapped() -> None:
    protocols = (*PROTOCOLS, CallerTransactions)
    verbs = {name for each in protocols for name, member in vars(each).items() if name[0] != "_" and callable(member)}
    assert set(VERBS) == verbs - IN_CALLERS_TRANSACTION
    wrapper = type(faulty(None, process="", faults=_always(Fault.NONE), clock=SystemClock(), history=History()))  # type: ignore[arg-type]
    assert all(inspect.iscoroutinefunction(getattr(wrapper, verb)) for verb in VERBS)
    assert wrapper.capabilities is not None


def test_calls_in_the_callers_own_transaction_are_passed_on(tmp_path: Path) -> None:
    clock = SystemClock()
    store = SqliteStore(tmp_path / "jobs.db", clock=clock, chance=SystemRandomness(), process=ProcessIdentity("host", 1))
    wrapped = faulty(store, process="client", faults=_always(Fault.BEFORE), clock=clock, history=History())
    assert {
        name: type(getattr(wrapped, name)(JOB, Token(CALL, 1), idle=1.0)) for name in ("transaction", "blocking_transaction")
    } == {name: type(getattr(store, name)(JOB, Token(CALL, 1), idle=1.0)) for name in ("transaction", "blocking_transaction")}
    with pytest.raises(Unsupported):
        wrapped.enqueue_within(object(), CALL, [NEW])


def test_a_call_that_fails_before_the_store_applies_nothing() -> None:
    async def play(stage: Stage) -> None:
        store, wrapped = _wrapped(stage, Fault.BEFORE)
        with pytest.raises(StoreUnavailable):
            await wrapped.enqueue(CALL, [NEW])
        await stage.clock.sleep(100)
        assert await store.get(JOB) is None

    on_stage(play)


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.LATE])
def test_an_error_may_hide_a_write(fault: Fault) -> None:
    async def play(stage: Stage) -> None:
        store, wrapped = _wrapped(stage, fault)
        with pytest.raises(StoreUnavailable):
            await wrapped.enqueue(CALL, [NEW])
        assert (await store.get(JOB) is not None) is (fault is Fault.ANSWER_LOST)
        await stage.clock.sleep(100)
        assert await store.get(JOB) is not None

    on_stage(play)


def test_a_doubled_call_is_applied_again_later() -> None:
    async def play(stage: Stage) -> None:
        store, wrapped = _wrapped(stage, Fault.TWICE)
        await store.enqueue(CALL, [NEW])
        await store.request_cancel([JOB])
        await wrapped.reopen([JOB])
        await store.request_cancel([JOB])
        await stage.clock.sleep(100)
        found = await store.get(JOB)
        assert found is not None
        assert found.state == "available"

    on_stage(play)


@pytest.mark.parametrize("fault", [Fault.NONE, Fault.SLOW, Fault.IN_FLIGHT])
def test_other_faults_apply_the_call_and_answer(fault: Fault) -> None:
    async def play(stage: Stage) -> None:
        store, wrapped = _wrapped(stage, fault)
        await wrapped.enqueue(CALL, [NEW])
        assert await store.get(JOB) == await wrapped.get(JOB)

    on_stage(play)


@pytest.mark.parametrize(("fault", "is_applied"), [(Fault.CRASH_BEFORE, False), (Fault.CRASH_AFTER, True)])
def test_a_sender_may_die_on_either_side_of_the_write(fault: Fault, is_applied: bool) -> None:
    steps: list[str] = []

    async def play(stage: Stage) -> None:
        store, process = MemoryStore(stage.clock), stage.machine.process("client")

        async def live() -> None:
            wrapped = faulty(
                store,
                process="client",
                faults=_always(fault),
                clock=stage.clock,
                history=History(),
                crash=lambda: process.end(Exit(signal="SIGKILL")),
            )
            try:
                await wrapped.enqueue(CALL, [NEW])
            finally:
                steps.append("went on")

        stage.loop.start(process, live())
        await stage.clock.sleep(10)
        assert process.is_dead
        assert (await store.get(JOB) is not None) is is_applied
        assert steps == []

    on_stage(play)


def test_no_call_arrives_during_an_outage_and_every_call_does_afterwards() -> None:
    async def play(stage: Stage) -> None:
        faults = Faults(random.Random(1), Mix(rates={Fault.LATE: 1.0}))
        wrapped = faulty(MemoryStore(stage.clock), process="", faults=faults, clock=stage.clock, history=History())
        faults.is_out = True
        with pytest.raises(StoreUnavailable):
            await wrapped.enqueue(CALL, [NEW])
        faults.stop()
        await wrapped.enqueue(CALL, [NEW])
        assert await wrapped.get(JOB) is not None

    on_stage(play)


def test_calls_and_answers_are_recorded() -> None:
    async def play(stage: Stage) -> None:
        history = History()
        _, lost = _wrapped(stage, Fault.ANSWER_LOST, history)
        with pytest.raises(StoreUnavailable):
            await lost.enqueue(CALL, [NEW])
        _, fine = _wrapped(stage, Fault.NONE, history)
        await fine.enqueue(CALL, [NEW])
        phases = [(event.what, event.phase, event.job) for event in history]
        expected = [Phase.INVOKE, Phase.UNKNOWN, Phase.INVOKE, Phase.OK]
        assert phases == [("enqueue", phase, JOB) for phase in expected]

    on_stage(play)


def test_focus_makes_one_verb_fail_more_often() -> None:
    faults = Faults(random.Random(1), Mix(rates={Fault.BEFORE: 0.1}, focus="beat"))
    failed = {verb: sum(faults.draw(verb).fault is Fault.BEFORE for _ in range(1000)) for verb in ("beat", "held")}
    assert failed["beat"] > 3 * failed["held"]


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.LATE, Fault.TWICE, Fault.SLOW, Fault.IN_FLIGHT])
async def test_the_wrapper_runs_around_a_real_store_too(fault: Fault, tmp_path: Path) -> None:
    clock = SystemClock()
    store = SqliteStore(tmp_path / "jobs.db", clock=clock, chance=SystemRandomness(), process=ProcessIdentity("host", 1))
    faults = Faults(random.Random(1), Mix(rates={fault: 1.0}, latency=0.0, timeout=0.01, slowest=0.01, latest=0.01))
    wrapped = faulty(store, process="client", faults=faults, clock=clock, history=History())
    try:
        await wrapped.enqueue(CALL, [NEW])
    except StoreUnavailable:
        pass
    async with asyncio.timeout(10):
        while await store.get(JOB) is None:
            await clock.sleep(0.001)
    await clock.sleep(0.02)
    assert len(await store.counts()) == 1
    await wrapped.close()
