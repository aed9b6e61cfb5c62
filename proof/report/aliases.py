"""Short names for the processes, claims, leases and jobs of a story: worker A, supervisor 1, claim 4, the job."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from string import ascii_uppercase
from uuid import UUID

from holdfast._core.job import Token
from proof.checker.history import Event, JobRow, LeaseRow

_ROLE_OF_EVENT = {
    "handler.start": "worker",
    "worker.ready": "worker",
    "enqueue": "client",
    "request_cancel": "operator",
    "reopen": "operator",
    "reschedule": "operator",
    "delete": "operator",
}
"""The role of a process that was not introduced, by an event that only this role causes."""
_BEGIN, _END = "\x02", "\x03"
_PLACEHOLDER = f"{_BEGIN}[0-9]+{_END}"


class Aliases:
    """Names for the processes and claims in these events. ``render`` assigns them at the end, in the order in which they are read."""

    def __init__(self, events: Iterable[Event], jobs: Sequence[UUID]) -> None:
        self.workers: dict[UUID, str] = {}  # by the lease
        self.owners: dict[Token, str] = {}
        self._jobs = jobs
        self._roles: dict[str, str] = {}
        self._placeholders: dict[str, str] = {}
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
        elif event.what in _ROLE_OF_EVENT:
            self._roles.setdefault(event.process, _ROLE_OF_EVENT[event.what])
        if isinstance(event.after, JobRow) and event.after.lease is not None:
            self.owners.setdefault(event.after.token, self.workers.get(event.after.lease, ""))

    def role(self, process: str) -> str:
        """Return the role of a process: worker, supervisor, guard, client, operator; its own name if none is known."""
        return self._roles.get(process, process) if process else ""

    def process(self, process: str) -> str:
        """Return ``worker A`` or ``supervisor 1``, with a placeholder for the letter or number; empty if the process is unknown."""
        role = self.role(process)
        if role == process:
            return process
        return f"{role} {self._placeholders.setdefault(process, f'{_BEGIN}{len(self._placeholders)}{_END}')}"

    def claim(self, token: Token) -> str:
        """Return ``claim 4``; two claims have one number where a store has lost a claim in a fail-over."""
        if token.claim is None:
            return "no claim"
        if token not in self._claims:
            twins = sum(each.number == token.number for each in self._claims)
            self._claims[token] = f"claim {token.number}{'' if not twins else _letter(twins).lower()}"
        return self._claims[token]

    def owned(self, token: Token) -> str:
        """Return the claim and its owner."""
        owner = self.whose(self.owners.get(token, ""))
        return f"{self.claim(token)} of {owner}" if owner and token.claim else self.claim(token)

    def whose(self, process: str) -> str:
        """Return what ``process`` returns, in the short form for possession: ``A``."""
        return self.process(process).removeprefix("worker ")

    def job(self, job: UUID | None) -> str:
        """Return ``the job``, or the name of another one in the story."""
        return "the job" if not self._jobs or job == self._jobs[0] else "the other job" if job in self._jobs else "another job"

    def lease(self, lease: UUID) -> str:
        """Return ``the lease of A``."""
        return f"the lease of {self.whose(self.workers.get(lease, '')) or 'an unknown worker'}"

    def name(self, value: object) -> object:
        """Return the name of the value in a sentence; the value itself if it does not name a process, claim, lease or job."""
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
        """Return the text with its names, and a legend with the real names of the processes, for readers of logs."""
        count, names, legend = Counter[str](), dict[str, str](), list[str]()
        processes = {placeholder: process for process, placeholder in self._placeholders.items()}
        for placeholder in re.findall(_PLACEHOLDER, text):
            if placeholder not in names:
                role, process = self.role(processes[placeholder]), processes[placeholder]
                count[role] += 1
                names[placeholder] = _letter(count[role] - 1) if role == "worker" else str(count[role])
                legend.append(f"{role} {names[placeholder]} is {process}")
        twins = [name for name in self._claims.values() if name[-1].isalpha() and name in text]
        legend += [f"{name} has the number of an earlier claim" for name in twins]
        return re.sub(_PLACEHOLDER, lambda found: names[found[0]], text), ", ".join(legend)


def _letter(number: int) -> str:
    return ascii_uppercase[number] if number < len(ascii_uppercase) else str(number + 1)
