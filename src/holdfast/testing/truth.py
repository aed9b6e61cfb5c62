"""What a memory store really did: every change of a row, in order, with the right it was asked for under."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from uuid import UUID

from holdfast._core.job import JobRecord, Json, NewJob, State, Token
from holdfast._core.lifecycle import LeaseEnd, Transition
from holdfast._core.payload import decode_json
from holdfast._ports.clock import Clock
from holdfast._ports.store import BeatAnswer, Capabilities, EnqueueAnswer, NewLease, ReopenAnswer, Update
from holdfast.stores.memory import MemoryStore, Snapshot
from holdfast.testing.history import FAIL_OVER, By, Event, History, JobRow, LeaseRow, Phase, label, outcome_of


class Witness(MemoryStore):
    """Put it before a memory store, whole or broken: it writes down what that store does and changes nothing."""

    history: History
    now: Callable[[], float]
    profile: Capabilities
    caller: str = ""

    _by: By | None = None
    _tokens: Mapping[UUID, Token] = MappingProxyType({})

    @property
    def capabilities(self) -> Capabilities:
        """Those of the store it plays."""
        return self.profile

    async def report(self, updates: Sequence[Update]) -> frozenset[UUID]:
        """Under the tokens of the updates."""
        self._by, self._tokens = By("report"), {update.job: update.token for update in updates}
        return await super().report(updates)

    async def start(self, tokens: Sequence[tuple[UUID, Token]]) -> frozenset[UUID]:
        """Under the tokens given."""
        self._by, self._tokens = By("start"), dict(tokens)
        return await super().start(tokens)

    async def enqueue(
        self, call: UUID, jobs: Sequence[NewJob], *, under: tuple[UUID, Token] | None = None
    ) -> EnqueueAnswer:
        """By a client, or by a handler under its token."""
        self._by, self._tokens = By("enqueue"), {}
        return await super().enqueue(call, jobs, under=under)

    async def request_cancel(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        """By an operator."""
        self._by, self._tokens = By("request_cancel"), {}
        return await super().request_cancel(ids)

    async def reopen(self, ids: Sequence[UUID]) -> ReopenAnswer:
        """By an operator."""
        self._by, self._tokens = By("reopen"), {}
        return await super().reopen(ids)

    def _settle(self, transition: Transition, *arguments: Json) -> bool:
        self._by, self._tokens = By("exchange", transition.token, transition.judge, outcome_of(transition)), {}
        return super()._settle(transition, *arguments)

    def _take(self, row: JobRecord, *arguments: Json, **keywords: Json) -> Json:
        self._by, self._tokens = By("claim"), {}
        return super()._take(row, *arguments, **keywords)

    def _put(self, row: JobRecord) -> None:
        before, by = self._all.jobs.get(row.id), self._by
        super()._put(row)
        if by is not None and row.id in self._tokens:
            by = By(by.verb, self._tokens[row.id])
        lease = row.lease or (before.lease if before is not None else None)
        old = None if before is None else _row_of(before)
        self._tell("job", by, job=row.id, token=row.token, lease=lease, before=old, after=_row_of(row))

    def _tell(self, what: str, by: By | None, **fields: Json) -> None:
        self.history.add(Event(time=self.now(), process=self.caller, what=what, phase=Phase.TRUTH, by=by, **fields))

    def fail_over(self, snapshot: Snapshot) -> None:
        """Forget everything since the snapshot, and say so."""
        jobs, leases = self._all.jobs, {lease: self._lease_row(lease) for lease in self._all.leases}
        self.restore(snapshot)
        by, self.caller = By(FAIL_OVER), "store"
        for job, before in jobs.items():
            after = self._all.jobs.get(job)
            if after is not before:
                self._tell("job", by, job=job, before=_row_of(before), after=None if after is None else _row_of(after))
        for lease, old in leases.items():
            self._tell("lease", by, lease=lease, before=old, after=self._lease_row(lease))

    async def open_lease(self, lease: NewLease) -> bool:
        """A change of one lease."""
        before = self._lease_rows([lease.id])
        answer = await super().open_lease(lease)
        self._tell_leases(before, By("open_lease"))
        return answer

    async def beat(self, leases: Sequence[UUID], *, draining: bool = False) -> BeatAnswer:
        """A change of some leases."""
        before = self._lease_rows(leases)
        answer = await super().beat(leases, draining=draining)
        self._tell_leases(before, By("beat"))
        return answer

    async def end_lease(self, lease: UUID, why: LeaseEnd, *, seen: str | None = None) -> LeaseEnd | None:
        """The end of one lease."""
        before = self._lease_rows([lease])
        answer = await super().end_lease(lease, why, seen=seen)
        self._tell_leases(before, By("end_lease", is_judged=seen is not None))
        return answer

    def _lease_rows(self, leases: Sequence[UUID]) -> dict[UUID, LeaseRow | None]:
        return {lease: self._lease_row(lease) for lease in leases}

    def _lease_row(self, lease: UUID) -> LeaseRow | None:
        known = self._all.leases.get(lease)
        if known is None:
            return None
        return LeaseRow(
            process=label(known.spec.process),
            worker=known.spec.worker,
            ttl=known.spec.timing.ttl,
            margin=known.spec.timing.margin,
            overdue=(self._monotonic() - known.expires) / 1e6,
            is_ended=known.end is not None,
            is_free=known.end is not None and known.end.is_free,
            culprits=tuple(known.end.culprits) if known.end is not None else (),
        )

    def _tell_leases(self, before: dict[UUID, LeaseRow | None], by: By) -> None:
        for lease, old in before.items():
            row = self._lease_row(lease)
            if row is not None and row != old:
                self._tell("lease", by, lease=lease, before=old, after=row)


def witnessed(
    kind: type[MemoryStore],
    clock: Clock,
    *,
    history: History,
    now: Callable[[], float],
    profile: Capabilities,
) -> Witness:
    """A store of that kind that writes down what it does; set ``caller`` before each call."""
    made: Witness = type(f"Witnessed{kind.__name__}", (Witness, kind), {})(clock)
    made.history, made.now, made.profile = history, now, profile
    return made


def _row_of(row: JobRecord) -> JobRow:
    return JobRow(
        state=row.state,
        token=row.token,
        lease=row.lease,
        attempt=row.attempt,
        failures=row.failures,
        crashes=row.crashes,
        max_attempts=row.policy.max_attempts,
        max_crashes=row.policy.max_crashes,
        is_cancel_requested=row.cancel_requested,
        witness=row.message or "",
        result=_text(row.result),
    )


def _text(result: bytes | None) -> str:
    """A result that is a text is the token that its handler returned."""
    value = None if result is None else decode_json(result)
    return value if isinstance(value, str) else ""
