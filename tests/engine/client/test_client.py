"""Enqueue is durable, safe to send again and shares commits; waiting for results ends as it should."""

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
from holdfast._core.outcome import Cancel, Done, Fail, Outcome
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest, JobFilter, NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._engine.client import client
from holdfast._engine.client.client import Client
from holdfast._engine.environment import Environment
from holdfast._engine.events import Event, EventName, Events
from holdfast._ports.transport import Hint
from holdfast.errors import JobCancelled, JobFailed, JobNotFound, SchemaMissing, StoreBusy, StoreUnavailable, UniqueConflict
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance, FakeClock

POLICY = Policy()
LEASE = NewLease(UUID(int=1), "worker", ProcessIdentity("host", 1), LeaseTiming.of("30s"))


class HastyClock(FakeClock):
    """Sleeping passes the time at once."""

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)


class Door(MemoryStore):
    """A store whose enqueues can be held up, and fail before or after they happen."""

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


class Ears:
    """A transport that remembers."""

    deliveries = None

    def __init__(self) -> None:
        self.heard: list[Hint] = []

    async def publish(self, hints: Sequence[Hint]) -> None:
        self.heard += hints

    async def subscribe(self, wake: Callable[[Hint], None]) -> None: ...

    async def close(self) -> None: ...


class Desk:
    """A client and everything around it."""

    def __init__(self) -> None:
        self.clock = HastyClock()
        self.store = Door(self.clock)
        self.transport = Ears()
        self.events = Events()
        self.seen: list[Event] = []
        self.events.on("*", self.seen.append)
        self.chance = FakeChance()
        self.client = Client(Environment(self.store, self.transport, self.clock, self.chance, self.events))

    def job(self, queue: str = "default", task: str = "task", key: str | None = None, payload: bytes = b"{}") -> NewJob:
        return NewJob(id=self.chance.uuid7(), task=task, payload=payload, policy=POLICY, queue=queue, unique_key=key)

    def said(self, name: str) -> list[dict[str, Any]]:
        return [event.fields for event in self.seen if event.name == name]

    async def stored(self) -> int:
        return len(await self.store.list(JobFilter(limit=10_000)))

    async def end(self, outcome: Outcome, job: NewJob | None = None) -> UUID:
        """A job that was enqueued, claimed and settled so."""
        job = job or self.job()
        await self.client.enqueue([job])
        await self.store.open_lease(LEASE)
        request = ClaimRequest(lease=LEASE.id, claim=self.chance.uuid4(), tasks={"task": job.policy}, limit=10)
        (claim,) = (await self.store.exchange([], request)).claims
        move: Transition = finish(claim.job, outcome, jitter=0.0)
        await self.store.exchange([move])
        return job.id


