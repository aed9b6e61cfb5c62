"""Writes that the engine does not make yet, sent by hand to the memory store and its mutants."""

from collections.abc import Sequence
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.answers import Capabilities
from holdfast._core.book.book import Book
from holdfast._core.book.moment import Moment
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import NewJob, RescueReason, Token
from holdfast._core.lifecycle import LeaseEnd, rescue
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest, NewLease
from holdfast._core.timing import LeaseTiming
from proof.checker.checker import check
from proof.checker.history import History
from proof.checker.verdicts import Report, Rules
from proof.stores.recording_store import Witness, witnessed
from tests.simulation.support import Stage, on_stage

JOB, FIRST, SECOND = UUID(int=1), UUID(int=2), UUID(int=3)


class StartUnfenced(Book):
    """A start is written under the present token of the job, not under its own."""

    def start(self, now: Moment, tokens: Sequence[tuple[UUID, Token]]) -> frozenset[UUID]:
        return super().start(now, [(job, self._all.jobs[job].token) for job, _ in tokens])


class StartForDeadLease(Book):
    """A lease that has ended may still start what it had claimed."""

    def start(self, now: Moment, tokens: Sequence[tuple[UUID, Token]]) -> frozenset[UUID]:
        ended = {lease: known for lease, known in self._all.leases.items() if known.end is not None}
        self._all.leases.update({lease: structs.replace(known, end=None) for lease, known in ended.items()})
        try:
            return super().start(now, tokens)
        finally:
            self._all.leases.update(ended)


async def _take(store: Witness, lease: UUID) -> Token:
    """Claim the job ahead of its start."""
    timing = LeaseTiming.of("30s")
    await store.open_lease(NewLease(lease, "worker", ProcessIdentity("m", lease.int), timing))
    request = ClaimRequest(lease=lease, claim=UUID(int=lease.int + 100), tasks={"task": Policy()}, limit=0, prefetch=1)
    return (await store.exchange([], request)).claims[0].job.token


async def _late_start(store: Witness) -> None:
    """A job is claimed, rescued and claimed by another lease; then the first start arrives."""
    await store.enqueue(UUID(int=9), [NewJob(id=JOB, task="task", payload=b"{}", policy=Policy())])
    old = await _take(store, FIRST)
    why = LeaseEnd(RescueReason.CLOSED)
    store.caller = "m-2-0"
    await store.end_lease(FIRST, why)
    await store.start([(JOB, old)])
    await store.exchange([rescue(job, why, jitter=0.0) for job in await store.held(FIRST)])
    store.caller = "m-3-0"
    await _take(store, SECOND)
    await store.start([(JOB, old)])


def _play(kind: type[Book]) -> Report:
    history = History()

    async def play(stage: Stage) -> None:
        profile = Capabilities("simulated", "server")
        store = witnessed(kind, stage.clock, history=history, now=stage.clock.monotonic, profile=profile)
        await _late_start(store)

    on_stage(play)
    return check(history, Rules(is_complete=False))


def test_a_start_of_a_former_owner_changes_nothing() -> None:
    assert not _play(Book).violations


@pytest.mark.parametrize(("kind", "name"), [(StartUnfenced, "S3"), (StartForDeadLease, "S8")])
def test_a_start_without_its_guard_is_noticed(kind: type[Book], name: str) -> None:
    assert not _play(kind).verdict(name)
