"""A memory store in which another session keeps rows locked, and which answers as PostgreSQL does then."""

from collections.abc import Sequence
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import Answer, BeatAnswer, ExchangeAnswer
from holdfast._core.lifecycle import LeaseEnd, Transition
from holdfast._core.requests import AttemptNote, BeatNote, ClaimRequest, ProgressUpdate
from holdfast.errors import StoreBusy
from holdfast.stores.memory import MemoryStore


class LockedMemory(MemoryStore):
    """A memory store that takes the rows of ``jobs`` and ``leases`` for locked by another session."""

    jobs: frozenset[UUID] = frozenset()
    leases: frozenset[UUID] = frozenset()

    async def exchange(self, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        free = [each for each in transitions if each.job not in self.jobs]
        found = await super().exchange(free, request)
        answered = iter(found.answers)
        answers = tuple(Answer.BUSY if each.job in self.jobs else next(answered) for each in transitions)
        return structs.replace(found, answers=answers)

    async def report(self, updates: Sequence[ProgressUpdate]) -> frozenset[UUID]:
        lost = await super().report([each for each in updates if each.job not in self.jobs])
        self._refuse("report", [each.job for each in updates], lost)
        return lost

    async def annotate(self, notes: Sequence[AttemptNote]) -> None:
        await super().annotate([each for each in notes if each.job not in self.jobs])
        self._refuse("annotate", [each.job for each in notes])

    async def beat(self, leases: Sequence[UUID], *, draining: bool = False, notes: Sequence[BeatNote] = ()) -> BeatAnswer:
        return await super().beat([lease for lease in leases if lease not in self.leases], draining=draining, notes=notes)

    async def end_lease(self, lease: UUID, why: LeaseEnd, *, seen: str | None = None) -> LeaseEnd | None:
        if lease not in self.leases:
            return await super().end_lease(lease, why, seen=seen)
        if seen is None:
            raise StoreBusy("end_lease: another session keeps a lock")
        return None

    def _refuse(self, verb: str, sent: Sequence[UUID], lost: frozenset[UUID] = frozenset()) -> None:
        if locked := self.jobs & {*sent}:
            raise StoreBusy(f"{verb}: {len(locked)} jobs are locked", locked, lost)
