"""What a memory store really did: every change of a row, in order, with the right it was asked for under."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import cast
from uuid import UUID

from msgspec import Struct

from holdfast._core.answers import BeatAnswer, Capabilities, EnqueueAnswer, ExpiredJob, Pruned, Purged, ReopenAnswer
from holdfast._core.job import Json, NewJob, State, Token
from holdfast._core.lifecycle import LeaseEnd, Transition
from holdfast._core.payload import decode_json
from holdfast._core.policy import RETENTION_FLOOR
from holdfast._core.record import JobRecord
from holdfast._core.requests import NewLease, ProgressUpdate
from holdfast._ports.clock import Clock
from holdfast._ports.store import Store
from holdfast.stores.memory import MemoryStore, Snapshot
from holdfast.testing.history import FAIL_OVER, By, Event, History, JobRow, LeaseRow, Phase, label, outcome_of
from proof.checker.hooks import HookedStore
from proof.simulator.loop import Process
from proof.stores.clockless import Clockless
from proof.stores.locked_rows import LockedRows


class Memory(Struct, frozen=True):
    """A store at some moment, and what its witness had told of it by then."""

    snapshot: Snapshot
    rows_told: dict[UUID, JobRow]
    healed: dict[UUID, list[str]]
    told: int


class Witness(MemoryStore):
    """Put it before a memory store, whole or broken: it writes down what that store does and changes nothing."""

    history: History
    now: Callable[[], float]
    profile: Capabilities
    known: Collection[str] = ()
    caller: str = ""
    clock_of: Callable[[str], Clock]

    _by: By | None = None
    _tokens: Collection[tuple[UUID, Token]] = ()
    versions: Counter[UUID | None]
    """How often each row has changed, and all of them together."""

    _rows_told: dict[UUID, JobRow]

    @property
    def capabilities(self) -> Capabilities:
        """Those of the store it plays."""
        return self.profile

    def reached_by(self, process: Process) -> Store:
        """All share it; ``caller`` says who asks."""
        del process
        return cast(Store, self)

    def close_world(self) -> None:
        """Nothing is left of it anywhere."""

    async def report(self, updates: Sequence[ProgressUpdate]) -> frozenset[UUID]:
        """Under the tokens of the updates."""
        self._by, self._tokens = By("report"), [(update.job, update.token) for update in updates]
        return await super().report(updates)

    async def start(self, tokens: Sequence[tuple[UUID, Token]]) -> frozenset[UUID]:
        """Under the tokens given."""
        self._by, self._tokens = By("start"), tokens
        return await super().start(tokens)

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob], *, under: tuple[UUID, Token] | None = None) -> EnqueueAnswer:
        """By a client, or by a handler under its token."""
        parent, token = under or (None, None)
        self._by, self._tokens = By("enqueue", token, call=call, parent=parent), ()
        return await super().enqueue(call, jobs, under=under)

    async def request_cancel(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        """By an operator."""
        self._by, self._tokens = By("request_cancel"), ()
        return await super().request_cancel(ids)

    async def reopen(self, ids: Sequence[UUID]) -> ReopenAnswer:
        """By an operator."""
        self._by, self._tokens = By("reopen"), ()
        return await super().reopen(ids)

    async def reschedule(self, ids: Sequence[UUID], *, delay: float = 0.0, run_at: datetime | None = None) -> dict[UUID, State]:
        """By an operator."""
        self._by, self._tokens = By("reschedule"), ()
        return await super().reschedule(ids, delay=delay, run_at=run_at)

    async def delete(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        """By an operator."""
        self._by, self._tokens = By("delete"), ()
        return await super().delete(ids)

    async def purge(self, queue: str, limit: int, until: datetime | None = None) -> Purged:
        """By an operator."""
        self._by, self._tokens = By("purge"), ()
        return await super().purge(queue, limit, until)

    async def expire(self, limit: int) -> tuple[ExpiredJob, ...]:
        """By time."""
        self._by, self._tokens = By("expire"), ()
        return await super().expire(limit)

    async def prune(self, limit: int) -> Pruned:
        """By time."""
        self._by, self._tokens = By("prune"), ()
        return await super().prune(limit)

    async def owed_hooks(self, tasks: Sequence[str], limit: int, *, pause: float) -> tuple[JobRecord, ...]:
        """By a worker that looks for hooks to run alone."""
        self._by, self._tokens = By("owed_hooks"), ()
        return await super().owed_hooks(tasks, limit, pause=pause)

    async def pause(self, queues: Sequence[str], *, is_paused: bool) -> None:
        """By an operator."""
        await super().pause(queues, is_paused=is_paused)
        for queue in queues:
            self._tell("queue", By("pause"), note=f"{'paused' if is_paused else 'resumed'} {queue}")

    def _settle(self, transition: Transition, *arguments: Json) -> bool:
        outcome = outcome_of(transition)
        self._by, self._tokens = By("exchange", transition.token, transition.judge, outcome, record=transition.record), ()
        return super()._settle(transition, *arguments)

    def _take(self, row: JobRecord, *arguments: Json, **keywords: Json) -> Json:
        self._by, self._tokens = By("claim"), ()
        return super()._take(row, *arguments, **keywords)

    def _heal(self, row: JobRecord, token: Token, written: Json) -> None:
        self._by, self._tokens = By("heal", token), ()
        super()._heal(row, token, written)  # type: ignore[misc]  # only a store with hooks is asked

    def _put(self, row: JobRecord) -> None:
        super()._put(row)
        by = self._by
        under = [token for job, token in self._tokens if job == row.id]
        if by is not None and under:
            by = By(by.verb, row.token if row.token in under else under[0])
        old, new = self._rows_told.get(row.id), self._row_of(row)
        self._rows_told[row.id] = new
        lease = row.lease or (old.lease if old is not None else None)
        self._tell("job", by, job=row.id, token=row.token, lease=lease, before=old, after=new)

    def _forget(self, row: JobRecord) -> None:
        super()._forget(row)
        self._tell("job", self._by, job=row.id, token=row.token, before=self._rows_told.pop(row.id), after=None)

    def _tell(self, what: str, by: By | None, **fields: Json) -> None:
        self.versions[fields.get("job") or fields.get("lease")] += 1
        self.versions[None] += 1
        self.history.add(Event(time=self.now(), process=self.caller, what=what, phase=Phase.TRUTH, by=by, **fields))

    def fail_over(self, snapshot: Snapshot) -> None:
        """Forget everything since the snapshot, and say so."""
        jobs, paused = self._all.jobs, set(self._all.paused_queues)
        leases = {lease: self._lease_row(lease) for lease in self._all.leases}
        self.restore(snapshot)
        by, self.caller = By(FAIL_OVER), "store"
        for job in {**jobs, **self._all.jobs}:
            row = self._all.jobs.get(job)
            if row is not jobs.get(job):
                before, after = self._rows_told.pop(job, None), None if row is None else self._row_of(row)
                if after is not None:
                    self._rows_told[job] = after
                self._tell("job", by, job=job, before=before, after=after)
        for queue in sorted(paused ^ set(self._all.paused_queues)):
            self._tell("queue", by, note=f"{'resumed' if queue in paused else 'paused'} {queue}")
        for lease in {**leases, **self._all.leases}:
            self._tell("lease", by, lease=lease, before=leases.get(lease), after=self._lease_row(lease))

    def remember(self) -> Memory:
        """All that there is, and how much of it has been told."""
        healed = {job: [*rows] for job, rows in self.rows.items()} if isinstance(self, HookedStore) else {}
        return Memory(self.snapshot(), dict(self._rows_told), healed, len(self.history))

    def roll_back(self, memory: Memory) -> None:
        """Whatever was written since never was, and is not told either: nobody was told that it counts.

        A watched table is not part of it.
        """
        self.restore(memory.snapshot)
        self._rows_told = dict(memory.rows_told)
        if isinstance(self, HookedStore):
            self.rows.clear()
            self.rows.update(memory.healed)
        since = self.history.events[memory.told :]
        self.history.events[memory.told :] = [event for event in since if event.phase is not Phase.TRUTH or event.what == "row"]

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
            overdue=(self._monotonic() - known.expires_at) / 1e6,
            is_ended=known.end is not None,
            is_free=known.end is not None and known.end.is_free,
            culprits=known.end.charged_jobs if known.end is not None else {},
            is_draining=known.is_draining,
            is_isolated=known.spec.is_isolated,
            grace=known.spec.grace,
            slots=known.spec.slots,
            tasks=known.spec.tasks,
            beat=known.spec.timing.beat,
        )

    def _row_of(self, row: JobRecord) -> JobRow:
        now = self._now()
        return JobRow(
            state=row.state,
            token=row.token,
            lease=row.lease,
            attempt=row.attempt,
            failures=row.failures,
            crashes=row.crashes,
            policy=row.policy,
            is_cancel_requested=row.cancel_requested,
            witness=row.message or "",
            result=_text(row.result),
            reason=row.reason,
            queue=row.queue,
            key="" if row.unique_key is None else f"{row.task}/{row.unique_key}",
            is_known=not self.known or row.task in self.known,
            due_in=(row.available_at - now).total_seconds(),
            expires_in=None if row.expires_at is None else (row.expires_at - now).total_seconds(),
            is_owed=row.hook_due_at is not None,
            healed=len(self.rows[row.id]) if isinstance(self, HookedStore) else 0,
            task=row.task,
            priority=row.priority,
            available_at=row.available_at.timestamp(),
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
    floor: float = RETENTION_FLOOR,
    known: Collection[str] = (),
    has_strangers: bool = False,
) -> Witness:
    """A store of that kind that writes down what it does; set ``caller`` before each call. ``known``: tasks; empty: any.
    ``has_strangers``: sessions of others may lock its rows."""
    if profile.caller_transaction and not issubclass(kind, HookedStore):
        kind = HookedStore if kind is MemoryStore else type(kind.__name__, (kind, HookedStore), {})
    bases = (*((LockedRows,) if has_strangers else ()), Witness, *((Clockless,) if profile.lease_clock == "none" else ()), kind)
    made: Witness = type(f"Witnessed{kind.__name__}", bases, {"floor": floor, "known": known})(clock)
    made.history, made.now, made.profile, made._rows_told = history, now, profile, {}
    made.versions = Counter()
    return made


def _text(result: bytes | None) -> str:
    """A result that is a text is the token that its handler returned."""
    value = None if result is None else decode_json(result)
    return value if isinstance(value, str) else ""
