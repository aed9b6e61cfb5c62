"""Unreadable rows block no other job."""

from pathlib import Path

import pytest

from holdfast._core.answers import Answer
from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.policy import CrashPolicy, Policy
from holdfast._core.requests import JobFilter, ProgressUpdate
from holdfast.stores.sqlite.parameters import INLINE, json_text, records
from holdfast.testing.contracts.scene import BOOM, Scene, done, play, raised, rescued
from tests.stores.support import OnFile, inside, sql

CRASH = LeaseEnd(RescueReason.CRASHED)
POISON = [
    "policy = '{', tags = 'x', error = '[', checkpoint = x'ff'",
    "policy = '', tags = '{}', error = '7'",
    "policy = '{\"max_attempts\": \"three\"}', tags = '[1]', error = '{\"type\": 1}'",
    "policy = x'fffe', tags = x'ff', error = x'80'",
    "payload = x'fffe00', stage = '', message = ''",
    "payload = 'text', checkpoint = 'text', result = 'text'",
    "payload = 42, checkpoint = 1.5, result = -1",
    "payload = NULL",
]


@pytest.mark.parametrize("poison", POISON)
def test_a_bad_row_is_claimed_held_read_and_settled_with_its_neighbours(tmp_path: Path, poison: str) -> None:
    async def act(at: Scene) -> None:
        first, bad, last = await at.enqueue(at.new(), at.new(), at.new(tags=("t",)))
        sql(tmp_path / "jobs.db", f"UPDATE holdfast_jobs SET {poison} WHERE id = ?", bad.bytes)
        assert [row.id for row in await at.store.list(JobFilter())] == [last, bad, first]
        assert [row.id for row in await at.store.list(JobFilter(tag="t"))] == [last]
        assert (await at.row(bad)).state is State.AVAILABLE
        lease = await at.lease()
        claims = await at.claim(lease, 3)
        assert [claim.job.id for claim in claims] == [first, bad, last]
        assert isinstance(claims[1].payload, bytes)
        assert isinstance((await at.row(bad)).payload, bytes)
        sql(tmp_path / "jobs.db", f"UPDATE holdfast_jobs SET {poison} WHERE id = ?", bad.bytes)
        active_jobs = await at.store.held(lease)
        assert [active.id for active in active_jobs] == [first, bad, last]
        if "policy" in poison:
            assert active_jobs[1].policy.on_crash is (CrashPolicy.RETRY if "max_attempts" in poison else CrashPolicy.HOLD)
        assert await at.settle(*(done(claim.job) for claim in claims)) == (Answer.APPLIED,) * 3
        assert set(await at.settle(*(raised(claim.job) for claim in claims))) == {Answer.LOST}

    play(OnFile(tmp_path / "jobs.db"), act)


@pytest.mark.parametrize("poison", POISON[:4])
def test_a_bad_row_expires_and_is_cancelled_as_others_are(tmp_path: Path, poison: str) -> None:
    async def act(at: Scene) -> None:
        late, unwanted = await at.enqueue(at.new(expires_in=1.0), at.new())
        sql(tmp_path / "jobs.db", f"UPDATE holdfast_jobs SET {poison}")
        at.advance(2.0)
        assert [each.job for each in await at.store.expire(10)] == [late]
        assert await at.store.request_cancel([unwanted]) == {unwanted: State.CANCELLED}

    play(OnFile(tmp_path / "jobs.db"), act)


@pytest.mark.parametrize("poison", POISON[:4])
def test_a_bad_row_is_rescued_and_judged_with_its_neighbours(tmp_path: Path, poison: str) -> None:
    async def act(at: Scene) -> None:
        bad, other = await at.running(policy=Policy(timeout=1.0)), await at.running(policy=Policy(timeout=1.0))
        sql(tmp_path / "jobs.db", f"UPDATE holdfast_jobs SET {poison} WHERE id = ?", bad.id.bytes)
        at.advance(1000.0)
        assert [each.job for each in await at.store.overdue(10)] == [other]
        for active in (bad, other):
            await at.store.end_lease(active.lease, CRASH)
        assert await at.settle(rescued(bad, CRASH), rescued(other, CRASH)) == (Answer.APPLIED,) * 2
        assert [(await at.row(active.id)).state for active in (bad, other)] == [State.AVAILABLE] * 2

    play(OnFile(tmp_path / "jobs.db"), act)


