"""A worker fills the results of other jobs into a payload before the handler starts."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.job import Claim, Failed, NewJob, Reason, State
from holdfast._core.lifecycle import Transition, finish
from holdfast._core.member import Input, Member, OnFailure
from holdfast._core.outcome import Done, Fail, Outcome
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest
from holdfast._core.workflow import Edge, NewFlow, NewMember, Output, gate_edges
from holdfast._engine.client.outputs import PAGE
from holdfast._engine.runners.running import Stop
from holdfast._engine.tasks.context import SyncJob
from holdfast._engine.worker.job_inputs import JobInputs
from tests.engine.support import LEASE, Bench, turns
from tests.event_loops import run

SEEN: list[Any] = []


async def on_loop(number: int, other: int = 0) -> None:
    SEEN.append((number, other))


def in_thread(job: SyncJob, number: int, other: int = 0) -> None:
    SEEN.append((number, other))


async def tolerant(number: int | Failed, other: int = 7) -> None:
    SEEN.append((number, other))


def claimed(
    bench: Bench,
    task: Callable[..., Any],
    outcome: Outcome,
    then: Callable[[Claim], Any],
    *,
    policy: OnFailure,
    brings: bytes | None = None,
) -> None:
    """Store a workflow of two members, let the first one end, and claim the second one, which takes its result.

    ``brings``: the result, if the claim already has it.
    """

    async def act() -> None:
        await bench.open()
        ids = [bench.chance.uuid7() for _ in range(3)]
        names = ("a", task.__name__, "w")
        jobs = [NewJob(id=each, task=name, payload=b"{}", policy=Policy()) for each, name in zip(ids, names, strict=True)]
        inputs = (Input("number", ids[0], ("value",)),)
        members = (
            NewMember(jobs[0], Member(flow=ids[2], node="first", on_failure=policy)),
            NewMember(jobs[1], Member(flow=ids[2], node="second", inputs=inputs)),
        )
        edges = (Edge(ids[0], ids[1]), *gate_edges(ids[2], ids[:2], [Edge(ids[0], ids[1])]))
        root = NewMember(jobs[2], Member(flow=ids[2], node="w", is_gate=True))
        await bench.memory.enqueue_flow(bench.chance.uuid4(), NewFlow(root=root, members=members, edges=edges))
        (first,) = await take(bench, "a")
        await bench.memory.exchange([finish(first.job, outcome, jitter=0.0)])
        (second,) = await take(bench, task.__name__)
        assert second.inputs == inputs
        bench.executor.start(second if brings is None else structs.replace(second, results=(brings,)))
        while not bench.ended:
            await turns()
            bench.clock.advance(1.0)
            bench.beat()
        await then(second)

    run(act())


async def take(bench: Bench, task: str) -> tuple[Claim, ...]:
    request = ClaimRequest(lease=LEASE.id, claim=bench.chance.uuid4(), tasks={task: Policy()}, limit=1)
    return (await bench.memory.exchange((), request)).claims


def transition_of(bench: Bench) -> Transition:
    transition = bench.ended[0].transition
    assert transition is not None
    return transition


@pytest.mark.parametrize("task", [on_loop, in_thread])
def test_s21_a_handler_gets_the_recorded_result_of_its_parent(task: Callable[..., Any]) -> None:
    SEEN.clear()
    bench = Bench(task)

    async def then(claim: Claim) -> None:
        assert (SEEN, transition_of(bench).to) == ([(5, 0)], State.COMPLETED)
        assert transition_of(bench).flow == claim.job.flow is not None

    claimed(bench, task, Done(b'{"value":5}'), then, policy=OnFailure.FAIL)


def test_s21_a_result_that_the_claim_has_is_not_read_again() -> None:
    SEEN.clear()
    bench = Bench(on_loop)
    bench.store.fail("outputs", 1000)

    async def then(claim: Claim) -> None:
        assert (SEEN, transition_of(bench).to) == ([(5, 0)], State.COMPLETED)

    claimed(bench, on_loop, Done(b'{"value":5}'), then, policy=OnFailure.FAIL, brings=b'{"value":5}')


def test_of_more_results_than_one_read_returns_the_first_that_the_claim_lacks_are_read() -> None:
    bench, inputs = Bench(on_loop), tuple(Input("number", UUID(int=number), is_item=True) for number in range(PAGE + 2))

    async def act() -> None:
        await bench.open(("on_loop", b"{}"))
        (claim,) = await take(bench, "on_loop")
        results = (b"5", *[None] * (PAGE + 1))
        asked = JobInputs(bench.environment).ask(structs.replace(claim, inputs=inputs, results=results))
        assert asked is not None
        assert (await asked).keys() == {each.parent for each in inputs[1 : PAGE + 1]}

    run(act())


def test_s21_a_handler_gets_the_failure_of_its_parent_where_it_accepts_one() -> None:
    SEEN.clear()
    bench = Bench(tolerant)

    async def then(claim: Claim) -> None:
        ((failed, number),) = SEEN
        assert isinstance(failed, Failed)
        assert (failed.reason, str(failed.error), number) == (Reason.PERMANENT, "Fail: no", 7)

    claimed(bench, tolerant, Fail("no"), then, policy=OnFailure.CONTINUE)


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (Fail("no"), "is missing: PERMANENT"),
        (Done(b'{"valeu":5}'), "has no 'value'"),
        (Done(b'{"value":"x"}'), "does not fit: Expected `int`, got `str`"),
    ],
)
@pytest.mark.parametrize("is_named", [True, False])
def test_a_result_that_does_not_fit_fails_the_job_with_the_name_of_its_node_and_runs_nothing(
    outcome: Outcome, text: str, is_named: bool
) -> None:
    SEEN.clear()
    bench = Bench(on_loop)
    if not is_named:
        bench.store.fail("get")

    async def then(claim: Claim) -> None:
        moved = transition_of(bench)
        assert (moved.to, moved.reason, SEEN) == (State.FAILED, Reason.PAYLOAD_INVALID, [])
        assert moved.error is not None
        source = "node 'first'" if is_named else f"job {claim.inputs[0].parent}"
        assert str(moved.error) == f"PayloadInvalid: on_loop: number: the result of the {source} {text}"

    claimed(bench, on_loop, outcome, then, policy=OnFailure.CONTINUE)


def test_a_store_that_does_not_answer_costs_the_job_no_attempt() -> None:
    SEEN.clear()
    bench = Bench(on_loop)
    bench.store.fail("outputs", 1000)

    async def then(claim: Claim) -> None:
        moved = transition_of(bench)
        assert (moved.to, moved.never_ran, SEEN) == (State.AVAILABLE, True, [])

    claimed(bench, on_loop, Done(b'{"value":5}'), then, policy=OnFailure.FAIL)


def test_a_job_that_is_cancelled_while_it_waits_for_results_ends_without_them() -> None:
    SEEN.clear()
    bench = Bench(on_loop)
    answered = asyncio.Event()
    read = bench.memory.outputs

    async def silent(ids: Sequence[UUID]) -> Mapping[UUID, Output]:
        running = bench.executor.running[next(iter(bench.executor.running))]
        bench.executor.stop(running.claim.job.id, Stop.CANCELLED)
        await answered.wait()
        return await read(ids)

    bench.memory.outputs = silent  # type: ignore[method-assign]

    async def then(claim: Claim) -> None:
        moved = transition_of(bench)
        assert (moved.to, SEEN) == (State.CANCELLED, [])
        assert not answered.is_set()

    claimed(bench, on_loop, Done(b'{"value":5}'), then, policy=OnFailure.FAIL)
