"""Short names for whoever and whatever a story speaks of: worker A, supervisor 1, claim 4, the job."""

import re
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
_BEGIN, _END = "\x02", "\x03"
_MARK = f"{_BEGIN}[0-9]+{_END}"


class Cast:
    """Everybody in these events. Names are given at the end, by ``render``, in the order in which they are read."""

    def __init__(self, events: Iterable[Event], jobs: Sequence[UUID]) -> None:
        self.workers: dict[UUID, str] = {}  # by the lease
        self.owners: dict[Token, str] = {}
        self._jobs = jobs
        self._roles: dict[str, str] = {}
        self._marks: dict[str, str] = {}
        self._claims: dict[Token, str] = {}
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
        """``worker A``, ``supervisor 1``, the letter or number still a mark; empty if nobody knows who it was."""
        role = self.role(process)
        if role == process:
            return process
        return f"{role} {self._marks.setdefault(process, f'{_BEGIN}{len(self._marks)}{_END}')}"

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

    def render(self, text: str) -> tuple[str, str]:
        """The text with its names; and who is who in it, for those who look into logs."""
        count, names, legend = Counter[str](), dict[str, str](), list[str]()
        processes = {mark: process for process, mark in self._marks.items()}
        for mark in re.findall(_MARK, text):
            if mark not in names:
                role, process = self.role(processes[mark]), processes[mark]
                count[role] += 1
                names[mark] = _letter(count[role] - 1) if role == "worker" else str(count[role])
                legend.append(f"{role} {names[mark]} is {process}")
        twins = [name for name in self._claims.values() if name[-1].isalpha() and name in text]
        legend += [f"{name} has the number of an earlier claim" for name in twins]
        return re.sub(_MARK, lambda found: names[found[0]], text), ", ".join(legend)


def _letter(number: int) -> str:
    return ascii_uppercase[number] if number < len(ascii_uppercase) else str(number + 1)
