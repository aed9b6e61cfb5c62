"""A worker counts what its attempts came to, and sends it to its supervisor, which keeps it."""

import pytest
from msgspec import structs

from holdfast._core.outcome import Retry
from holdfast._core.tallies import Series, Totals
from holdfast._engine.events import Events
from holdfast._engine.tasks.registry import define
from holdfast.errors import StoreUnavailable
from tests.engine.supervisor.test_recovery import CRASH, Site
from tests.engine.support import LEASE, Bench, claim


async def quick() -> str:
    return "done"


async def again() -> None:
    raise Retry(after=0)


def counted(events: Events, *metrics: str) -> dict[Series, int]:
    totals = Totals()
    totals.add(events.tallied().take())
    return {series: number for series, number in totals.counts.items() if series[0] in metrics}


async def ran(*tasks: str) -> Bench:
    bench = Bench(quick, again)
    bench.log.events.tallied()
    await bench.open(*[(task, b"{}") for task in tasks])
    await bench.exchange.step()
    await bench.until_ended()
    await bench.exchange.step()
    return bench


async def test_attempts_are_counted_by_outcome_once_the_store_has_them() -> None:
    bench = await ran("quick", "quick", "again")
    assert counted(bench.log.events, "attempts", "jobs_finished") == {
        ("attempts", "default", "quick", "completed"): 2,
        ("attempts", "default", "again", "failed"): 1,
        ("jobs_finished", "default", "quick", "completed", ""): 2,
    }


async def test_an_outcome_whose_answer_was_lost_is_counted_once() -> None:
    bench = Bench(quick)
    bench.log.events.tallied()
    await bench.open(("quick", b"{}"))
    await bench.exchange.step()
    await bench.until_ended()
    bench.store.lose_answer("exchange")
    with pytest.raises(StoreUnavailable):
        await bench.exchange.step()
    assert not counted(bench.log.events, "attempts")
    await bench.exchange.step()
    assert counted(bench.log.events, "attempts") == {("attempts", "default", "quick", "completed"): 1}


async def test_a_supervisor_counts_the_attempt_and_the_job_that_a_killed_worker_could_not() -> None:
    site = Site()
    events = site.log.events
    events.tallied()
    await site.claim(2)
    await site.recovery.end(LEASE.id, "worker-1", CRASH)
    assert counted(events, "attempts", "jobs_rescued", "leases_ended") == {
        ("attempts", "default", "t", "crashed"): 2,
        ("jobs_rescued", "t", "crashed", "other"): 2,
        ("leases_ended", "crashed"): 1,
    }


async def test_a_wait_lasts_from_the_due_time_through_the_claim_to_the_first_line() -> None:
    bench = Bench(quick)
    tallies = bench.log.events.tallied()
    await bench.open()
    waited = claim(define(quick, name="quick"))
    bench.executor.start(structs.replace(waited, waited=40.0), claimed_at=bench.executor._lease.now() - 2.0)
    await bench.until_ended()
    delta = tallies.take()
    assert delta is not None
    spread = dict(delta.spreads)["job_wait_seconds", "default", "quick"]
    assert 42.0 <= spread.total < 60.0
