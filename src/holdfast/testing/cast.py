"""Short names for whoever and whatever a story speaks of: worker A, supervisor 1, claim 4, the job."""

from collections import Counter
from collections.abc import Iterable, Sequence
from string import ascii_uppercase
from uuid import UUID

from holdfast._core.job import Token
from holdfast.testing.history import Event, JobRow, LeaseRow

_SAID_BY = {
    "handler.start": "worker",
    "worker.ready": "worker",
    "enqueue": "client",
    "request_cancel": "operator",
    "reopen": "operator",
    "reschedule": "operator",
    "delete": "operator",
}
"""What somebody must be who was not introduced, and does this."""


class Cast:
    """Everybody in these events. Names are given in the order in which they are asked for."""

    def __init__(self, events: Iterable[Event], jobs: Sequence[UUID]) -> None:
        self.workers: dict[UUID, str] = {}  # by the lease
        self.owners: dict[Token, str] = {}
        self._jobs = jobs
        self._roles: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._claims: dict[Token, str] = {}
        self._count: Counter[str] = Counter()
        for event in events:
            self._introduce(event)

    def _introduce(self, event: Event) -> None:
        if event.what == "process.start" and event.note:
            self._roles[event.process] = event.note
        elif event.what == "lease" and event.lease is not None and isinstance(event.after, LeaseRow):
            self.workers[event.lease] = event.after.process
            self._roles[event.after.process] = "worker"
            self._roles.setdefault(event.process, "supervisor")
        elif event.what in _SAID_BY:
            self._roles.setdefault(event.process, _SAID_BY[event.what])
        if isinstance(event.after, JobRow) and event.after.lease is not None:
            self.owners.setdefault(event.after.token, self.workers.get(event.after.lease, ""))

    def role(self, process: str) -> str:
        """What it is: worker, supervisor, guard, client, operator; itself if nothing is known of it."""
        return self._roles.get(process, process) if process else ""

    def process(self, process: str) -> str:
        """``worker A``, ``supervisor 1``; empty if nobody knows who it was."""
        role = self.role(process)
        if process not in self._names and role != process:
            number = self._count[role]
            self._count[role] += 1
            self._names[process] = f"{role} {_letter(number) if role == 'worker' else number + 1}"
        return self._names.get(process, process)

    def claim(self, token: Token) -> str:
        """``claim 4``; numbers come twice where a store has forgotten one."""
        if token.claim is None:
            return "nobody"
        if token not in self._claims:
            twins = sum(each.number == token.number for each in self._claims)
            self._claims[token] = f"claim {token.number}{'' if not twins else _letter(twins).lower()}"
        return self._claims[token]

    def owned(self, token: Token) -> str:
        """The claim and who has it."""
        owner = self.whose(self.owners.get(token, ""))
        return f"{self.claim(token)} of {owner}" if owner and token.claim else self.claim(token)

    def whose(self, process: str) -> str:
        """The same as ``process`` where something is said to be its own: ``A``."""
        return self.process(process).removeprefix("worker ")

    def job(self, job: UUID | None) -> str:
        """``the job``, or another one."""
        return "the job" if not self._jobs or job == self._jobs[0] else "the other job" if job in self._jobs else "another job"

    def lease(self, lease: UUID) -> str:
        """Whose it is."""
        return f"the lease of {self.whose(self.workers.get(lease, '')) or 'somebody'}"

    def name(self, value: object) -> object:
        """What a sentence calls it; itself if it is no name."""
        match value:
            case Token():
                return self.owned(value)
            case UUID():
                return self.lease(value) if value in self.workers else self.job(value)
            case str() if value in self._roles:
                return self.process(value)
            case str():
                return next((self.owned(token) for token in self.owners if str(token) == value), value)
            case _:
                return value

    def legend(self, text: str) -> str:
        """Who is who in this text, for those who look into logs."""
        twins = (f"{name} has the number of an earlier claim" for name in self._claims.values() if name[-1].isalpha())
        names = (f"{name} is {process}" for process, name in self._names.items() if f"{name.removeprefix('worker ')}" in text)
        return ", ".join([*names, *(twin for twin in twins if twin.partition(" has")[0] in text)])


def _letter(number: int) -> str:
    return ascii_uppercase[number] if number < len(ascii_uppercase) else str(number + 1)
