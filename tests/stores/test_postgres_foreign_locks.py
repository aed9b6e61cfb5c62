"""A session that forgot to end its transaction delays the rows it has locked, and nothing else."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from msgspec import structs

from holdfast._core.answers import Answer
from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, Transition, deadline_exceeded_elsewhere
from holdfast._core.outcome import Cancel, Snooze
from holdfast._core.policy import RETENTION_FLOOR, Policy
from holdfast._core.requests import AttemptNote, JobFilter, ProgressUpdate, Steer, SteerVerb
from holdfast.databases.postgres import session_settings as sessions
from holdfast.errors import StoreBusy
from holdfast.stores.postgres import moves as moving
from holdfast.stores.postgres.parameters import INLINE
from holdfast.stores.postgres.store import PostgresStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contracts.scene import EARLY, PROCESS, TTL, Scene, answered, done, play, raised, rescued
from tests.stores.postgres_concurrent_sessions import Stage, locked, paused, rival, waits
from tests.stores.postgres_databases import Home

CRASH = LeaseEnd(RescueReason.CRASHED)
GRACE = 20.0
LONG = b"x" * (INLINE + 1)
STRENGTHS = ("KEY SHARE", "SHARE", "NO KEY UPDATE", "UPDATE")
BUSY, APPLIED, LOST = Answer.BUSY, Answer.APPLIED, Answer.LOST
OUTCOMES: dict[str, Callable[[Any], Transition]] = {
    "done": done,
    "raised": lambda active: structs.replace(raised(active), delay=0.0),
    "cancelled": lambda active: answered(active, Cancel("no")),
    "snoozed": lambda active: answered(active, Snooze(for_="1s")),
}


@pytest.fixture
def hurried_home(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """Return a home whose connections wait at most a tenth of a second for a lock."""
    monkeypatch.setitem(sessions._SESSION, "lock_timeout", "100ms")
    home.leave()
    yield home
    home.leave()


async def at_once(home: Home, call: Any) -> Any:
    """Return what a call answers, and fail if it waits for a lock of another session."""
    asking = asyncio.ensure_future(call)
    assert not await waits(home, asking)
    return await asking


# operators


@pytest.mark.parametrize(
    ("place", "how", "becomes"),
    [
        ("pending", Steer(SteerVerb.RESCHEDULE, delay=50.0), State.SCHEDULED),
        ("active", Steer(SteerVerb.CANCEL), State.RUNNING),
        ("finished", Steer(SteerVerb.REOPEN), State.AVAILABLE),
    ],
)
def test_l11_a_locked_job_is_left_alone_by_a_verb_with_a_selector(home: Home, place: str, how: Steer, becomes: State) -> None:
    async def act(at: Scene) -> None:
        jobs = list(await at.enqueue(at.new(), at.new(), at.new())) if place == "pending" else []
        for _ in range(0 if jobs else 3):
            active = await at.running()
            if place == "finished":
                await at.settle(done(active))
            jobs.append(active.id)
        stuck, free, unnamed = jobs
        was = [await at.row(stuck), await at.row(unnamed)]
        with locked(home, place, f"id = '{stuck}'"):
            answer = await at_once(home, at.store.steer(how, [stuck, free], JobFilter(task="task")))
        assert (answer.states, answer.left) == ({stuck: was[0].state, free: becomes}, {stuck})
        assert [await at.row(stuck), await at.row(unnamed)] == was
        assert (await at.row(free)).cancel_requested is (place == "active")

    play(Stage(home), act)


# settling


@pytest.mark.parametrize("lock", STRENGTHS)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_l11_a_locked_job_delays_its_own_outcome_and_no_siblings(home: Home, outcome: str, lock: str) -> None:
    async def act(at: Scene) -> None:
        stuck, free, moves = await at.running(key="k"), await at.running(key="l"), OUTCOMES[outcome]
        with locked(home, "active", f"id = '{stuck.id}'", lock):
            assert await at_once(home, at.settle(moves(stuck), moves(free))) == (BUSY, APPLIED)
            assert await at.state(stuck.id) is State.RUNNING
        assert await at.settle(moves(stuck), moves(free)) == (APPLIED, APPLIED)

    play(Stage(home), act)


@pytest.mark.parametrize("lock", STRENGTHS)
def test_l11_a_locked_job_delays_no_sibling_that_is_settled_together_with_a_claim(home: Home, lock: str) -> None:
    async def act(at: Scene) -> None:
        stuck, free, other = await at.running(), await at.running(), await at.running()
        (job,) = await at.enqueue(at.new())
        request = at.request(await at.lease())
        transitions = [done(stuck), done(free), raised(other)]
        with locked(home, "active", f"id = '{stuck.id}'", lock):
            answer = await at_once(home, at.store.exchange(transitions, request))
            assert answer.answers == (BUSY, APPLIED, APPLIED)
            assert [claim.job.id for claim in answer.claims] == [job]
        assert await at.settle(*transitions) == (APPLIED, APPLIED, APPLIED)

    play(Stage(home), act)


@pytest.mark.parametrize("outcome", ["done", "raised for the last time", "marked"])
@pytest.mark.parametrize("is_claiming", [False, True])
def test_l11_a_locked_unique_key_delays_its_own_job_and_no_other(home: Home, outcome: str, is_claiming: bool) -> None:
    async def act(at: Scene) -> None:
        policy = Policy() if outcome == "marked" else Policy(max_attempts=1)
        await at.enqueue(at.new(), at.new())  # so that there is something to claim
        stuck, free, plain = (
            await at.running(key="k", policy=policy),
            await at.running(key="l", policy=policy),
            await at.running(),
        )
        active_jobs = (stuck, free, plain)
        if outcome == "marked":
            await at.store.request_cancel([active.id for active in active_jobs])
        transitions = [done(active) if outcome == "done" else raised(active) for active in active_jobs]
        request = at.request(await at.lease()) if is_claiming else None
        with locked(home, "unique_keys", "key = 'k'"):
            found = await at_once(home, at.store.exchange(transitions, request))
            assert found.answers == (BUSY, APPLIED, APPLIED)
            assert home.sql("SELECT key FROM holdfast.unique_keys") == [("k",)]
        assert await at.settle(*transitions) == (APPLIED, APPLIED, APPLIED)
        assert home.sql("SELECT key FROM holdfast.unique_keys") == []

    play(Stage(home), act)


def test_l11_a_locked_unique_key_does_not_delay_a_job_that_keeps_it(home: Home) -> None:
    async def act(at: Scene) -> None:
        active = await at.running(key="k")
        with locked(home, "unique_keys", "key = 'k'"):
            assert await at_once(home, at.settle(raised(active))) == (APPLIED,)
        assert home.sql("SELECT job FROM holdfast.unique_keys") == [(active.id,)]

    play(Stage(home), act)


def test_s11_a_job_settles_when_an_operator_has_deleted_its_key(home: Home) -> None:
    async def act(at: Scene) -> None:
        active = await at.running(key="k")
        home.sql("DELETE FROM holdfast.unique_keys")
        assert await at.settle(done(active)) == (APPLIED,)

    play(Stage(home), act)


def test_l11_a_locked_record_of_an_earlier_attempt_delays_its_own_job_and_no_other(home: Home) -> None:
    async def act(at: Scene) -> None:
        active_jobs = []
        for _ in range(2):
            first = await at.running()
            await at.settle(structs.replace(raised(first), delay=0.0))
            policy = Policy(retention=2 * 86400.0)
            (claim,) = await at.claim(await at.lease(), ids=[first.id], policy=policy)
            active_jobs.append(claim.job)
        stuck, free = active_jobs
        with locked(home, "attempts", f"job = '{stuck.id}'"):
            assert await at_once(home, at.settle(raised_for_good(stuck), raised_for_good(free))) == (BUSY, APPLIED)
        assert await at.settle(raised_for_good(stuck)) == (APPLIED,)
        assert home.sql("SELECT count(*) FROM holdfast.attempts WHERE delete_day = '-infinity'") == [(0,)]

    play(Stage(home), act)


def raised_for_good(active: Any) -> Transition:
    return raised(structs.replace(active, policy=structs.replace(active.policy, max_attempts=1)))


def test_l11_a_locked_record_does_not_delay_a_job_that_has_not_ended(home: Home) -> None:
    async def act(at: Scene) -> None:
        first = await at.running()
        await at.settle(structs.replace(raised(first), delay=0.0))
        (claim,) = await at.claim(await at.lease(), ids=[first.id])
        with locked(home, "attempts"):
            assert await at_once(home, at.settle(raised(claim.job))) == (APPLIED,)

    play(Stage(home), act)


@pytest.mark.parametrize("is_claiming", [False, True])
def test_l4_a_settle_that_is_under_way_locks_nothing_of_other_jobs(home: Home, is_claiming: bool) -> None:
    async def act(at: Scene) -> None:
        active_jobs = []
        for key in "kl":
            active_jobs.append(await at.running(key=key))
            if not is_claiming:  # else it is a first-try success, which is settled together with the claim
                await at.settle(structs.replace(raised(active_jobs[-1]), delay=0.0))
                (claim,) = await at.claim(await at.lease(), ids=[active_jobs[-1].id])
                active_jobs[-1] = claim.job
        await at.enqueue(at.new(), at.new())
        requests = [at.request(await at.lease()) if is_claiming else None for _ in range(2)]
        async with rival(home) as other:
            assert (await other.exchange([done(active_jobs[0])], requests[0])).answers == (APPLIED,)
            found = await at_once(home, at.store.exchange([done(active_jobs[1])], requests[1]))
            assert found.answers == (APPLIED,)

    play(Stage(home), act)


def test_l4_an_expiry_that_is_under_way_locks_no_key_of_other_jobs(home: Home) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(at.new(expires_in=1.0, key="k"))
        active = await at.running(key="l")
        at.advance(2.0)
        async with rival(home) as other:
            assert len(await other.expire(10)) == 1
            assert await at_once(home, at.settle(done(active))) == (APPLIED,)

    play(Stage(home), act)


def test_l4_a_beat_that_is_under_way_locks_no_other_lease(home: Home) -> None:
    async def act(at: Scene) -> None:
        mine, other = await at.lease(), await at.lease()
        async with rival(home) as owner:
            assert (await owner.beat([other])).alive == {other}
            answer = await at_once(home, at.store.beat([mine]))
            assert (answer.alive, answer.gone) == ({mine}, frozenset())

    play(Stage(home), act)


# rescues


def test_s5_a_rescue_whose_precondition_fails_is_lost_and_a_locked_one_is_busy(home: Home) -> None:
    async def act(at: Scene) -> None:
        alive, stuck, free = await at.running(), await at.running(), await at.running()
        for active in (stuck, free):
            await at.store.end_lease(active.lease, CRASH)
        moves = [rescued(active, CRASH) for active in (alive, stuck, free)]
        with locked(home, "active", f"id = '{stuck.id}'", "KEY SHARE"):
            assert await at_once(home, at.settle(*moves)) == (LOST, BUSY, APPLIED)
        assert await at.settle(*moves) == (LOST, APPLIED, APPLIED)

    play(Stage(home), act)


def test_s5_a_job_that_reports_progress_while_it_is_judged_stalled_is_judged_again(home: Home) -> None:
    """The judging statement begins before the progress is committed, and locks the row after it."""

    async def act(at: Scene) -> None:
        policy = Policy(progress_within=5.0)
        moving, stalled = await at.running(policy=policy), await at.running(policy=policy)
        at.advance(5.0 + TTL + GRACE + 1.0)
        for active in (moving, stalled):
            await at.store.beat([active.lease])
        moves = [deadline_exceeded_elsewhere(active, RescueReason.STALLED, jitter=0.0) for active in (moving, stalled)]
        with paused(home, at.store, "settle"):
            settling = asyncio.ensure_future(at.settle(*moves))
            assert await waits(home, settling)
            await at.another().report([ProgressUpdate(job=moving.id, token=moving.token, stage="half")])
        assert await settling == (BUSY, APPLIED)
        assert await at.settle(*moves) == (LOST, APPLIED)
        assert await at.state(moving.id) is State.RUNNING

    play(Stage(home), act)


@pytest.mark.parametrize("lock", STRENGTHS)
def test_l8_a_locked_job_past_its_limit_is_not_listed_and_hides_no_other(home: Home, lock: str) -> None:
    async def act(at: Scene) -> None:
        policy = Policy(timeout=5.0)
        stuck, free = await at.running(policy=policy), await at.running(policy=policy)
        at.advance(5.0 + TTL + GRACE + 1.0)
        for active in (stuck, free):
            await at.store.beat([active.lease])
        with locked(home, "active", f"id = '{stuck.id}'", lock):
            assert [each.job.id for each in await at_once(home, at.store.overdue(1))] == [free.id]
        assert [each.job.id for each in await at.store.overdue(1)] == [stuck.id]

    play(Stage(home), act)


# leases


def test_l11_outcomes_of_a_worker_whose_lease_is_locked_land_and_it_claims_nothing(home: Home) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        (job,) = await at.enqueue(at.new())
        lease = await at.lease()
        for ids in ([job], None):
            (waiting,) = [active] if ids else [await at.running()]
            with locked(home, "leases", f"id = '{lease}'"):
                found = await at_once(home, at.store.exchange([done(waiting)], at.request(lease, ids=ids)))
                assert (found.answers, found.claims) == ((APPLIED,), ())
        assert [claim.job.id for claim in await at.claim(lease)] == [job]

    play(Stage(home), act)


@pytest.mark.parametrize("lock", ["SHARE", "NO KEY UPDATE", "UPDATE"])
def test_l11_a_beat_renews_the_siblings_of_a_locked_lease_which_is_neither_alive_nor_gone(home: Home, lock: str) -> None:
    async def act(at: Scene) -> None:
        stuck, free, ended = await at.lease(), await at.lease(), await at.lease()
        await at.store.end_lease(ended, CRASH)
        at.advance(1.0)
        with locked(home, "leases", f"id = '{stuck}'", lock):
            answer = await at_once(home, at.store.beat([stuck, free, ended]))
        assert (answer.alive, answer.gone, answer.elapsed) == ({free}, {ended}, pytest.approx(1.0, abs=0.5))
        assert (await at.store.beat([stuck, free])).alive == {stuck, free}

    play(Stage(home), act)


def test_l4_a_beat_of_one_lease_asks_nothing_of_another_that_is_locked(home: Home) -> None:
    async def act(at: Scene) -> None:
        mine, other = await at.lease(), await at.lease()
        with locked(home, "leases", f"id = '{other}'"):
            answer = await at_once(home, at.store.beat([mine]))
        assert (answer.alive, answer.gone) == ({mine}, frozenset())

    play(Stage(home), act)


@pytest.mark.parametrize("lock", STRENGTHS)
def test_l11_an_expired_lease_that_is_locked_is_passed_by_and_ends_later(home: Home, lock: str) -> None:
    async def act(at: Scene) -> None:
        stuck, free = await at.lease(), await at.lease()
        at.advance(TTL + 1.0)
        seen = {view.id: view.seen for view in await at.store.expired(10)}
        with locked(home, "leases", f"id = '{stuck}'", lock):
            assert await at_once(home, at.store.end_lease(stuck, CRASH, seen=seen[stuck])) is None
            assert await at_once(home, at.store.end_lease(free, CRASH, seen=seen[free])) == CRASH
        assert await at.store.end_lease(stuck, CRASH, seen=seen[stuck]) == CRASH

    play(Stage(home), act)


def test_a_lease_without_a_row_is_ended_when_it_had_been_seen(home: Home) -> None:
    async def act(at: Scene) -> None:
        await at.lease()
        assert await at.store.end_lease(at.chance.uuid4(), CRASH, seen="1:1") == CRASH

    play(Stage(home), act)


# reports and notes


@pytest.mark.parametrize("lock", ["SHARE", "NO KEY UPDATE", "UPDATE"])
def test_l11_a_report_of_a_locked_job_is_returned_and_its_siblings_are_written(home: Home, lock: str) -> None:
    async def act(at: Scene) -> None:
        stuck, free, lost = await at.running(), await at.running(), await at.running()
        await at.settle(done(lost))
        updates = [ProgressUpdate(job=active.id, token=active.token, checkpoint=b"1") for active in (stuck, free, lost)]
        with locked(home, "active", f"id = '{stuck.id}'", lock), pytest.raises(StoreBusy) as raised_:
            await at_once(home, at.store.report(updates))
        assert (raised_.value.jobs, raised_.value.lost) == ({stuck.id}, {lost.id})
        assert [(await at.row(active.id)).checkpoint for active in (stuck, free)] == [None, b"1"]
        assert await at.store.report(updates) == {lost.id}
        assert (await at.row(stuck.id)).checkpoint == b"1"

    play(Stage(home), act)


def test_l11_a_note_on_a_locked_record_is_returned_and_its_siblings_are_written(home: Home) -> None:
    async def act(at: Scene) -> None:
        stuck, free = await at.running(), await at.running()
        await at.settle(raised(stuck), raised(free))
        notes = [AttemptNote(job=active.id, token=active.token, late_result=b"1") for active in (stuck, free)]
        with locked(home, "attempts", f"job = '{stuck.id}'"), pytest.raises(StoreBusy) as raised_:
            await at_once(home, at.store.annotate(notes))
        assert raised_.value.jobs == {stuck.id}
        assert home.sql("SELECT job FROM holdfast.attempts WHERE late_result IS NOT NULL") == [(free.id,)]
        await at.store.annotate(notes)
        assert home.sql("SELECT count(*) FROM holdfast.attempts WHERE late_result IS NOT NULL") == [(2,)]

    play(Stage(home), act)


# deletions


@pytest.mark.parametrize(("table", "column"), [("finished_other", "id"), ("payloads", "job"), ("attempts_other", "job")])
def test_l11_a_locked_row_delays_the_pruning_of_no_other_job(home: Home, table: str, column: str) -> None:
    async def act(at: Scene) -> None:
        stuck, free = [await at.running(payload=LONG, policy=Policy(max_attempts=1)) for _ in range(2)]
        await at.settle(raised(stuck), raised(free))
        home.sql("UPDATE holdfast.finished SET delete_day = '-infinity'")
        home.sql("UPDATE holdfast.attempts SET delete_day = '-infinity'")
        at.step_wall(Policy().retention + EARLY)
        with locked(home, table, f"{column} = '{stuck.id}'", "KEY SHARE"):
            assert (await at_once(home, at.store.prune(100))).jobs == 1
            assert set(await states(at)) == {stuck.id}
        assert (await at.store.prune(100)).jobs == 1
        assert [home.sql(f"SELECT count(*) FROM holdfast.{name}") for name in ("finished", "payloads", "attempts")] == [
            [(0,)]
        ] * 3

    play(Stage(home), act)


def test_l11_a_locked_payload_delays_the_stub_of_no_other_job(home: Home) -> None:
    async def act(at: Scene) -> None:
        stuck, free = [await at.running(payload=LONG, policy=Policy(retention=1.0)) for _ in range(2)]
        await at.settle(done(stuck), done(free))
        at.step_wall(1.0 + EARLY)
        with locked(home, "payloads", f"job = '{stuck.id}'", "KEY SHARE"):
            assert (await at_once(home, at.store.prune(100))).stubs == 1
            assert not (await at.row(stuck.id)).is_stub
        assert (await at.store.prune(100)).stubs == 1
        assert home.sql("SELECT count(*) FROM holdfast.payloads") == [(0,)]

    play(Stage(home), act)


@pytest.mark.parametrize("retention", [0.0, Policy().retention])
def test_s6_a_finished_job_that_changes_while_it_is_chosen_keeps_its_payload(home: Home, retention: float) -> None:
    async def act(at: Scene) -> None:
        active = await at.running(payload=LONG, policy=Policy(retention=retention))
        await at.settle(done(active))
        home.sql("UPDATE holdfast.finished SET delete_day = '-infinity'")
        at.step_wall(retention + EARLY)
        with paused(home, at.store, "prune"):
            pruning = asyncio.ensure_future(at.store.prune(100))
            assert await waits(home, pruning)
            home.sql("UPDATE holdfast.finished_other SET message = 'changed'")
        pruned = await pruning
        assert (pruned.jobs, pruned.stubs) == (0, 0)
        assert (await at.row(active.id)).payload == LONG

    play(Stage(home), act)


@pytest.mark.parametrize(
    ("table", "column"), [("pending", "id"), ("payloads", "job"), ("attempts", "job"), ("unique_keys", "job")]
)
def test_l11_a_locked_row_delays_the_purge_of_no_other_job(home: Home, table: str, column: str) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(*(at.new(payload=LONG, key=key) for key in "kl"))
        stuck, free = [claim.job for claim in await at.claim(await at.lease(), 2)]
        await at.settle(raised(stuck), raised(free))
        with locked(home, table, f"{column} = '{stuck.id}'", "KEY SHARE"):
            assert (await at_once(home, at.store.purge("default", 100))).jobs == 1
            assert set(await states(at)) == {stuck.id}
        assert (await at.store.purge("default", 100)).jobs == 1
        names = ("pending", "payloads", "attempts", "unique_keys")
        assert [home.sql(f"SELECT count(*) FROM holdfast.{name}") for name in names] == [[(0,)]] * 4

    play(Stage(home), act)


@pytest.mark.parametrize("verb", ["prune", "purge"])
def test_l4_deleting_locks_no_row_of_other_jobs(home: Home, verb: str) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(*(at.new(payload=LONG, key=key) for key in "kl"))
        await at.enqueue(*(at.new(payload=LONG, key=key, queue="other") for key in "mn"))
        last = Policy(max_attempts=1 if verb == "prune" else 2)
        active_jobs = [claim.job for claim in await at.claim(await at.lease(), 2, queues=("default",), policy=last)]
        active_jobs += [claim.job for claim in await at.claim(await at.lease(), 2, queues=("other",))]
        await at.settle(*(structs.replace(raised(active), delay=None) for active in active_jobs))
        home.sql("UPDATE holdfast.finished SET delete_day = '-infinity', delete_after = finished_at")
        home.sql("UPDATE holdfast.attempts SET delete_day = '-infinity'")
        at.step_wall(RETENTION_FLOOR)
        async with rival(home) as busy:
            deleted = await (busy.prune(100) if verb == "prune" else busy.purge("default", 100))
            assert deleted.jobs == 2
            for table in ("payloads", "attempts", "unique_keys"):
                assert len(home.sql(f"SELECT job FROM holdfast.{table} FOR UPDATE SKIP LOCKED")) == 2

    play(Stage(home), act)


def test_s11_purging_a_job_whose_key_another_job_has_leaves_that_key(home: Home) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(at.new(key="k"))
        home.sql("DELETE FROM holdfast.unique_keys")
        (other,) = await at.enqueue(at.new(key="k", queue="other"))
        assert (await at.store.purge("default", 100)).jobs == 1
        assert home.sql("SELECT job FROM holdfast.unique_keys") == [(other,)]

    play(Stage(home), act)


# whole tables


@pytest.mark.parametrize("table", ["active", "finished", "leases", "pending"])
def test_l11_the_wait_for_a_locked_table_is_limited_and_the_error_names_the_remedy(home: Home, table: str) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        store = PostgresStore(
            home.dsn, clock=FakeClock(), chance=FakeChance(), process=PROCESS, server_settings={"lock_timeout": "20ms"}
        )
        with psycopg.connect(home.dsn) as rival:
            rival.execute(f"LOCK TABLE holdfast.{table} IN SHARE MODE")  # type: ignore[arg-type]
            with pytest.raises(StoreBusy, match=r"another session keeps a lock.*pg_terminate_backend") as raised_:
                await (store.beat([active.lease]) if table == "leases" else store.exchange([raised(active), done(active)]))
            assert raised_.value.jobs == frozenset()
            rival.rollback()
        await store.close()
        assert await at.settle(done(active)) == (APPLIED,)

    play(Stage(home), act)


# operators' verbs


@pytest.mark.parametrize(
    ("verb", "table", "after"),
    [
        ("request_cancel", "pending", State.CANCELLED),
        ("request_cancel", "unique_keys", State.CANCELLED),
        ("reopen", "pending", State.AVAILABLE),
        ("reopen", "finished", State.AVAILABLE),
        ("reschedule", "pending", State.AVAILABLE),
        ("delete", "pending", None),
        ("delete", "unique_keys", None),
        ("delete", "finished", None),
    ],
)
def test_l11_an_operators_verb_is_done_for_all_but_the_locked_job_which_the_error_names(
    hurried_home: Home, verb: str, table: str, after: State | None
) -> None:
    home = hurried_home

    async def act(at: Scene) -> None:
        jobs = [at.new(key=str(number), delay=60.0) for number in range(7)]
        ids = await at.enqueue(*jobs)
        if table == "finished":
            await at.store.request_cancel(ids)
        ask: Any = getattr(at.store, verb)
        before = await at.state(ids[3])
        with locked(home, table, "key = '3'" if table == "unique_keys" else f"id = '{ids[3]}'"):
            with pytest.raises(StoreBusy, match="pg_terminate_backend") as busy:
                await ask(ids)
            assert busy.value.jobs == {ids[3]}
            left = dict.fromkeys(ids, after) | {ids[3]: before}
            assert await states(at) == {job: state for job, state in left.items() if state is not None}
        await ask(ids)
        assert set((await states(at)).values()) == {after} - {None}

    play(Stage(home), act)


async def states(at: Scene) -> dict[UUID, State]:
    return {row.id: row.state for row in await at.store.list(at.everything)}


def test_l11_jobs_that_are_not_tried_within_the_limit_count_as_locked(
    hurried_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = hurried_home
    monkeypatch.setattr(moving, "HURRIED_LIMIT", 0.0)

    async def act(at: Scene) -> None:
        ids = await at.enqueue(*(at.new() for _ in range(4)))
        with locked(home, "pending", f"id = '{ids[0]}'"):
            with pytest.raises(StoreBusy) as busy:
                await at.store.delete(ids)
            assert busy.value.jobs == set(ids)
            assert set(await states(at)) == set(ids)

    play(Stage(home), act)
