"""An idle worker mostly reads when a job is due, because that costs the store less than a claim that finds nothing."""

from tests.engine.support import Bench

NOTHING = b"{}"
POLL = 1.0


async def quick() -> None: ...


async def idle() -> Bench:
    """Return a worker that has found nothing to do, and whose calls from now on are recorded."""
    bench = Bench(quick)
    await bench.open()
    assert await bench.exchange.step() == POLL
    assert bench.exchange.is_idle
    bench.store.calls.clear()
    return bench


async def test_a_worker_that_has_rested_claims_nothing_while_no_job_is_due() -> None:
    bench = await idle()
    for _ in range(3):
        bench.clock.advance(POLL)
        assert await bench.exchange.step() == POLL
    assert bench.store.calls == ["next_due"] * 3
    assert bench.exchange.is_idle


async def test_a_look_that_finds_a_due_job_claims_it_in_the_same_step() -> None:
    bench = await idle()
    bench.clock.advance(POLL)
    await bench.open(("quick", NOTHING))
    await bench.exchange.step()
    assert bench.store.calls[:2] == ["next_due", "exchange"]
    assert bench.executor.started == 1


async def test_a_look_that_finds_a_later_job_waits_for_it_and_the_worker_is_not_idle() -> None:
    bench = await idle()
    bench.clock.advance(POLL)
    jobs = await bench.open(("quick", NOTHING))
    await bench.memory.reschedule(jobs, delay=POLL / 4)
    assert await bench.exchange.step() == POLL / 4
    assert not bench.exchange.is_idle


async def test_a_worker_that_is_woken_claims_at_once() -> None:
    bench = await idle()
    bench.clock.advance(POLL / 2)
    await bench.open(("quick", NOTHING))
    await bench.exchange.step()
    assert bench.store.calls[0] == "exchange"
    assert bench.executor.started == 1


async def test_an_idle_worker_audits_with_its_next_look_and_claims_nothing() -> None:
    bench = await idle()
    bench.executor.finished.wake.forget()
    bench.exchange.request_audit()
    assert not await bench.executor.finished.wake.wait(0.0)
    bench.clock.advance(POLL)
    assert await bench.exchange.step() == POLL
    assert bench.store.calls == ["held", "next_due"]