def run(scenario: Callable[[Desk], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await scenario(Desk())

    asyncio.run(main())


async def turns(count: int = 5) -> None:
    for _ in range(count):
        turn = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turn.set_result, None)
        await turn


def test_an_enqueue_is_durable_announced_and_hinted_when_it_returns() -> None:
    async def scenario(desk: Desk) -> None:
        jobs = [desk.job("a"), desk.job("b"), desk.job("a")]
        await desk.client.enqueue(jobs)
        assert await desk.stored() == 3
        assert desk.transport.heard == [Hint("a"), Hint("b")]
        assert [event.fields["job"] for event in desk.seen if event.name is EventName.JOB_ENQUEUED] == [job.id for job in jobs]

    run(scenario)


def test_nothing_to_enqueue_asks_nobody() -> None:
    async def scenario(desk: Desk) -> None:
        await desk.client.enqueue([])
        assert desk.store.calls == []

    run(scenario)


def test_callers_of_the_same_moment_share_commits_and_nobody_waits_for_a_second_one() -> None:
    async def scenario(desk: Desk) -> None:
        desk.store.opened.clear()

        async def enqueue_thrice() -> None:
            for _ in range(3):
                await desk.client.enqueue([desk.job()])

        callers = [asyncio.ensure_future(enqueue_thrice()) for _ in range(100)]
        await turns()
        desk.store.opened.set()
        await asyncio.gather(*callers)
        assert [size for _, size in desk.store.calls] == [1, 100, 100, 99]

    run(scenario)


def test_one_caller_alone_waits_for_nothing_but_its_own_write() -> None:
    async def scenario(desk: Desk) -> None:
        for _ in range(3):
            with pytest.raises(StopIteration):  # no turn of the loop: this store answers at once
                desk.client.enqueue([desk.job()]).send(None)
        assert [size for _, size in desk.store.calls] == [1, 1, 1]

    run(scenario)


def test_callers_that_come_while_a_write_is_on_its_way_share_the_next() -> None:
    async def scenario(desk: Desk) -> None:
        desk.store.opened.clear()
        callers = [asyncio.ensure_future(desk.client.enqueue([desk.job()]))]
        await turns()
        callers += [asyncio.ensure_future(desk.client.enqueue([desk.job()])) for _ in range(9)]
        await turns()
        assert not any(caller.done() for caller in callers)
        desk.store.opened.set()
        await asyncio.gather(*callers)
        assert [size for _, size in desk.store.calls] == [1, 9]
        assert len({call for call, _ in desk.store.calls}) == 2

    run(scenario)


def test_a_call_is_never_split_and_a_shared_commit_stays_small() -> None:
    async def scenario(desk: Desk) -> None:
        sizes = (600, 600, 3000, 1)
        await asyncio.gather(*(desk.client.enqueue([desk.job() for _ in range(size)]) for size in sizes))
        assert [size for _, size in desk.store.calls] == [600, 600, 3000, 1]

    run(scenario)


def test_a_lost_answer_is_asked_again_under_the_same_call_and_counts_once() -> None:
    async def scenario(desk: Desk) -> None:
        desk.store.before = [StoreUnavailable("away")]
        desk.store.after = [StoreUnavailable("no answer"), StoreUnavailable("no answer")]
        await desk.client.enqueue([desk.job()])
        assert len(desk.store.calls) == 4
        assert len({call for call, _ in desk.store.calls}) == 1
        assert await desk.stored() == 1
        names = [event.name for event in desk.seen]
        assert names == [EventName.STORE_UNAVAILABLE, EventName.STORE_RECOVERED, EventName.JOB_ENQUEUED]

    run(scenario)


def test_workers_are_asked_for_again_too() -> None:
    async def scenario(desk: Desk) -> None:
        await desk.store.open_lease(LEASE)
        desk.store.before = [StoreUnavailable("away")]
        assert [view.id for view in await desk.client.workers()] == [LEASE.id]

    run(scenario)


def test_a_store_that_stays_away_is_given_up_after_thirty_seconds() -> None:
    async def scenario(desk: Desk) -> None:
        desk.store.before = [StoreUnavailable("away")] * 1000
        started = desk.clock.monotonic()
        with pytest.raises(StoreUnavailable):
            await desk.client.enqueue([desk.job()])
        assert 25 < desk.clock.monotonic() - started <= 30
        desk.store.before = []
        await desk.client.enqueue([desk.job()])
        assert await desk.stored() == 1

    run(scenario)


def test_an_error_that_asking_again_cannot_cure_is_raised_at_once() -> None:
    async def scenario(desk: Desk) -> None:
        desk.store.before = [SchemaMissing("run holdfast migrate")]
        with pytest.raises(SchemaMissing):
            await desk.client.enqueue([desk.job()])
        assert len(desk.store.calls) == 1

    run(scenario)


def test_a_caller_that_gives_up_waiting_leaves_its_neighbours_alone() -> None:
    async def scenario(desk: Desk) -> None:
        desk.store.opened.clear()
        sent = asyncio.ensure_future(desk.client.enqueue([desk.job()]))
        await turns()
        gone, stays = (asyncio.ensure_future(desk.client.enqueue([desk.job()])) for _ in range(2))
        await turns()
        sent.cancel()
        gone.cancel()
        await turns()
        desk.store.opened.set()
        await stays
        assert [size for _, size in desk.store.calls] == [1, 1]
        assert await desk.stored() == 1

    run(scenario)


def test_a_result_is_waited_for() -> None:
    async def scenario(desk: Desk) -> None:
        assert await desk.client.result(await desk.end(Done(b'{"n":1}')), 1.0) == {"n": 1}
        job = desk.job()
        await desk.client.enqueue([job])
        with pytest.raises(TimeoutError, match="still available"):
            await desk.client.result(job.id, 60.0)

    run(scenario)


def test_a_job_that_did_not_complete_raises_instead() -> None:
    async def scenario(desk: Desk) -> None:
        with pytest.raises(JobFailed, match="PERMANENT: Fail: no such repository") as failed:
            await desk.client.result(await desk.end(Fail("no such repository")), None)
        assert failed.value.reason == Reason.PERMANENT
        assert failed.value.error == Failure("Fail", "no such repository")
        assert [attempt.attempt for attempt in failed.value.attempts] == [1]  # type: ignore[attr-defined]
        with pytest.raises(JobCancelled, match="not needed"):
            await desk.client.result(await desk.end(Cancel("not needed")), None)
        with pytest.raises(JobNotFound):
            await desk.client.result(UUID(int=5), None)

    run(scenario)


def test_counts_hold_every_state_zeros_included() -> None:
    async def scenario(desk: Desk) -> None:
        assert await desk.client.counts(None) == {"": dict.fromkeys([state.value for state in State], 0)}
        assert await desk.client.counts("queue") == {}
        await desk.client.enqueue([desk.job("a"), desk.job("b", task="other"), desk.job("b")])
        assert (await desk.client.counts(None))[""]["available"] == 3
        assert {group: states["available"] for group, states in (await desk.client.counts("queue")).items()} == {"a": 1, "b": 2}
        assert {group: len(states) for group, states in (await desk.client.counts("task")).items()} == {"task": 9, "other": 9}

    run(scenario)


def test_cancelling_what_runs_tells_its_worker_by_id() -> None:
    async def scenario(desk: Desk) -> None:
        waiting, running = desk.job("q"), desk.job("q")
        await desk.client.enqueue([running])
        await desk.store.open_lease(LEASE)
        await desk.store.exchange([], ClaimRequest(lease=LEASE.id, claim=desk.chance.uuid4(), tasks={"task": Policy()}, limit=1))
        await desk.client.enqueue([waiting])
        desk.transport.heard.clear()
        states = await desk.client.cancel([waiting.id, running.id, UUID(int=5)])
        assert states == {waiting.id: State.CANCELLED, running.id: State.RUNNING}
        assert desk.transport.heard == [Hint(ids=(running.id,))]

    run(scenario)


def test_l11_locked_jobs_of_one_batch_keep_no_other_batch_from_its_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(desk: Desk) -> None:
        jobs = [desk.job("q") for _ in range(5)]
        await desk.client.enqueue(jobs)
        stuck, delete = {jobs[0].id, jobs[3].id}, desk.store.delete

        async def pass_by(ids: Sequence[UUID]) -> dict[UUID, State]:
            states = await delete([job for job in ids if job not in stuck])
            if locked := stuck.intersection(ids):
                raise StoreBusy("delete: locked", frozenset(locked))
            return states

        monkeypatch.setattr(desk.store, "delete", pass_by)
        with pytest.raises(StoreBusy) as busy:
            await desk.client.delete([job.id for job in jobs])
        assert busy.value.jobs == stuck
        assert {row.id for row in await desk.store.list(JobFilter(limit=9))} == stuck

    monkeypatch.setattr(client, "BATCH", 2)
    run(scenario)


@pytest.mark.parametrize("verb", ["cancel", "delete", "reschedule"])
def test_l11_what_an_operator_did_beside_a_locked_job_is_told(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    async def scenario(desk: Desk) -> None:
        waiting = [desk.job("q"), desk.job("q")]
        stuck, free = jobs = [job.id for job in waiting]
        await desk.client.enqueue(waiting)
        name, options = (
            ("request_cancel" if verb == "cancel" else verb),
            ({"delay": 0.0, "run_at": None} if verb == "reschedule" else {}),
        )
        write, asked = getattr(desk.store, name), list[list[UUID]]()

        async def pass_by(ids: Sequence[UUID], **options: object) -> dict[UUID, State]:
            asked.append([*ids])
            states = await write([job for job in ids if job != stuck], **options)
            if stuck in ids:
                raise StoreBusy(f"{name}: locked", frozenset({stuck}), states=states)
            return states  # type: ignore[no-any-return]

        monkeypatch.setattr(desk.store, name, pass_by)
        with pytest.raises(StoreBusy):
            await getattr(desk.client, verb)(jobs, **options)
        assert asked[0] == jobs
        assert set(map(tuple, asked[1:])) == {(stuck,)}, "what is done is not sent again"
        told = {"cancel": "job.cancel_requested", "delete": "job.deleted", "reschedule": "job.rescheduled"}[verb]
        assert [fields["job"] for fields in desk.said(told)] == [free]

    run(scenario)


def test_a_retried_job_is_available_again() -> None:
    async def scenario(desk: Desk) -> None:
        job = await desk.end(Fail())
        desk.transport.heard.clear()
        assert await desk.client.retry([job, UUID(int=5)]) == ReopenAnswer({job: State.AVAILABLE})
        assert desk.transport.heard == [Hint(ids=(job,))]
        assert (await desk.client.get(job)).state is State.AVAILABLE

    run(scenario)


def test_keyed_jobs_never_share_a_commit() -> None:
    async def scenario(desk: Desk) -> None:
        desk.store.opened.clear()
        jobs = [desk.job(), desk.job(key="a"), desk.job(), desk.job(key="b"), desk.job()]
        callers = [asyncio.ensure_future(desk.client.enqueue([job])) for job in jobs]
        await turns()
        desk.store.opened.set()
        await asyncio.gather(*callers)
        assert sorted(size for _, size in desk.store.calls) == [1, 1, 1, 2]

    run(scenario)


def test_a_duplicate_is_answered_neither_announced_nor_hinted() -> None:
    async def scenario(desk: Desk) -> None:
        first, second = desk.job(key="a"), desk.job(key="a")
        assert await desk.client.enqueue([first]) == EnqueueAnswer()
        desk.transport.heard.clear()
        assert (await desk.client.enqueue([second])).duplicates == {second.id: Duplicate(first.id, True)}
        assert desk.transport.heard == []
        assert [fields["job"] for fields in desk.said("job.enqueued")] == [first.id]
        assert await desk.stored() == 1

    run(scenario)


def test_the_same_key_with_another_payload_is_an_error_naming_both() -> None:
    async def scenario(desk: Desk) -> None:
        first = desk.job(key="a")
        await desk.client.enqueue([first])
        desk.transport.heard.clear()
        with pytest.raises(UniqueConflict, match=rf"task task: job {first.id} .* key 'a' .* cancel it") as caught:
            await desk.client.enqueue([desk.job(), desk.job(key="a", payload=b"[]")])
        assert caught.value.job == first.id
        assert (desk.transport.heard, await desk.stored(), len(desk.said("job.enqueued"))) == ([], 1, 1)

    run(scenario)


def test_a_keyed_enqueue_whose_answer_was_lost_is_no_duplicate_of_itself() -> None:
    async def scenario(desk: Desk) -> None:
        desk.store.after = [StoreUnavailable("no answer")]
        assert await desk.client.enqueue([desk.job(key="a")]) == EnqueueAnswer()
        assert await desk.stored() == 1

    run(scenario)


def test_the_result_of_a_stub_is_not_found_but_its_outcome_is() -> None:
    async def scenario(desk: Desk) -> None:
        for outcome in (Done(b"1"), Fail("no"), Cancel("no")):
            job = desk.job()
            await desk.end(outcome, structs.replace(job, policy=Policy(retention=0.0)))
            desk.clock.advance(1.0)
            assert (await desk.store.prune(10)).stubs == 1
            with pytest.raises(JobNotFound, match="retention"):
                await desk.client.result(job.id, None)
            assert (await desk.client.get(job.id)).finished_at is not None

    run(scenario)


def test_ids_are_read_in_pages_and_narrowed_by_reason() -> None:
    async def scenario(desk: Desk) -> None:
        failed = [await desk.end(Fail("no")) for _ in range(5)]
        cancelled = await desk.end(Cancel("no"))
        waiting = [desk.job() for _ in range(3)]
        await desk.client.enqueue(waiting)
        newest_first = [job.id for job in reversed(waiting)] + [cancelled, *reversed(failed)]
        for page in (1, 2, 4, 9, 100):
            assert await desk.client.ids(JobFilter(limit=page), None, None) == newest_first
            assert await desk.client.ids(JobFilter(limit=page), Reason.PERMANENT, None) == failed[::-1]
            assert await desk.client.ids(JobFilter(limit=page), Reason.PERMANENT, 2) == failed[:2:-1]
            assert await desk.client.ids(JobFilter(limit=page, state=State.CANCELLED), None, 7) == [cancelled]

    run(scenario)


def test_many_are_moved_a_batch_at_a_time() -> None:
    async def scenario(desk: Desk) -> None:
        jobs = [desk.job() for _ in range(2500)]
        await desk.client.enqueue(jobs)
        ids, sizes = [job.id for job in jobs], list[int]()
        ask = desk.store.request_cancel

        async def request_cancel(some: Sequence[UUID]) -> dict[UUID, State]:
            sizes.append(len(some))
            return await ask(some)

        desk.store.request_cancel = request_cancel  # type: ignore[method-assign]
        assert await desk.client.cancel(ids) == dict.fromkeys(ids, State.CANCELLED)
        assert sizes == [1000, 1000, 500]
        assert len(desk.said("job.cancel_requested")) == 2500

    run(scenario)


def test_rescheduling_tells_workers_to_look_again() -> None:
    async def scenario(desk: Desk) -> None:
        finished, waiting = await desk.end(Done(b"1")), desk.job()
        await desk.client.enqueue([waiting])
        desk.transport.heard.clear()
        states = await desk.client.reschedule([finished, waiting.id, UUID(int=5)], delay=60.0, run_at=None)
        assert states == {finished: State.COMPLETED, waiting.id: State.SCHEDULED}
        assert desk.transport.heard == [Hint(ids=(waiting.id,))]
        assert desk.said("job.rescheduled") == [{"job": waiting.id, "state": "scheduled"}]

    run(scenario)


def test_deleting_leaves_what_somebody_owns() -> None:
    async def scenario(desk: Desk) -> None:
        running, finished, waiting = desk.job(), desk.job(), desk.job()
        await desk.end(Done(b"1"), finished)
        await desk.client.enqueue([running])
        await desk.store.exchange([], ClaimRequest(lease=LEASE.id, claim=desk.chance.uuid4(), tasks={"task": POLICY}, limit=1))
        await desk.client.enqueue([waiting])
        assert await desk.client.delete([running.id, finished.id, waiting.id]) == {running.id: State.RUNNING}
        assert [fields["job"] for fields in desk.said("job.deleted")] == [finished.id, waiting.id]
        assert [job.id for job in await desk.client.list(JobFilter())] == [running.id]

    run(scenario)


def test_a_resumed_queue_wakes_workers_and_a_paused_one_does_not() -> None:
    async def scenario(desk: Desk) -> None:
        await desk.client.pause(["a", "b"], is_paused=True)
        assert desk.transport.heard == []
        assert [queue.name for queue in await desk.client.queues() if queue.paused_at] == ["a", "b"]
        await desk.client.pause(["a", "b"], is_paused=False)
        assert desk.transport.heard == [Hint("a"), Hint("b")]
        assert [fields["queue"] for fields in desk.said("queue.paused")] == ["a", "b"]
        assert [fields["queue"] for fields in desk.said("queue.resumed")] == ["a", "b"]

    run(scenario)


def test_a_purge_ends_although_a_producer_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(desk: Desk) -> None:
        purge = desk.store.purge

        async def purge_beside_a_producer(*asked: Any) -> Purged:
            answer = await purge(*asked)
            desk.clock.advance(0.001)
            await desk.client.enqueue([desk.job("a"), desk.job("b")])
            return answer

        monkeypatch.setattr(desk.store, "purge", purge_beside_a_producer)
        await desk.client.enqueue([*(desk.job("a") for _ in range(1001)), desk.job("b")])
        assert await desk.client.purge(["a", "b"]) == 1002
        assert await desk.stored() == 2 * 5
        assert [fields["jobs"] for fields in desk.said("queue.purged")] == [1001, 1]

    run(scenario)


def test_purging_and_pruning_go_on_until_nothing_is_left() -> None:
    async def scenario(desk: Desk) -> None:
        await desk.client.enqueue([desk.job("a") for _ in range(2300)])
        await desk.client.enqueue([desk.job("b")])
        assert await desk.client.purge(["a"]) == 2300
        assert await desk.stored() == 1
        assert desk.said("queue.purged") == [{"queue": "a", "jobs": 2300}]
        await desk.client.cancel([job.id for job in await desk.store.list(JobFilter())])
        desk.clock.advance(8 * 86400.0)
        pruned = await desk.client.prune()
        assert (pruned.jobs, pruned.receipts, await desk.stored()) == (1, 2, 0)
        assert desk.said("store.pruned") == [{"jobs": 1, "stubs": 0, "receipts": 2, "leases": 0, "attempts": 0}]
        assert await desk.client.prune() == Pruned()

    run(scenario)
