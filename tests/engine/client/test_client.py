"""An enqueue is durable, safe to send again and shares commits; a wait for a result ends as the job does."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.answers import Duplicate, EnqueueAnswer, LeaseView, Pruned, Purged, ReopenAnswer
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import Failure, NewJob, Reason, State, Token
from holdfast._core.lifecycle import Transition, finish
from holdfast._core.member import Member
from holdfast._core.outcome import Cancel, Done, Fail, Outcome
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest, JobFilter, NewLease
from holdfast._core.steps import Signal, SignalAnswer
from holdfast._core.timing import LeaseTiming
from holdfast._core.workflow import Edge, NewFlow, NewMember
from holdfast._engine.client import client
from holdfast._engine.client.client import Client
from holdfast._engine.environment import Environment
from holdfast._engine.events import Event, EventName, Events
from holdfast._ports.transport import Hint
from holdfast.errors import (
    JobCancelled,
    JobFailed,
    JobNotFound,
    SchemaMissing,
    StoreBusy,
    StoreDamaged,
    StoreUnavailable,
    UniqueConflict,
)
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance, FakeClock

POLICY = Policy()
LEASE = NewLease(UUID(int=1), "worker", ProcessIdentity("host", 1), LeaseTiming.of("30s"))


class HastyClock(FakeClock):
    """A clock whose `sleep` advances the time at once."""

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)


class FaultyStore(MemoryStore):
    """A store whose enqueues a test can suspend, and let fail before or after they happen."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.opened = asyncio.Event()
        self.opened.set()
        self.calls: list[tuple[UUID, int]] = []
        self.before: list[Exception] = []
        self.after: list[Exception] = []

    async def workers(self) -> tuple[LeaseView, ...]:
        if self.before:
            raise self.before.pop(0)
        return await super().workers()

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob], *, under: tuple[UUID, Token] | None = None) -> EnqueueAnswer:
        self.calls.append((call, len(jobs)))
        await self.opened.wait()
        if self.before:
            raise self.before.pop(0)
        answer = await super().enqueue(call, jobs, under=under)
        if self.after:
            raise self.after.pop(0)
        return answer


class RecordedTransport:
    """A transport that keeps the hints it publishes."""

    deliveries = None

    def __init__(self) -> None:
        self.hints: list[Hint] = []

    async def publish(self, hints: Sequence[Hint]) -> None:
        self.hints += hints

    async def subscribe(self, wake: Callable[[Hint], None]) -> None: ...

    async def close(self) -> None: ...


class ClientBench:
    """A client with the store, transport, clock and events around it."""

    def __init__(self) -> None:
        self.clock = HastyClock()
        self.store = FaultyStore(self.clock)
        self.transport = RecordedTransport()
        self.events = Events()
        self.seen: list[Event] = []
        self.events.on("*", self.seen.append)
        self.chance = FakeChance()
        self.client = Client(Environment(self.store, self.transport, self.clock, self.chance, self.events))

    def job(self, queue: str = "default", task: str = "task", key: str | None = None, payload: bytes = b"{}") -> NewJob:
        return NewJob(id=self.chance.uuid7(), task=task, payload=payload, policy=POLICY, queue=queue, unique_key=key)

    def fields_of(self, name: str) -> list[dict[str, Any]]:
        return [event.fields for event in self.seen if event.name == name]

    async def stored(self) -> int:
        return len(await self.store.list(JobFilter(limit=10_000)))

    async def end(self, outcome: Outcome, job: NewJob | None = None) -> UUID:
        """Enqueue, claim and settle a job with this outcome; return its id."""
        job = job or self.job()
        await self.client.enqueue([job])
        await self.store.open_lease(LEASE)
        request = ClaimRequest(lease=LEASE.id, claim=self.chance.uuid4(), tasks={"task": job.policy}, limit=10)
        (claim,) = (await self.store.exchange([], request)).claims
        move: Transition = finish(claim.job, outcome, jitter=0.0)
        await self.store.exchange([move])
        return job.id


