"""The history of a bucket, and that the checker sees what is wrong in it."""

import asyncio
import time
from pathlib import Path
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import NewJob, RescueReason
from holdfast._core.lifecycle import LeaseEnd, finish, release
from holdfast._core.outcome import Done
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest, NewLease, ProgressUpdate
from holdfast._core.timing import LeaseTiming
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.stores.objects.store import ObjectStore
from holdfast.testing.servers import BucketServer
from proof.checker import history_objects
from proof.checker.checker import Report, Rules, check
from proof.checker.history import JobRow
from proof.checker.process_log import ProcessEvent

OURS = ProcessIdentity("host", 1, 1, "boot", "pid", "clock")
LEASE, JOB, CLAIM = UUID(int=1), UUID(int=2), UUID(int=3)
RULES = Rules(has_lease_clock=False)


async def one_job(url: str, end: LeaseEnd, *, is_finished: bool) -> list[ProcessEvent]:
    """Run a job's whole life, or half of it; return what its code did."""
    store, deeds = ObjectStore(url, clock=SystemClock(), chance=SystemRandomness()), list[ProcessEvent]()
    await store.migrate()
    await store.enqueue(UUID(int=9), [NewJob(id=JOB, task="task", payload=b"{}", policy=Policy())])
    deeds.append(ProcessEvent(time.time(), "enqueue", OURS, JOB))
    await store.open_lease(NewLease(LEASE, "worker", OURS, LeaseTiming.of("30s")))
    await store.beat([LEASE])
    answer = await store.exchange([], ClaimRequest(lease=LEASE, claim=CLAIM, tasks={"task": Policy()}, limit=1))
    (active,) = [claim.job for claim in answer.claims]
    deeds.append(ProcessEvent(time.time(), "handler.start", OURS, JOB, active.token))
    await store.report([ProgressUpdate(job=JOB, token=active.token, message=str(active.token))])
    deeds.append(ProcessEvent(time.time(), "handler.end", OURS, JOB, active.token))
    if is_finished:
        await store.exchange([finish(active, Done(f'"{active.token}"'.encode()), jitter=0.0)])
    await store.end_lease(LEASE, end)
    await store.close()
    return deeds


def judged(folder: Path, end: LeaseEnd, *, is_finished: bool = True) -> Report:
    with BucketServer() as server:
        server.on_write = history_objects.CommitLog(folder / "commits", time.time)
        deeds = asyncio.run(one_job(server.bucket_url, end, is_finished=is_finished))
    return check(history_objects.read(folder / "commits", deeds), RULES)


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")


def test_a_finished_job_breaks_no_promise_and_every_commit_is_in_its_history(tmp_path: Path) -> None:
    report = judged(tmp_path, LeaseEnd(RescueReason.CLOSED, is_free=True))
    assert not report.violations
    assert min(report.checked[name] for name in ("S1", "S2", "S3", "S5", "S6", "S8", "S9", "S10", "L2")) > 0
    states = [event.after.state for event in history_objects.read(tmp_path / "commits") if isinstance(event.after, JobRow)]
    assert states == ["available", "running", "running", "completed"]


@pytest.mark.parametrize("reason", [RescueReason.EXPIRED, RescueReason.CRASHED])
def test_a_lease_that_is_ended_while_its_worker_lives_is_seen(tmp_path: Path, reason: RescueReason) -> None:
    report = judged(tmp_path, LeaseEnd(reason))
    assert [violation.name for violation in report.violations] == ["S5"]


def test_a_job_that_is_left_is_seen(tmp_path: Path) -> None:
    report = judged(tmp_path, LeaseEnd(RescueReason.CLOSED, is_free=True), is_finished=False)
    assert [violation.name for violation in report.violations] == ["L2"]


def test_a_job_that_a_worker_hands_back_and_claims_again_in_one_write_has_no_second_owner(tmp_path: Path) -> None:
    async def hand_back(url: str) -> None:
        store = ObjectStore(url, clock=SystemClock(), chance=SystemRandomness())
        await store.migrate()
        await store.enqueue(UUID(int=9), [NewJob(id=JOB, task="task", payload=b"{}", policy=Policy())])
        await store.open_lease(NewLease(LEASE, "worker", OURS, LeaseTiming.of("30s")))
        request = ClaimRequest(lease=LEASE, claim=CLAIM, tasks={"task": Policy()}, limit=1)
        (claim,) = (await store.exchange([], request)).claims
        again = structs.replace(request, claim=UUID(int=4))
        assert (await store.exchange([release(claim.job, code_ran=True)], again)).claims
        await store.close()

    path = tmp_path / "commits"
    with BucketServer() as server:
        server.on_write = history_objects.CommitLog(path, time.time)
        asyncio.run(hand_back(server.bucket_url))
    assert not check(history_objects.read(path), structs.replace(RULES, is_complete=False)).violations
    rows = [event.after for event in history_objects.read(path) if isinstance(event.after, JobRow)]
    assert [(row.state, row.token.number, row.attempt) for row in rows] == [
        *(("available", 0, 0), ("running", 1, 1), ("available", 1, 1), ("running", 2, 2))
    ]


def test_a_commit_that_is_missing_or_landed_twice_is_an_error(tmp_path: Path) -> None:
    judged(tmp_path, LeaseEnd(RescueReason.CLOSED))
    notes = history_objects.read_notes(tmp_path / "commits")
    for wrong in (notes[:2] + notes[3:], notes[:3] + notes[2:]):
        with pytest.raises(ValueError, match="landed after"):
            list(history_objects.Replay().events(wrong))


def test_a_beat_that_a_leader_answered_from_memory_renews_a_lease(tmp_path: Path) -> None:
    path = tmp_path / "commits"
    judged(tmp_path, LeaseEnd(RescueReason.EXPIRED))
    *before, last = history_objects.read_notes(path)
    later = [*before, history_objects.Landed(last.time + 40.0, last.commit)]  # type: ignore[union-attr]

    def broken(*between: history_objects.BeatAnswered) -> set[str]:
        events = history_objects.Replay().events([*later[:-1], *between, later[-1]])
        return {violation.name for violation in check(history_objects.History(events), RULES).violations}

    assert broken() == set()
    assert broken(history_objects.BeatAnswered(last.time + 20.0, (LEASE,))) == {"S5"}
    assert broken(history_objects.BeatAnswered(last.time + 9.0, (LEASE, UUID(int=77)))) == set()
