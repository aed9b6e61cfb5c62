"""The verbs of a store, each as an act whose right answer is known, and which can be sent again."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.answers import Answer, BeatAnswer, EnqueueAnswer, ExchangeAnswer, ReopenAnswer
from holdfast._core.answers import Duplicate as Holder
from holdfast._core.job import RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd, Transition
from holdfast._core.member import Member
from holdfast._core.policy import Policy
from holdfast._core.requests import AttemptNote, ClaimRequest, ProgressUpdate
from holdfast._core.workflow import FlowVerb, NewMember
from holdfast._engine import store_defaults
from holdfast._ports.prefetching import Prefetching
from holdfast.stores.mongo.store import MongoStore
from holdfast.testing.contracts.scene import Scene, done, raised, released, rescued
from holdfast.testing.contracts.workflow_scene import Graph, verbs

CRASH = LeaseEnd(RescueReason.CRASHED)
APPLIED = Answer.APPLIED
FINISHED = (State.COMPLETED, State.FAILED, State.CANCELLED)
A_DAY = 86_400.0


class Act(Struct, frozen=True):
    """A call, the test of its answer, and that of a copy's; ``jobs``: those that exist afterwards."""

    do: Callable[[], Awaitable[Any]]
    is_right: Callable[[Any], bool]
    jobs: Sequence[UUID] = ()
    is_right_again: Callable[[Any], bool] | None = None


Verb = Callable[[Scene], Awaitable[Act]]


def answers(expected: object) -> Callable[[Any], bool]:
    """Return the test of an answer that has one value."""
    return lambda answer: bool(answer == expected)


def settled(at: Scene, *moves: Transition) -> Act:
    """Make the act of a settle."""
    return Act(lambda: at.settle(*moves), answers((APPLIED,) * len(moves)), [each.job for each in moves])


async def enqueue_one(at: Scene) -> Act:
    call, job = at.chance.uuid4(), at.new()
    return Act(lambda: at.store.enqueue(call, [job]), answers(EnqueueAnswer()), [job.id])


async def enqueue_keyed(at: Scene) -> Act:
    call, job = at.chance.uuid4(), at.new(key="key")
    return Act(lambda: at.store.enqueue(call, [job]), answers(EnqueueAnswer()), [job.id])


async def enqueue_with_a_taken_key(at: Scene) -> Act:
    (holder,) = await at.enqueue(at.new(key="key"))
    call, job = at.chance.uuid4(), at.new(key="key")
    expected = EnqueueAnswer({job.id: Holder(holder, is_same=True)})
    return Act(lambda: at.store.enqueue(call, [job]), answers(expected), [holder])


async def enqueue_many(at: Scene) -> Act:
    call, jobs = at.chance.uuid4(), [at.new(key=key, payload=b'"%s"' % (b"x" * 5000)) for key in ("a", None, None)]
    return Act(lambda: at.store.enqueue(call, jobs), answers(EnqueueAnswer()), [each.id for each in jobs])


async def enqueue_under_a_token(at: Scene) -> Act:
    call, parent, job = at.chance.uuid4(), await at.running(), at.new()
    under = (parent.id, parent.token)
    return Act(lambda: at.store.enqueue(call, [job], under=under), answers(EnqueueAnswer()), [parent.id, job.id])


async def claim(at: Scene) -> Act:
    jobs = await at.enqueue(at.new(), at.new(queue="other"), at.new(priority=5))
    return claiming(at, jobs, (), at.request(await at.lease(ttl=A_DAY), 2, prefetch=1))


async def claim_while_idle(at: Scene) -> Act:
    worker, jobs = await at.lease(ttl=A_DAY), await at.enqueue(at.new(), at.new())
    for _ in jobs:
        (claim,) = await at.claim(worker)
        await at.settle(done(claim.job))
    assert await at.claim(worker) == ()
    return claiming(at, [*jobs, *await at.enqueue(at.new())], (), at.request(worker))


async def exchange(at: Scene) -> Act:
    active, jobs = await at.running(), await at.enqueue(at.new(), at.new())
    return claiming(at, [active.id, *jobs], [done(active)], at.request(await at.lease(ttl=A_DAY), 2))


def claiming(at: Scene, jobs: Sequence[UUID], moves: Sequence[Transition], request: ClaimRequest) -> Act:
    """Make the act of a claim. A copy of it gets what the first one did not; what that one took is found by the audit."""
    wanted = {*jobs} - {each.job for each in moves}

    def is_right(answer: ExchangeAnswer) -> bool:
        found = [each.job.id for each in answer.claims]
        return set(answer.answers) <= {APPLIED} and {*found} <= wanted and len({*found}) == len(found)

    async def ask() -> ExchangeAnswer:
        answer = await at.store.exchange(moves, request)
        assert {(each.job.id, each.job.token) for each in answer.claims} <= {
            (each.id, each.token) for each in await at.store.held(request.lease)
        }
        return answer

    return Act(ask, is_right, jobs)


