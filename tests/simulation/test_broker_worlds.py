"""Worlds whose processes call brokers on a bucket: brokers are killed, stopped and cut off, and others take over."""

import asyncio

import pytest
from aiohttp import ServerDisconnectedError
from msgspec import structs

from holdfast._ports.host import Exit
from proof.checker.checker import check
from proof.checker.history import IN_MEMORY, By, History, Phase
from proof.search.decisions import Mishap, Strike
from proof.simulator.broker_plan import SHARE
from proof.simulator.plans import Mode, Plan, draw_for
from proof.simulator.profiles import Brand, Profile
from proof.simulator.simulation import Outcome, perform, simulate
from proof.stores.broker_calls import Listener
from tests.simulation.hand_made_histories import LEASE, Tale
from tests.simulation.support import Stage, on_stage
from tests.simulation.test_promises import OPEN


def plan_of(seed: int) -> Plan:
    return draw_for(seed, Brand.MEMORY, profile=Profile.OBJECTS)


LED = [seed for seed in range(60) if plan_of(seed).brokers and plan_of(seed).mode is Mode.SAFETY][:6]


def test_a_third_of_the_worlds_in_a_bucket_have_brokers() -> None:
    plans = [plan_of(seed) for seed in range(300)]
    found = [plan.brokers for plan in plans if plan.brokers is not None]
    assert 0.75 * SHARE < len(found) / len(plans) < 1.25 * SHARE
    assert {each.brokers for each in found} == {1, 2, 3}
    assert {each.is_required for each in found} == {True, False}
    plain = draw_for(0, Brand.MEMORY, profile=Profile.PLAIN)
    assert plain.brokers is None


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [simulate(seed, profile=Profile.OBJECTS) for seed in LED]


def test_no_property_breaks_when_brokers_lead_and_fail(outcomes: list[Outcome]) -> None:
    assert [outcome.explain() for outcome in outcomes if not outcome.is_clean] == []
    events = [event for outcome in outcomes for event in outcome.history]
    assert sum(event.what == "epoch" for event in events) > len(outcomes), "some brokers take over from others"
    assert sum(event.note.startswith(IN_MEMORY) for event in events) > 50, "leaders keep beats in memory"


def test_brokers_are_hit_and_calls_to_them_meet_faults(outcomes: list[Outcome]) -> None:
    decisions = [each for outcome in outcomes for each in outcome.decisions]
    assert len({each.name for each in decisions if isinstance(each, Strike) and each.name.endswith("_broker")}) > 1
    assert {"exchange", "beat", "put", "get"} <= {each.verb for each in decisions if isinstance(each, Mishap)}


def test_a_world_with_brokers_replayed_from_its_decisions_is_the_same(outcomes: list[Outcome]) -> None:
    drawn = outcomes[0]
    again = perform(structs.replace(drawn.plan, script=tuple(drawn.decisions)), drawn.seed)
    assert again.history.digest() == drawn.history.digest()


def test_a_call_ends_with_the_broker_that_has_not_answered_it() -> None:
    async def stand_still(*_: object) -> None:
        await asyncio.get_running_loop().create_future()

    async def run(stage: Stage) -> None:
        process = stage.machine.process("broker")
        listener = Listener(stage.loop, process, stand_still)
        stage.loop.call_later(1.0, process.end, Exit(signal="SIGKILL"))
        with pytest.raises(ServerDisconnectedError):
            await listener.answer("/port/v1/counts", b"", "client")
        assert stage.loop.now == pytest.approx(1001.0)
        with pytest.raises(ServerDisconnectedError):
            await listener.answer("/port/v1/counts", b"", "client")

    on_stage(run)


@pytest.mark.parametrize(("epoch", "verdict"), [("1", True), ("2", False)])
def test_a_beat_kept_in_the_memory_of_a_deposed_broker_breaks_s3(epoch: str, verdict: bool) -> None:
    tale = Tale().lease().say("epoch", Phase.TRUTH, "bucket", note=epoch)
    row = tale.leases[LEASE]
    tale.say("lease", Phase.TRUTH, lease=LEASE, before=row, after=row, by=By("beat"), note=f"{IN_MEMORY}1")
    assert check(History(tale.events), OPEN).verdict("S3") is verdict
