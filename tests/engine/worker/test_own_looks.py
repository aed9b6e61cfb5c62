"""An idle worker mostly reads when a job is due, because that costs the store less than a claim that finds nothing."""

from collections.abc import Callable
from typing import Any

from holdfast._core.job import State
from holdfast._core.outcome import Snooze
from holdfast._engine.worker.named_jobs import MOST_NAMED
from holdfast._ports.transport import Hint
from tests.engine.support import Bench, forever

NOTHING = b"{}"
POLL = 1.0


async def quick() -> None: ...


async def again() -> Snooze:
    return Snooze(0.0)


async def idle(task: Callable[[], Any] = quick) -> Bench:
    """Return a worker that has found nothing to do, and whose calls from now on are recorded."""
    bench = Bench(task)
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


async def test_a_hint_that_names_no_job_leads_to_a_claim_at_once() -> None:
    bench = await idle()
    bench.clock.advance(POLL / 2)
    await bench.open(("quick", NOTHING))
    bench.exchange.hinted(Hint("default"))
    await bench.exchange.step()
    assert bench.store.calls[0] == "exchange"
    assert bench.executor.started == 1


async def test_a_worker_that_rests_claims_the_named_jobs_and_finds_others_with_its_next_step() -> None:
    bench = await idle(forever)
    jobs = await bench.open(("forever", NOTHING), ("forever", NOTHING), ("forever", NOTHING))
    bench.exchange.hinted(Hint("default", (jobs[2],)))
    bench.exchange.hinted(Hint("default", (jobs[1],)))
    assert await bench.exchange.step() == 0.0
    assert [(await bench.row(job)).state for job in jobs] == [State.AVAILABLE, State.RUNNING, State.RUNNING]
    await bench.exchange.step()
    assert bench.executor.started == 3


async def test_a_worker_that_rests_settles_without_a_claim_and_looks_whether_a_job_is_due() -> None:
    bench = await idle()
    jobs = await bench.open(("quick", NOTHING))
    bench.exchange.hinted(Hint("default", tuple(jobs)))
    await bench.exchange.step()
    await bench.until_ended()
    bench.store.calls.clear()
    jobs += await bench.open(("quick", NOTHING))  # its hint is lost
    assert await bench.exchange.step() == 0.0
    assert [(await bench.row(job)).state for job in jobs] == [State.COMPLETED, State.AVAILABLE]
    assert bench.store.calls == ["exchange", "next_due"]
    await bench.exchange.step()
    assert bench.executor.started == 2


async def test_a_rest_ends_with_an_outcome_that_makes_a_job_due() -> None:
    bench = await idle(again)
    jobs = await bench.open(("again", NOTHING))
    bench.exchange.hinted(Hint("default", tuple(jobs)))
    await bench.exchange.step()
    await bench.until_ended()
    await bench.exchange.step()
    assert bench.executor.started == 2


async def test_a_rest_ends_with_more_names_than_a_worker_keeps() -> None:
    bench = await idle()
    await bench.open(("quick", NOTHING))
    for _ in range(MOST_NAMED + 1):
        bench.exchange.hinted(Hint("default", (bench.chance.uuid7(),)))
    await bench.exchange.step()
    assert bench.executor.started == 1


async def test_a_rest_ends_with_its_time() -> None:
    bench = await idle()
    jobs = await bench.open(("quick", NOTHING), ("quick", NOTHING))
    bench.clock.advance(POLL)
    bench.exchange.hinted(Hint("default", (jobs[1],)))
    await bench.exchange.step()
    assert bench.executor.started == 2


async def test_an_idle_worker_audits_with_its_next_look_and_claims_nothing() -> None:
    bench = await idle()
    bench.executor.finished.wake.forget()
    bench.exchange.request_audit()
    assert not await bench.executor.finished.wake.wait(0.0)
    bench.clock.advance(POLL)
    assert await bench.exchange.step() == POLL
    assert bench.store.calls == ["held", "next_due"]