async def settle(at: Scene) -> Act:
    return settled(at, done(await at.running()), done(await at.prefetched()))


async def settle_a_failed_attempt(at: Scene) -> Act:
    return settled(at, raised(await at.running()))


async def settle_the_last_attempt(at: Scene) -> Act:
    active = await at.running(policy=Policy(max_attempts=1), key="key")
    return settled(at, raised(active), done(await at.running()))


async def release(at: Scene) -> Act:
    return settled(at, released(await at.prefetched()))


async def rescue(at: Scene) -> Act:
    active = await at.running()
    await at.store.end_lease(active.lease, CRASH)
    return settled(at, rescued(active, CRASH))


async def start(at: Scene) -> Act:
    active = await at.prefetched()
    return Act(lambda: at.store.start([(active.id, active.token)]), answers(frozenset()), [active.id])


async def start_through(at: Scene) -> Act:
    active, store = await at.prefetched(), cast(Prefetching, at.store)
    return Act(lambda: store.start_through(active.lease, active.token.number, 0), answers(True), [active.id])


async def void(at: Scene) -> Act:
    active, store = await at.prefetched(), cast(Prefetching, at.store)
    return Act(lambda: store.void(active.lease, 1), answers(0), [active.id])


async def report(at: Scene) -> Act:
    active = await at.running()
    update = ProgressUpdate(job=active.id, token=active.token, stage="half", checkpoint=b"1", order=1)
    return Act(lambda: at.store.report([update]), answers(frozenset()), [active.id])


async def annotate(at: Scene) -> Act:
    active = await at.running()
    await at.settle(raised(active))
    note = AttemptNote(job=active.id, token=active.token, stacks="stacks")

    async def ask() -> str | None:
        await at.store.annotate([note])
        (attempt,) = (await at.row(active.id)).attempts
        return attempt.stacks

    return Act(ask, answers("stacks"), [active.id])


async def request_cancel(at: Scene) -> Act:
    active, (waiting,) = await at.running(), await at.enqueue(at.new())
    expected = {active.id: State.RUNNING, waiting: State.CANCELLED}
    return Act(lambda: at.store.request_cancel([*expected]), answers(expected), [*expected])


async def reschedule(at: Scene) -> Act:
    (job,) = await at.enqueue(at.new())
    return Act(lambda: at.store.reschedule([job], delay=60.0), answers({job: State.SCHEDULED}), [job])


async def delete(at: Scene) -> Act:
    over, (job,) = await at.running(), await at.enqueue(at.new(key="key"))
    await at.settle(done(over))
    return Act(lambda: at.store.delete([job, over.id]), answers({}))


async def reopen(at: Scene) -> Act:
    over = await at.running(key="key")
    await at.settle(done(over))
    return Act(lambda: at.store.reopen([over.id]), answers(ReopenAnswer({over.id: State.AVAILABLE})), [over.id])


async def open_lease(at: Scene) -> Act:
    lease = at.new_lease()
    return Act(lambda: at.store.open_lease(lease), answers(True))


async def beat(at: Scene) -> Act:
    active = await at.running()
    await at.store.request_cancel([active.id])

    def is_right(answer: BeatAnswer) -> bool:
        return (answer.alive, answer.gone, answer.cancelled) == ({active.lease}, frozenset(), {active.lease: (active.id,)})

    return Act(lambda: at.store.beat([active.lease]), is_right, [active.id])


async def end_lease(at: Scene) -> Act:
    active = await at.running()
    return Act(lambda: at.store.end_lease(active.lease, CRASH), answers(CRASH), [active.id])


async def held(at: Scene) -> Act:
    active = await at.running()
    return Act(lambda: at.store.held(active.lease), lambda found: [each.token for each in found] == [active.token], [active.id])


async def get(at: Scene) -> Act:
    (job,) = await at.enqueue(at.new())
    return Act(lambda: at.store.get(job), lambda row: row.state is State.AVAILABLE, [job])


async def expired(at: Scene) -> Act:
    active = await at.running()
    at.advance(40.0)
    return Act(lambda: at.store.expired(9), lambda found: [each.id for each in found] == [active.lease], [active.id])


async def expire(at: Scene) -> Act:
    (job,) = await at.enqueue(at.new(expires_in=1.0))
    at.advance(2.0)
    return Act(lambda: at.store.expire(9), lambda found: [each.job for each in found] == [job], [job], answers(()))