def test_an_attempt_recorded_before_its_job_has_ended_blocks_no_verb(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        active, other = await at.running(), await at.running()
        assert active.token.claim is not None
        remembered = (active.id.bytes, active.token.number, active.token.claim.bytes)
        columns = "job, claim_number, claim_id, requested_state, outcome, attempt, worker"
        sql(
            tmp_path / "jobs.db",
            f"INSERT INTO holdfast_attempts ({columns}) VALUES (?, ?, ?, 'available', 'failed', 1, '')",
            *remembered,
        )
        assert await at.settle(raised(active), raised(other)) == (Answer.APPLIED,) * 2
        assert [(await at.row(each.id)).state for each in (active, other)] == [State.SCHEDULED] * 2

    play(OnFile(tmp_path / "jobs.db"), act)


@pytest.mark.parametrize(
    "change",
    [
        "claim_id = NULL",
        "claim_id = x'00'",
        "id = x'00'",
        "created_at = 'x', claim_id = x'00'",
        "available_at = 9e18",
        "reason = 'NEW'",
    ],
)
def test_l4_an_unreadable_active_row_blocks_no_other_job(tmp_path: Path, change: str) -> None:
    async def act(at: Scene) -> None:
        ids = await at.enqueue(*(at.new() for _ in range(3)))
        lease = await at.lease()
        claims = await at.claim(lease, 3)
        sql(tmp_path / "jobs.db", f"UPDATE holdfast_jobs SET {change} WHERE id = ?", ids[0].bytes)
        assert [row.id for row in await at.store.list(JobFilter()) if row.id != ids[0]] == [ids[2], ids[1]]
        await at.store.end_lease(lease, CRASH)
        active_jobs = [active for active in await at.store.held(lease) if active.id != ids[0]]
        assert [active.id for active in active_jobs] == [claims[1].job.id, claims[2].job.id]
        assert set(await at.settle(*(rescued(active, CRASH) for active in active_jobs))) == {Answer.APPLIED}

    play(OnFile(tmp_path / "jobs.db"), act)


def test_l4_a_pending_row_without_a_valid_id_blocks_no_claim(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        ids = await at.enqueue(*(at.new() for _ in range(3)))
        sql(tmp_path / "jobs.db", "UPDATE holdfast_jobs SET id = x'00' WHERE id = ?", ids[0].bytes)
        assert [claim.job.id for claim in await at.claim(await at.lease(), 3)] == [ids[1], ids[2]]

    play(OnFile(tmp_path / "jobs.db"), act)


def test_an_active_row_without_an_owner_is_rescued_with_its_neighbours(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        active, other = await at.running(), await at.running()
        for each in (active, other):
            await at.store.end_lease(each.lease, CRASH)
        sql(tmp_path / "jobs.db", "UPDATE holdfast_jobs SET worker = NULL, started_at = NULL WHERE id = ?", active.id.bytes)
        assert await at.settle(rescued(active, CRASH), rescued(other, CRASH)) == (Answer.APPLIED, Answer.APPLIED)
        assert [(await at.row(each.id)).attempts[0].worker for each in (active, other)] == ["", "worker"]

    play(OnFile(tmp_path / "jobs.db"), act)


def test_an_attempt_that_cannot_be_read_does_not_hide_its_job(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        await at.settle(raised(active))
        sql(tmp_path / "jobs.db", "UPDATE holdfast_attempts SET error = '{'")
        row = await at.row(active.id)
        assert (row.error, row.attempts[0].error) == (BOOM, None)

    play(OnFile(tmp_path / "jobs.db"), act)


def test_long_payloads_stay_where_they_are_while_their_job_moves(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        small, large = await at.enqueue(at.new(payload=b"s" * 512), at.new(payload=b"l" * 513))
        path = tmp_path / "jobs.db"
        assert sql(path, "SELECT id FROM holdfast_jobs WHERE payload IS NULL") == [(large.bytes,)]
        assert sql(path, "SELECT job, payload FROM holdfast_payloads") == [(large.bytes, b"l" * 513)]
        assert [len(claim.payload) for claim in await at.claim(await at.lease(), 2)] == [512, 513]
        assert [len((await at.row(job)).payload) for job in (small, large)] == [512, 513]

    play(OnFile(tmp_path / "jobs.db"), act)


def test_records_are_laid_out_as_the_queries_read_them(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        values = records([(active.id, active.token, None), (active.id, active.token, b""), (active.id, active.token, b"abc")])
        items, data = values["items"], values["data"]
        assert isinstance(items, bytes)
        assert isinstance(data, bytes)
        assert len(items) == 3 * 72
        for index, expected in enumerate((None, b"", b"abc")):
            record = items[72 * index : 72 * (index + 1)]
            assert active.token.claim is not None
            assert record[:32] == active.id.bytes + active.token.claim.bytes
            start, length = int(record[51:62]), int(record[62:])
            assert int(record[32:51]) == active.token.number
            assert (data[start - 1 : start - 1 + length] if start else None) == expected

    play(OnFile(tmp_path / "jobs.db"), act)


def test_characters_that_utf8_cannot_encode_become_question_marks() -> None:
    assert json_text(("a\udcff", "ä")) == '["a?","ä"]'
    assert (
        json_text(BOOM) == '{"type":"ValueError","message":"boom","traceback":"Traceback …","path":"","key":"0123456789abcdef"}'
    )


def test_progress_with_characters_that_json_or_utf8_cannot_encode_is_kept(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        assert (
            await at.store.report([ProgressUpdate(job=active.id, token=active.token, stage="a\0b", message="c\udcffd")])
            == frozenset()
        )
        row = await at.row(active.id)
        assert (row.stage, row.message) == ("a\ufffdb", "c?d")

    play(OnFile(tmp_path / "jobs.db"), act)


def test_the_thread_of_a_store_is_its_own(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        first = await inside(at.store, lambda connection: connection)
        second = await inside(at.another(), lambda connection: connection)
        assert first is not second
        assert await inside(at.store, lambda connection: connection) is first

    play(OnFile(tmp_path / "jobs.db"), act)


def test_only_a_long_payload_lies_apart_from_its_row(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        short, long = b"s" * INLINE, b"l" * (INLINE + 1)
        apart = [await at.enqueue(at.new(payload=payload)) for payload in (short, long)]
        together = await at.enqueue(at.new(payload=short), at.new(payload=long))
        rows = [(apart[0][0], short), (apart[1][0], None), (together[0], short), (together[1], None)]
        found = sql(tmp_path / "jobs.db", "SELECT id, payload FROM holdfast_jobs ORDER BY rowid")
        assert found == [(job.bytes, payload) for job, payload in rows]
        bodies = sql(tmp_path / "jobs.db", "SELECT job, payload FROM holdfast_payloads ORDER BY job")
        assert bodies == [(job.bytes, long) for job, payload in rows if payload is None]

    play(OnFile(tmp_path / "jobs.db"), act)


def test_a_job_that_is_not_inserted_leaves_no_long_payload(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        long, active = b"l" * (INLINE + 1), await at.running()
        await at.settle(done(active))
        (holder,) = await at.enqueue(at.new(key="k", payload=long))
        assert (await at.send(at.new(key="k", payload=long))).duplicates
        assert (await at.send(at.new(key="k", payload=long * 2), at.new(payload=long))).is_refused
        assert (await at.send(at.new(payload=long), under=active)).is_lost
        assert sql(tmp_path / "jobs.db", "SELECT job FROM holdfast_payloads") == [(holder.bytes,)]

    play(OnFile(tmp_path / "jobs.db"), act)


def test_l11_many_unreadable_active_jobs_hide_no_readable_one_behind_them(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        ids = await at.enqueue(*(at.new() for _ in range(7)))
        lease = await at.lease()
        await at.claim(lease, 7, policy=Policy(timeout=1.0))
        sql(tmp_path / "jobs.db", f"UPDATE holdfast_jobs SET id = substr(id, 1, 15) WHERE id <= x'{ids[4].hex}'")
        at.advance(1000.0)
        assert [active.id for active in await at.store.held(lease, 2)] == [*ids[5:]]
        assert [active.id for active in await at.store.held(lease, 1)] == [ids[5]]
        assert [each.job.id for each in await at.store.overdue(2)] == [*ids[5:]]

    play(OnFile(tmp_path / "jobs.db"), act)
