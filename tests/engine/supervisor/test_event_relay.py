"""The supervisor forwards its events to the user's callbacks, which are in its workers."""

from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.job import RescueReason
from holdfast._engine import messages
from holdfast._engine.events import Event, EventName
from holdfast._engine.supervisor.event_relay import MOST_KEPT
from holdfast._ports.host import Exit
from tests.engine.supervisor.test_supervisor import HELLO, KILLED, Fleet, passing
from tests.engine.worker.test_worker import Office, quick

JOB = UUID(int=5)
LISTENING = structs.replace(HELLO, listens=True)


async def listening(fleet: Fleet) -> tuple[object, messages.LeaseGranted]:
    child = await fleet.spawned()
    child.far.say(LISTENING)
    leased = await child.far.hear(messages.LeaseGranted)
    child.far.say(messages.Ready())
    return child, leased


@pytest.mark.virtual_time
async def test_the_rescue_of_the_only_workers_job_is_forwarded_to_the_next_worker() -> None:
    fleet = Fleet()
    child, leased = await listening(fleet)
    (job,) = await fleet.claim(leased)
    child.end(KILLED)  # type: ignore[attr-defined]
    next_worker, _ = await listening(fleet)
    await passing(1)
    forwarded = [message for message in next_worker.far.received() if isinstance(message, messages.EventForwarded)]  # type: ignore[attr-defined]
    rescued = [message.event() for message in forwarded if message.name == "job.rescued"]
    assert [event.fields["job"] for event in rescued] == [job]
    assert rescued[0].fields["reason"] == "SIGKILL"


@pytest.mark.virtual_time
async def test_each_event_is_forwarded_once_and_only_to_a_worker_that_listens() -> None:
    fleet = Fleet(processes=3)
    silent, _ = await fleet.ready()
    first, _ = await listening(fleet)
    second, _ = await listening(fleet)
    await passing(1)
    for child in (silent, first, second):
        child.far.received()  # type: ignore[attr-defined]
    fleet.supervisor._events.emit(EventName.JOB_RESCUED, job=JOB, task="t")
    received = [
        [message.name for message in child.far.received() if isinstance(message, messages.EventForwarded)]  # type: ignore[attr-defined]
        for child in (silent, first, second)
    ]
    assert received == [[], ["job.rescued"], []]


@pytest.mark.virtual_time
async def test_events_are_kept_up_to_a_bound_while_no_worker_listens() -> None:
    fleet = Fleet()
    child = await fleet.spawned()
    for number in range(MOST_KEPT + 5):
        fleet.supervisor._events.emit(EventName.JOB_EXPIRED, job=JOB, task=str(number))
    child.far.say(LISTENING)
    await child.far.hear(messages.LeaseGranted)
    child.far.say(messages.Ready())
    await passing(1)
    forwarded = [message for message in child.far.received() if isinstance(message, messages.EventForwarded)]
    assert MOST_KEPT - 5 < sum(message.name == "job.expired" for message in forwarded) <= MOST_KEPT
    child.end(Exit(code=0))


@pytest.mark.virtual_time
async def test_subscribers_in_a_worker_receive_the_events_of_its_supervisor() -> None:
    office = Office(quick)
    received = list[Event]()
    office.log.events.on("job.rescued", received.append)
    await office.open()
    office.far.say(
        messages.EventForwarded("job.rescued", {"job": str(JOB), "crashes": 1, "reason": RescueReason.UNRESPONSIVE.value})
    )
    await passing(0.1)
    assert [(event.name, event.fields["job"], event.fields["crashes"]) for event in received] == [("job.rescued", JOB, 1)]