async def prune(at: Scene) -> Act:
    over, (job,) = await at.running(policy=Policy(retention="0s")), await at.enqueue(at.new())
    await at.settle(done(over))
    at.advance(A_DAY * 30)
    return Act(lambda: at.store.prune(9), lambda found: found.jobs == 1, [job], lambda found: found.jobs == 0)


async def pause(at: Scene) -> Act:
    async def ask() -> Sequence[str]:
        await at.store.pause(["asleep"], is_paused=True)
        return [each.name for each in await at.store.queues() if each.paused_at]

    return Act(ask, answers(["asleep"]))


async def enqueue_a_workflow(at: Scene) -> Act:
    graph, call = two(at), at.chance.uuid4()
    new = graph.new()
    return Act(lambda: verbs(at.store).enqueue_flow(call, new), answers(EnqueueAnswer()), [*graph.ids.values()])


async def settle_a_member(at: Scene) -> Act:
    graph = await two(at).stored()
    (first,) = await graph.start("first")
    return structs.replace(settled(at, done(first)), jobs=[*graph.ids.values()])


async def cancel_a_workflow(at: Scene) -> Act:
    graph = await two(at).stored()
    return Act(lambda: graph.steer(FlowVerb.CANCEL), answers(State.CANCELLED), [*graph.ids.values()])


async def add_a_member(at: Scene) -> Act:
    graph, call, job = await two(at).stored(), at.chance.uuid4(), at.new()
    (first,) = await graph.start("first")
    child, store = NewMember(job, Member(flow=graph.ids["root"], node="child")), store_defaults.growing_workflows(at.store)
    under: tuple[UUID, Token] = (first.id, first.token)
    jobs = [*graph.ids.values(), job.id]
    return Act(lambda: store.enqueue_member(call, child, under=under), answers(EnqueueAnswer()), jobs)


def two(at: Scene) -> Graph:
    """Return a workflow of two members, one after the other."""
    return Graph(at).add("first").add("second", "first", takes=["first"])


async def own_documents(at: Scene) -> Act:
    """Write a document in the job's own transaction, once."""
    active, store = await at.running(), cast(MongoStore, at.store)
    which = {"_id": active.id}

    async def ask() -> Mapping[str, Any] | None:
        async with store.transaction(active.id, active.token, idle=30.0) as session:
            own = session.client[store.database.location.database]["own"]
            await own.update_one(which, {"$set": {"is_written": True}}, upsert=True, session=session)
        return cast(Mapping[str, Any] | None, await store.database.find("own", which))

    return Act(ask, answers([{**which, "is_written": True}]), [active.id])


VERBS: Sequence[Verb] = (
    *(
        enqueue_one,
        enqueue_keyed,
        enqueue_with_a_taken_key,
        enqueue_many,
        enqueue_under_a_token,
        claim,
        claim_while_idle,
        exchange,
    ),
    settle,
    *(settle_a_failed_attempt, settle_the_last_attempt, release, rescue, start, start_through, void, report, annotate),
    *(request_cancel, reschedule, delete, reopen, open_lease, beat, end_lease, held, get, expired, expire, prune, pause),
    *(enqueue_a_workflow, settle_a_member, cancel_a_workflow, add_a_member, own_documents),
)
FREQUENT = (enqueue_keyed, claim, settle, rescue)
"""Verbs whose tests run with every push."""


async def all_finish(at: Scene, jobs: Sequence[UUID]) -> None:
    """End all leases, rescue their jobs, and run every job to its end: each of these exists once, and no other one."""
    at.advance(A_DAY)
    for lease in await at.store.workers():
        await at.store.end_lease(lease.id, CRASH)
    for lease in await at.store.expired(99):
        assert lease.end is not None
        active = await at.store.held(lease.id)
        assert await at.settle(*(rescued(each, lease.end) for each in active)) == (APPLIED,) * len(active)
    worker = await at.lease(ttl=A_DAY * 99)
    for _ in range(2):
        claims = await at.claim(worker, 9, tasks=("task", "workflow"))
        while claims:
            active = tuple(each.job for each in claims)
            assert len({each.id for each in active}) == len(active)
            assert {each.token for each in active} <= {each.token for each in await at.store.held(worker)}
            assert await at.settle(*map(done, active)) == (APPLIED,) * len(active)
            claims = await at.claim(worker, 9, tasks=("task", "workflow"))
        at.advance(A_DAY)
    assert {each.id: each.state in FINISHED for each in await at.store.list(Scene.everything)} == dict.fromkeys(jobs, True)
    assert await at.store.held(worker) == ()
