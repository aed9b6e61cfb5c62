"""The engine with one guard taken out, as context managers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core import lifecycle
from holdfast._core.job import Hold, State, Token
from holdfast._core.lifecycle import LeaseEnd, Transition
from holdfast._core.timing import LeaseTiming
from holdfast._engine.exchange import Exchange
from holdfast._engine.executor import Ended, Executor, Stop
from holdfast._engine.healing import Healer
from holdfast._engine.inbox import Inbox
from holdfast._engine.limits import Limited, Limits
from holdfast._engine.loop import Service
from holdfast._engine.recovery import Recovery, Rescued
from holdfast._engine.supervisor import Supervisor
from holdfast._engine.ward import Ward
from holdfast._ports.store import (
    ClaimRequest,
)
from holdfast.errors import StoreUnavailable
from holdfast.stores import memory

NEVER = 1e9
Under = tuple[UUID, Token] | None


@contextmanager
def _patched(owner: object, **names: Any) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, made in names.items():
            patch.setattr(owner, name, made)
        yield


def no_self_stop() -> Any:
    """Neither worker nor guard ever stop by themselves."""
    return _patched(LeaseTiming, owner_deadline=lambda self, sent: NEVER, guard_deadline=lambda self, sent: NEVER)


def no_guard() -> Any:
    """Code that cannot be cancelled outlives its lease."""
    return _patched(LeaseTiming, guard_deadline=lambda self, sent: NEVER)


def only_deliveries() -> Any:
    """What no queue delivers is never looked for."""

    def request(self: Exchange) -> ClaimRequest | None:
        asked = _request(self)
        return asked if asked is None or asked.ids is not None else None

    def next_delivered(self: Exchange, inbox: Inbox, most: int) -> Any:
        return inbox.next(most)

    _request = Exchange._request
    return _patched(Exchange, _request=request, _next_delivered=next_delivered)


def no_audit() -> Any:
    """After an unknown claim nobody asks what the store thinks we hold."""

    async def audit(self: Exchange) -> None:
        self._needs_audit = False

    return _patched(Exchange, audit=audit)


def no_amnesty() -> Any:
    """After an outage everybody is judged at once."""
    return _patched(LeaseTiming, may_judge=lambda self, *, contact, now: True)


def no_recovery() -> Any:
    """Nobody looks for expired leases."""

    async def step(self: Recovery, **_: Any) -> list[Rescued]:
        return []

    return _patched(Recovery, step=step)


def no_burial() -> Any:
    """Who sees a worker die leaves its jobs to the expiry of its lease."""
    return _patched(Supervisor, _bury=lambda self, ward, exit: None)


def impatient() -> Any:
    """A worker whose event loop is blocked for half a ttl is killed."""
    watch = Ward.watch

    def hasty(self: Ward, timing: LeaseTiming, *more: Any, max_block: float, **given: Any) -> None:
        watch(self, timing, *more, max_block=timing.ttl / 2, **given)

    return _patched(Ward, watch=hasty)


def siblings_pay() -> Any:
    """Every running job is charged for the end of its worker, whoever was the culprit."""
    return _patched(LeaseEnd, charges=lambda self, hold: hold.state is State.RUNNING)


def no_standing() -> Any:
    """The progress clock runs on while the store is silent."""
    return _patched(Limits, stand=lambda self, seconds: None)


def no_word_for_others() -> Any:
    """Where the owner's clock stood, others do not hear of it."""

    async def vouch(self: Supervisor) -> None:
        pass

    return _patched(Supervisor, _vouch=vouch)


def hasty_owner() -> Any:
    """A job is said to have stalled well before its time."""
    overrun = Limited.overrun
    return _patched(Limited, overrun=lambda self, now: overrun(self, now + 0.3 * (self.progress_within or 0.0)))


def fragile() -> Any:
    """Two lost beats, and a worker stops."""
    return _patched(LeaseTiming, owner_deadline=lambda self, sent: sent + 1.5 * self.beat)


def no_word_of_the_end() -> Any:
    """A worker whose lease was ended is not told."""
    return _patched(Ward, lost=lambda self: None)


def no_polling() -> Any:
    """A hint is the only thing that wakes a worker."""
    pause = Exchange._pause

    async def wait(self: Exchange, request: ClaimRequest | None, *, claimed: int) -> float:
        seconds = await pause(self, request, claimed=claimed)
        return 100 * seconds if claimed == 0 else seconds

    return _patched(Exchange, _pause=wait)


def drain_costs() -> Any:
    """What a worker gives back when it is asked to end has spent an attempt."""
    release = lifecycle.release

    def charge(hold: Hold, *, code_ran: bool) -> Transition:
        moved = release(hold, code_ran=code_ran)
        return structs.replace(moved, failures=hold.failures + 1) if code_ran else moved

    return _patched(lifecycle, release=charge)


def dropped_results() -> Any:
    """An outcome that the store did not answer is not sent again."""
    exchange = Exchange._exchange

    async def once(self: Exchange, batch: Any, request: ClaimRequest | None) -> int:
        try:
            return await exchange(self, batch, request)
        except StoreUnavailable:
            del self._ended[: len(batch)]
            raise

    return _patched(Exchange, _exchange=once)


def no_backing_off() -> Any:
    """Whoever is refused asks again at once."""
    return _patched(Service, _pause=lambda self, failures: 0.005)


def no_hook() -> Any:
    """The next attempt starts, and what its job owes is forgotten."""
    return _patched(Healer, owes=lambda self, claim: False)


def no_hook_alone() -> Any:
    """Nobody looks for hooks of jobs that have ended."""

    async def step(self: Healer) -> float:
        return NEVER

    return _patched(Healer, step=step)


def prune_the_owed() -> Any:
    """Retention is retention, whatever is owed."""
    return _patched(memory, retention_of=lambda row: row.policy.retention)


def settle_before_stop() -> Any:
    """The job is given back when its code is told to stop, not when it has stopped."""
    stop = Executor.stop

    def stop_early(self: Executor, job: UUID, why: Stop, **given: Any) -> None:
        running = self.running.get(job)
        if running is not None and running.stop is None:
            self._on_ended(Ended(running.claim, lifecycle.release(running.claim.hold, code_ran=True)))
        stop(self, job, why, **given)

    return _patched(Executor, stop=stop_early)