def run(scenario: Callable[[ClientBench], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await scenario(ClientBench())

    asyncio.run(main())


async def turns(count: int = 5) -> None:
    for _ in range(count):
        turn = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turn.set_result, None)
        await turn


def test_an_enqueue_is_durable_announced_and_hinted_when_it_returns() -> None:
    async def scenario(bench: ClientBench) -> None:
        jobs = [bench.job("a"), bench.job("b"), bench.job("a")]
        await bench.client.enqueue(jobs)
        assert await bench.stored() == 3
        assert bench.transport.hints == [Hint("a", (jobs[0].id, jobs[2].id)), Hint("b", (jobs[1].id,))]
        assert [event.fields["job"] for event in bench.seen if event.name is EventName.JOB_ENQUEUED] == [job.id for job in jobs]

    run(scenario)


def test_an_empty_enqueue_does_not_call_the_store() -> None:
    async def scenario(bench: ClientBench) -> None:
        await bench.client.enqueue([])
        assert bench.store.calls == []

    run(scenario)


def test_concurrent_callers_share_commits_and_each_waits_for_one_only() -> None:
    async def scenario(bench: ClientBench) -> None:
        bench.store.opened.clear()

        async def enqueue_thrice() -> None:
            for _ in range(3):
                await bench.client.enqueue([bench.job()])

        callers = [asyncio.ensure_future(enqueue_thrice()) for _ in range(100)]
        await turns()
        bench.store.opened.set()
        await asyncio.gather(*callers)
        assert [size for _, size in bench.store.calls] == [1, 100, 100, 99]

    run(scenario)


def test_a_single_caller_waits_for_nothing_but_its_own_write() -> None:
    async def scenario(bench: ClientBench) -> None:
        for _ in range(3):
            with pytest.raises(StopIteration):  # Without a turn of the loop: this store answers at once.
                bench.client.enqueue([bench.job()]).send(None)
        assert [size for _, size in bench.store.calls] == [1, 1, 1]

    run(scenario)


def test_callers_that_come_during_a_write_share_the_next_one() -> None:
    async def scenario(bench: ClientBench) -> None:
        bench.store.opened.clear()
        callers = [asyncio.ensure_future(bench.client.enqueue([bench.job()]))]
        await turns()
        callers += [asyncio.ensure_future(bench.client.enqueue([bench.job()])) for _ in range(9)]
        await turns()
        assert not any(caller.done() for caller in callers)
        bench.store.opened.set()
        await asyncio.gather(*callers)
        assert [size for _, size in bench.store.calls] == [1, 9]
        assert len({call for call, _ in bench.store.calls}) == 2

    run(scenario)


def test_a_call_is_never_split_and_a_shared_commit_stays_small() -> None:
    async def scenario(bench: ClientBench) -> None:
        sizes = (600, 600, 3000, 1)
        await asyncio.gather(*(bench.client.enqueue([bench.job() for _ in range(size)]) for size in sizes))
        assert [size for _, size in bench.store.calls] == [600, 600, 3000, 1]

    run(scenario)


def test_an_enqueue_without_an_answer_is_sent_again_as_the_same_call_and_counts_once() -> None:
    async def scenario(bench: ClientBench) -> None:
        bench.store.before = [StoreUnavailable("away")]
        bench.store.after = [StoreUnavailable("no answer"), StoreUnavailable("no answer")]
        await bench.client.enqueue([bench.job()])
        assert len(bench.store.calls) == 4
        assert len({call for call, _ in bench.store.calls}) == 1
        assert await bench.stored() == 1
        names = [event.name for event in bench.seen]
        assert names == [EventName.STORE_UNAVAILABLE, EventName.STORE_RECOVERED, EventName.JOB_ENQUEUED]

    run(scenario)


def test_a_query_for_workers_is_sent_again_too() -> None:
    async def scenario(bench: ClientBench) -> None:
        await bench.store.open_lease(LEASE)
        bench.store.before = [StoreUnavailable("away")]
        assert [view.id for view in await bench.client.workers()] == [LEASE.id]

    run(scenario)


def test_a_store_that_is_damaged_is_given_up_at_once() -> None:
    async def scenario(bench: ClientBench) -> None:
        bench.store.before = [StoreDamaged("malformed")] * 1000
        started = bench.clock.monotonic()
        with pytest.raises(StoreDamaged):
            await bench.client.enqueue([bench.job()])
        assert bench.clock.monotonic() - started < 1

    run(scenario)


def test_a_store_that_stays_away_is_given_up_after_thirty_seconds() -> None:
    async def scenario(bench: ClientBench) -> None:
        bench.store.before = [StoreUnavailable("away")] * 1000
        started = bench.clock.monotonic()
        with pytest.raises(StoreUnavailable):
            await bench.client.enqueue([bench.job()])
        assert 25 < bench.clock.monotonic() - started <= 30
        bench.store.before = []
        await bench.client.enqueue([bench.job()])
        assert await bench.stored() == 1

    run(scenario)


def test_an_error_that_a_retry_cannot_cure_is_raised_at_once() -> None:
    async def scenario(bench: ClientBench) -> None:
        bench.store.before = [SchemaMissing("run holdfast migrate")]
        with pytest.raises(SchemaMissing):
            await bench.client.enqueue([bench.job()])
        assert len(bench.store.calls) == 1

    run(scenario)


def test_a_caller_that_gives_up_waiting_leaves_its_neighbours_alone() -> None:
    async def scenario(bench: ClientBench) -> None:
        bench.store.opened.clear()
        sent = asyncio.ensure_future(bench.client.enqueue([bench.job()]))
        await turns()
        leaving, staying = (asyncio.ensure_future(bench.client.enqueue([bench.job()])) for _ in range(2))
        await turns()
        sent.cancel()
        leaving.cancel()
        await turns()
        bench.store.opened.set()
        await staying
        assert [size for _, size in bench.store.calls] == [1, 1]
        assert await bench.stored() == 1

    run(scenario)


def test_result_waits_for_the_job_and_raises_a_timeout() -> None:
    async def scenario(bench: ClientBench) -> None:
        assert await bench.client.result(await bench.end(Done(b'{"n":1}')), 1.0) == {"n": 1}
        job = bench.job()
        await bench.client.enqueue([job])
        with pytest.raises(TimeoutError, match=r"still available after .* s: see `holdfast jobs explain "):
            await bench.client.result(job.id, 60.0)

    run(scenario)


def test_the_result_of_a_job_that_did_not_complete_raises() -> None:
    async def scenario(bench: ClientBench) -> None:
        with pytest.raises(JobFailed, match="PERMANENT: Fail: no such repository") as failed:
            await bench.client.result(await bench.end(Fail("no such repository")), None)
        assert failed.value.reason == Reason.PERMANENT
        assert str(failed.value.error) == str(Failure("Fail", "no such repository"))
        assert [attempt.attempt for attempt in failed.value.attempts] == [1]  # type: ignore[attr-defined]
        with pytest.raises(JobCancelled, match="not needed"):
            await bench.client.result(await bench.end(Cancel("not needed")), None)
        with pytest.raises(JobNotFound):
            await bench.client.result(UUID(int=5), None)

    run(scenario)


def test_counts_contain_every_state_zeros_included() -> None:
    async def scenario(bench: ClientBench) -> None:
        assert await bench.client.counts(None) == {"": dict.fromkeys([state.value for state in State], 0)}
        assert await bench.client.counts("queue") == {}
        await bench.client.enqueue([bench.job("a"), bench.job("b", task="other"), bench.job("b")])
        assert (await bench.client.counts(None))[""]["available"] == 3
        assert {group: states["available"] for group, states in (await bench.client.counts("queue")).items()} == {"a": 1, "b": 2}
        assert {group: len(states) for group, states in (await bench.client.counts("task")).items()} == {"task": 9, "other": 9}

    run(scenario)


def test_cancelling_a_workflow_hints_the_workers_of_its_running_members_by_their_ids() -> None:
    async def scenario(bench: ClientBench) -> None:
        root, *jobs = [bench.job("q") for _ in range(3)]
        members = tuple(NewMember(job, Member(flow=root.id, node=f"n{place}")) for place, job in enumerate(jobs))
        gate = NewMember(root, Member(flow=root.id, node="root", is_gate=True))
        edges = tuple(Edge(job.id, root.id) for job in jobs)
        await bench.client.enqueue_flow(NewFlow(root=gate, members=members, edges=edges))
        await bench.store.open_lease(LEASE)
        claim = ClaimRequest(lease=LEASE.id, claim=bench.chance.uuid4(), tasks={"task": Policy()}, limit=1)
        (running,) = (await bench.store.exchange([], claim)).claims
        bench.transport.hints.clear()
        assert await bench.client.cancel([root.id]) == {root.id: State.BLOCKED}
        assert bench.transport.hints == [Hint(ids=(running.job.id,))]

    run(scenario)


def test_a_workflow_is_cancelled_although_the_store_is_unreachable_when_its_members_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(bench: ClientBench) -> None:
        root, job = bench.job("q"), bench.job("q")
        gate = NewMember(root, Member(flow=root.id, node="root", is_gate=True))
        new = NewFlow(root=gate, members=(NewMember(job, Member(flow=root.id, node="n")),), edges=(Edge(job.id, root.id),))
        await bench.client.enqueue_flow(new)
        await bench.store.open_lease(LEASE)
        await bench.store.exchange(
            [], ClaimRequest(lease=LEASE.id, claim=bench.chance.uuid4(), tasks={"task": Policy()}, limit=1)
        )

        async def unreachable(flow: UUID) -> None:
            raise StoreUnavailable("flow: no connection")

        monkeypatch.setattr(bench.store, "flow", unreachable)
        assert await bench.client.cancel([root.id]) == {root.id: State.BLOCKED}

    run(scenario)


def test_cancelling_a_running_job_hints_its_worker_by_the_jobs_id() -> None:
    async def scenario(bench: ClientBench) -> None:
        waiting, running = bench.job("q"), bench.job("q")
        await bench.client.enqueue([running])
        await bench.store.open_lease(LEASE)
        await bench.store.exchange(
            [], ClaimRequest(lease=LEASE.id, claim=bench.chance.uuid4(), tasks={"task": Policy()}, limit=1)
        )
        await bench.client.enqueue([waiting])
        bench.transport.hints.clear()
        states = await bench.client.cancel([waiting.id, running.id, UUID(int=5)])
        assert states == {waiting.id: State.CANCELLED, running.id: State.RUNNING}
        assert bench.transport.hints == [Hint(ids=(running.id,))]

    run(scenario)


def test_l11_locked_jobs_of_one_batch_keep_no_other_batch_from_its_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(bench: ClientBench) -> None:
        jobs = [bench.job("q") for _ in range(5)]
        await bench.client.enqueue(jobs)
        stuck, delete = {jobs[0].id, jobs[3].id}, bench.store.delete

        async def pass_by(ids: Sequence[UUID]) -> dict[UUID, State]:
            states = await delete([job for job in ids if job not in stuck])
            if locked := stuck.intersection(ids):
                raise StoreBusy("delete: locked", frozenset(locked))
            return states

        monkeypatch.setattr(bench.store, "delete", pass_by)
        with pytest.raises(StoreBusy) as busy:
            await bench.client.delete([job.id for job in jobs])
        assert busy.value.jobs == stuck
        assert {row.id for row in await bench.store.list(JobFilter(limit=9))} == stuck

    monkeypatch.setattr(client, "BATCH", 2)
    run(scenario)


@pytest.mark.parametrize("verb", ["cancel", "delete", "reschedule"])
def test_l11_an_operators_writes_beside_a_locked_job_are_reported(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    async def scenario(bench: ClientBench) -> None:
        waiting = [bench.job("q"), bench.job("q")]
        stuck, free = jobs = [job.id for job in waiting]
        await bench.client.enqueue(waiting)
        name, options = (
            ("request_cancel" if verb == "cancel" else verb),
            ({"delay": 0.0, "run_at": None} if verb == "reschedule" else {}),
        )
        write, asked = getattr(bench.store, name), list[list[UUID]]()

        async def pass_by(ids: Sequence[UUID], **options: object) -> dict[UUID, State]:
            asked.append([*ids])
            states = await write([job for job in ids if job != stuck], **options)
            if stuck in ids:
                raise StoreBusy(f"{name}: locked", frozenset({stuck}), states=states)
            return states  # type: ignore[no-any-return]

        monkeypatch.setattr(bench.store, name, pass_by)
        with pytest.raises(StoreBusy):
            await getattr(bench.client, verb)(jobs, **options)
        assert asked[0] == jobs
        assert set(map(tuple, asked[1:])) == {(stuck,)}, "what is done is not sent again"
        event = {"cancel": "job.cancel_requested", "delete": "job.deleted", "reschedule": "job.rescheduled"}[verb]
        assert [fields["job"] for fields in bench.fields_of(event)] == [free]

    run(scenario)


def test_a_retried_job_is_available_again() -> None:
    async def scenario(bench: ClientBench) -> None:
        job = await bench.end(Fail())
        bench.transport.hints.clear()
        assert await bench.client.retry([job, UUID(int=5)]) == ReopenAnswer({job: State.AVAILABLE})
        assert bench.transport.hints == [Hint(ids=(job,))]
        assert (await bench.client.get(job)).state is State.AVAILABLE

    run(scenario)


def test_s23_a_signal_is_sent_once_announced_and_hinted() -> None:
    async def scenario(bench: ClientBench) -> None:
        new = bench.job()
        await bench.client.enqueue([new])
        job = new.id
        bench.transport.hints.clear()
        calls = list[UUID]()
        ask = bench.store.signal

        async def signal(to: UUID, sent: Signal) -> SignalAnswer:
            calls.append(sent.call)
            answer = await ask(to, sent)
            if len(calls) == 1:
                raise StoreUnavailable("the answer was lost")
            return answer

        bench.store.signal = signal  # type: ignore[method-assign]
        assert await bench.client.signal(job, "approved", {"by": "ada"})
        assert len(calls) == 2
        assert len(set(calls)) == 1
        (kept,) = bench.store.snapshot().signals[job]
        assert (kept.name, kept.value) == ("approved", b'{"by":"ada"}')
        assert bench.transport.hints == [Hint(ids=(job,))]
        assert bench.fields_of("job.signalled") == [{"job": job, "signal": "approved"}]

    run(scenario)


def test_keyed_jobs_never_share_a_commit() -> None:
    async def scenario(bench: ClientBench) -> None:
        bench.store.opened.clear()
        jobs = [bench.job(), bench.job(key="a"), bench.job(), bench.job(key="b"), bench.job()]
        callers = [asyncio.ensure_future(bench.client.enqueue([job])) for job in jobs]
        await turns()
        bench.store.opened.set()
        await asyncio.gather(*callers)
        assert sorted(size for _, size in bench.store.calls) == [1, 1, 1, 2]

    run(scenario)


def test_a_duplicate_is_returned_but_neither_announced_nor_hinted() -> None:
    async def scenario(bench: ClientBench) -> None:
        first, second = bench.job(key="a"), bench.job(key="a")
        assert await bench.client.enqueue([first]) == EnqueueAnswer()
        bench.transport.hints.clear()
        assert (await bench.client.enqueue([second])).duplicates == {second.id: Duplicate(first.id, True)}
        assert bench.transport.hints == []
        assert [fields["job"] for fields in bench.fields_of("job.enqueued")] == [first.id]
        assert await bench.stored() == 1

    run(scenario)


def test_the_same_key_with_another_payload_is_an_error_naming_both() -> None:
    async def scenario(bench: ClientBench) -> None:
        first = bench.job(key="a")
        await bench.client.enqueue([first])
        bench.transport.hints.clear()
        with pytest.raises(UniqueConflict, match=rf"task task: job {first.id} .* key 'a' .* cancel it") as caught:
            await bench.client.enqueue([bench.job(), bench.job(key="a", payload=b"[]")])
        assert caught.value.job == first.id
        assert (bench.transport.hints, await bench.stored(), len(bench.fields_of("job.enqueued"))) == ([], 1, 1)

    run(scenario)


def test_a_keyed_enqueue_whose_answer_was_lost_is_not_a_duplicate_of_itself() -> None:
    async def scenario(bench: ClientBench) -> None:
        bench.store.after = [StoreUnavailable("no answer")]
        assert await bench.client.enqueue([bench.job(key="a")]) == EnqueueAnswer()
        assert await bench.stored() == 1

    run(scenario)


def test_the_result_of_a_stub_is_not_found_but_its_outcome_is() -> None:
    async def scenario(bench: ClientBench) -> None:
        for outcome in (Done(b"1"), Fail("no"), Cancel("no")):
            job = bench.job()
            await bench.end(outcome, structs.replace(job, policy=Policy(retention=0.0)))
            bench.clock.advance(1.0)
            assert (await bench.store.prune(10)).stubs == 1
            with pytest.raises(JobNotFound, match="retention"):
                await bench.client.result(job.id, None)
            assert (await bench.client.get(job.id)).finished_at is not None

    run(scenario)


def test_ids_are_read_in_pages_and_narrowed_by_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(bench: ClientBench) -> None:
        failed = [await bench.end(Fail("no")) for _ in range(5)]
        cancelled = await bench.end(Cancel("no"))
        waiting = [bench.job() for _ in range(3)]
        await bench.client.enqueue(waiting)
        newest_first = [job.id for job in reversed(waiting)] + [cancelled, *reversed(failed)]
        for page in (1, 2, 4, 9, 100):
            monkeypatch.setattr("holdfast._engine.client.client.BATCH", page)
            assert [*await bench.client.states(JobFilter(), None)] == newest_first
            assert [*await bench.client.states(JobFilter(reason=Reason.PERMANENT), None)] == failed[::-1]
            assert [*await bench.client.states(JobFilter(reason=Reason.PERMANENT), 2)] == failed[:2:-1]
            assert await bench.client.states(JobFilter(state=State.CANCELLED), 7) == {cancelled: State.CANCELLED}

    run(scenario)


def test_many_jobs_are_cancelled_in_batches() -> None:
    async def scenario(bench: ClientBench) -> None:
        jobs = [bench.job() for _ in range(2500)]
        await bench.client.enqueue(jobs)
        ids, sizes = [job.id for job in jobs], list[int]()
        ask = bench.store.request_cancel

        async def request_cancel(some: Sequence[UUID]) -> dict[UUID, State]:
            sizes.append(len(some))
            return await ask(some)

        bench.store.request_cancel = request_cancel  # type: ignore[method-assign]
        assert await bench.client.cancel(ids) == dict.fromkeys(ids, State.CANCELLED)
        assert sizes == [1000, 1000, 500]
        assert len(bench.fields_of("job.cancel_requested")) == 2500

    run(scenario)


def test_rescheduling_hints_workers_to_look_again() -> None:
    async def scenario(bench: ClientBench) -> None:
        finished, waiting = await bench.end(Done(b"1")), bench.job()
        await bench.client.enqueue([waiting])
        bench.transport.hints.clear()
        states = await bench.client.reschedule([finished, waiting.id, UUID(int=5)], delay=60.0, run_at=None)
        assert states == {finished: State.COMPLETED, waiting.id: State.SCHEDULED}
        assert bench.transport.hints == [Hint(ids=(waiting.id,))]
        assert bench.fields_of("job.rescheduled") == [{"job": waiting.id, "state": "scheduled"}]

    run(scenario)


def test_delete_leaves_jobs_that_a_worker_owns() -> None:
    async def scenario(bench: ClientBench) -> None:
        running, finished, waiting = bench.job(), bench.job(), bench.job()
        await bench.end(Done(b"1"), finished)
        await bench.client.enqueue([running])
        await bench.store.exchange([], ClaimRequest(lease=LEASE.id, claim=bench.chance.uuid4(), tasks={"task": POLICY}, limit=1))
        await bench.client.enqueue([waiting])
        assert await bench.client.delete([running.id, finished.id, waiting.id]) == {running.id: State.RUNNING}
        assert [fields["job"] for fields in bench.fields_of("job.deleted")] == [finished.id, waiting.id]
        assert [job.id for job in await bench.client.list(JobFilter())] == [running.id]

    run(scenario)


def test_a_resumed_queue_wakes_workers_and_a_paused_one_does_not() -> None:
    async def scenario(bench: ClientBench) -> None:
        await bench.client.pause(["a", "b"], is_paused=True)
        assert bench.transport.hints == []
        assert [queue.name for queue in await bench.client.queues() if queue.paused_at] == ["a", "b"]
        await bench.client.pause(["a", "b"], is_paused=False)
        assert bench.transport.hints == [Hint("a"), Hint("b")]
        assert [fields["queue"] for fields in bench.fields_of("queue.paused")] == ["a", "b"]
        assert [fields["queue"] for fields in bench.fields_of("queue.resumed")] == ["a", "b"]

    run(scenario)


def test_a_purge_ends_although_a_producer_keeps_enqueuing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(bench: ClientBench) -> None:
        purge = bench.store.purge

        async def purge_beside_a_producer(*asked: Any, **named: Any) -> Purged:
            answer = await purge(*asked, **named)
            bench.clock.advance(0.001)
            await bench.client.enqueue([bench.job("a"), bench.job("b")])
            return answer

        monkeypatch.setattr(bench.store, "purge", purge_beside_a_producer)
        await bench.client.enqueue([*(bench.job("a") for _ in range(1001)), bench.job("b")])
        assert await bench.client.purge(["a", "b"]) == 1002
        assert await bench.stored() == 2 * 5
        assert [fields["jobs"] for fields in bench.fields_of("queue.purged")] == [1001, 1]

    run(scenario)


def test_purging_and_pruning_go_on_until_nothing_is_left() -> None:
    async def scenario(bench: ClientBench) -> None:
        await bench.client.enqueue([bench.job("a") for _ in range(2300)])
        await bench.client.enqueue([bench.job("b")])
        assert await bench.client.purge(["a"]) == 2300
        assert await bench.stored() == 1
        assert bench.fields_of("queue.purged") == [{"queue": "a", "jobs": 2300}]
        await bench.client.cancel([job.id for job in await bench.store.list(JobFilter())])
        bench.clock.advance(8 * 86400.0)
        pruned = await bench.client.prune()
        assert (pruned.jobs, pruned.receipts, await bench.stored()) == (1, 2, 0)
        assert bench.fields_of("store.pruned") == [{"jobs": 1, "stubs": 0, "receipts": 2, "leases": 0, "attempts": 0, "beats": 0}]
        assert await bench.client.prune() == Pruned()

    run(scenario)
