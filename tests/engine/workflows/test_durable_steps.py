"""Steps, sleeps and signals of handlers on every store: done once, in order, and held when the code was changed under them."""

from typing import Any

import pytest

from holdfast import Backoff, Job, JobFailed, SyncJob
from holdfast._core.job import State
from tests.engine.workflows.stores import new_app

AGAIN = Backoff.fixed("0s")


class Shop:
    """A task that charges and ships an order once an operator has approved it; its first attempts break."""

    def __init__(self, kind: str, breaks: int = 2) -> None:
        self.app = new_app()
        self.effects, self.keys = list[str](), list[str]()
        self.breaks, self.first = breaks, "charge"
        self.order = self.app.task(name="order", max_attempts=9, backoff=AGAIN)(getattr(self, kind))

    async def in_loop(self, job: Job, item: str) -> list[Any]:
        receipt = await job.step(self.first, self.charge, item, job)
        await job.sleep("0s")
        self.break_down()
        approved = await job.wait_for("approved", timeout="1h")
        self.break_down()
        return [receipt, approved, await job.step("ship", self.ship, item)]

    def in_thread(self, job: SyncJob, item: str) -> list[Any]:
        receipt = job.step(self.first, self.charge, item, job)
        job.sleep("0s")
        self.break_down()
        approved = job.wait_for("approved", timeout="1h")
        self.break_down()
        return [receipt, approved, job.step("ship", self.ship, item)]

    def charge(self, item: str, job: Job | SyncJob) -> dict[str, Any]:
        self.effects.append("charge")
        self.keys.append(job.step_key)
        return {"item": item, "sizes": (1, 2)}

    def ship(self, item: str) -> str:
        self.effects.append("ship")
        return item.upper()

    def break_down(self) -> None:
        self.breaks -= 1
        if self.breaks >= 0:
            raise ConnectionError("try again")

    def run(self) -> None:
        while self.app.run_due():
            pass


@pytest.mark.parametrize("kind", ["in_loop", "in_thread"])
def test_s22_s23_steps_run_once_and_a_signal_is_consumed_once_in_all_attempts(kind: str) -> None:
    at = Shop(kind)
    handle = at.order.enqueue("pen")
    at.run()
    assert (handle.get().state, handle.get().awaits) == (State.BLOCKED, "approved")
    assert handle.signal("approved", {"by": "ada"})
    assert handle.signal("approved", "a second one, which no wait consumes")
    at.run()
    assert handle.result(timeout=1) == [{"item": "pen", "sizes": [1, 2]}, {"by": "ada"}, "PEN"]
    assert at.effects == ["charge", "ship"]
    assert at.keys == [f"{handle.id}:charge:1"]
    assert handle.get().failures == 2
    assert not handle.signal("approved")


def test_s22_a_job_whose_step_was_renamed_is_held_and_a_fresh_retry_does_all_of_it_again() -> None:
    at = Shop("in_loop", breaks=1)
    handle = at.order.enqueue("pen")
    at.app.run_due(limit=1)
    at.first = "charge_card"
    at.run()
    job = handle.get()
    assert (job.state, job.held_for, at.effects) == (State.HELD, "steps", ["charge"])
    assert "'charge_card' (use 1)" in str(job.error)
    at.app.jobs.retry(handle.id, fresh=True)
    at.run()
    assert handle.get().awaits == "approved"
    assert at.effects == ["charge", "charge"]


def test_s22_a_failed_job_keeps_its_steps_for_a_retry() -> None:
    at = Shop("in_loop", breaks=9)
    handle = at.order.enqueue("pen")
    at.run()
    with pytest.raises(JobFailed, match="try again"):
        handle.result(timeout=1)
    at.app.jobs.retry(handle.id)
    at.run()
    assert handle.signal("approved", 1)
    at.run()
    assert handle.result(timeout=1) == [{"item": "pen", "sizes": [1, 2]}, 1, "PEN"]
    assert at.effects == ["charge", "ship"]
