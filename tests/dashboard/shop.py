"""A shop that was busy for the last hour, in a SQLite file: its workers, jobs and minutes, each written at the time it had."""

import json
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from holdfast._core.audit import AuditNote
from holdfast._core.history import MinuteNote, TaskMinute
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import ActiveJob, NewJob
from holdfast._core.lifecycle import LeaseEnd, Transition, finish
from holdfast._core.limits import Limit, Scope, ScopeKind
from holdfast._core.origin import Origin
from holdfast._core.outcome import Done, Outcome
from holdfast._core.policy import Policy
from holdfast._core.requests import BeatNote, ClaimKind, ClaimRequest, NewLease, ProgressUpdate
from holdfast._core.timing import LeaseTiming
from holdfast._system.clock import SystemRandomness
from tests.dashboard.past import PastClock, store_of

TASKS = ("sync_orders", "charge_card", "send_mail", "render_report", "import_catalog")
SLOTS = 20
ALWAYS = Policy()
MINUTES = 60
PER_MINUTE = {"sync_orders": 420, "charge_card": 90, "send_mail": 240}
CLOSE = 0.25
"""Seconds that lie between two writes in which something changes owner."""


class Shop:
    """A store whose past is written; ``ago``: seconds before now."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.chance = PastClock(), SystemRandomness()
        self.process = ProcessIdentity("shop", 1, 1, "boot", "pid:1", "time:1")
        self.store = store_of(folder, self.clock, self.process)
        self._pids = count(4711)

    def at(self, ago: float) -> None:
        """Go to a time in the past."""
        self.clock.behind = ago

    async def worker(self, host: str, *, ago: float = 7200.0, tasks: Sequence[str] = TASKS, slots: int = SLOTS) -> NewLease:
        """Start a worker on a host; it sends no beat."""
        self.at(ago)
        pid = next(self._pids)
        process = ProcessIdentity(host, pid, pid, "boot", f"pid:{pid}", "time:1")
        name = f"{host}-{pid}-{self.chance.uuid4().hex[:8]}"
        lease = NewLease(self.chance.uuid4(), name, process, LeaseTiming.of("30s"), (), tuple(sorted(tasks)), slots=slots)
        assert await self.store.open_lease(lease)
        return lease

    async def beat(self, *leases: NewLease, ago: float = 1.0) -> None:
        """Send one beat for each of the workers."""
        self.at(ago)
        notes = [BeatNote(lease=each.id, kept=86_400.0, running=0, memory=400_000_000, loop_lag=0.003) for each in leases]
        await self.store.beat([each.id for each in leases], notes=notes)

    async def enqueue(self, task: str, number: int = 1, *, ago: float, queue: str = "default", policy: Policy = ALWAYS) -> None:
        """Enqueue jobs of a task."""
        self.at(ago)
        jobs = [NewJob(id=self.chance.uuid7(), payload=b"{}", task=task, policy=policy, queue=queue) for _ in range(number)]
        await self.store.enqueue(self.chance.uuid4(), jobs)

    async def claim(
        self,
        lease: NewLease,
        task: str,
        number: int = 1,
        *,
        ago: float,
        policy: Policy = ALWAYS,
        kind: ClaimKind = ClaimKind.PLAIN,
    ) -> list[ActiveJob]:
        """Have a worker start jobs of a task."""
        self.at(ago)
        request = ClaimRequest(lease=lease.id, claim=self.chance.uuid4(), tasks={task: policy}, limit=number, kind=kind)
        claims = (await self.store.exchange((), request)).claims
        assert len(claims) == number
        return [claim.job for claim in claims]

    async def move(self, *moves: Transition, ago: float) -> list[str]:
        """Write transitions, and return the answers of the store."""
        self.at(ago)
        return [answer.value for answer in (await self.store.exchange(moves)).answers]

    async def progress(self, job: ActiveJob, fraction: float, stage: str, *, ago: float) -> None:
        """Have the code of a job report how far it is."""
        self.at(ago)
        assert not await self.store.report([ProgressUpdate(job=job.id, token=job.token, fraction=fraction, stage=stage)])

    async def end(self, jobs: Sequence[ActiveJob], *, ago: float, how: Outcome | None = None) -> None:
        """Have jobs return or raise."""
        answers = await self.move(*(finish(each, how or Done(b"null"), jitter=0.0) for each in jobs), ago=ago)
        assert set(answers) == {"applied"}

    async def pause(self, queue: str, *, who: str, reason: str | None = None, ago: float) -> None:
        """Have an operator pause a queue."""
        self.at(ago)
        ids = self.chance.uuid4(), self.chance.uuid4()
        chosen = json.dumps({"queues": [queue]})
        note = AuditNote(id=ids[0], write=ids[1], who=who, origin="cli:anna@desk", action="pause", selector=chosen, reason=reason)
        await self.store.pause([queue], is_paused=True, by=note)

    async def limit(self, task: str, limit: Limit, *, ago: float) -> None:
        """Have an operator set the limit of a task."""
        self.at(ago)
        await self.store.set_limit(Scope(ScopeKind.TASK, task), limit, Origin())

    async def end_lease(self, lease: NewLease, why: LeaseEnd, *, ago: float) -> None:
        """Have a supervisor end the lease of a worker."""
        self.at(ago)
        await self.store.end_lease(lease.id, why)

    async def minutes(self, *workers: NewLease, failed: Sequence[int] = (), until: int = 0) -> None:
        """Write the minutes in which workers were busy. ``failed``: failures of ``sync_orders`` in each of the last minutes.

        ``until``: how many minutes ago the workers stopped.
        """
        bad = dict(enumerate(reversed(failed)))
        self.at(0.0)
        since_minute = self.clock.wall() % 60
        for ago in range(MINUTES, until - 1, -1):
            self.at(max(ago * 60.0 + since_minute - CLOSE, 0.0))
            await self.store.record_minutes([self._minute(each, bad.get(ago, 0) // len(workers)) for each in workers])

    def _minute(self, worker: NewLease, failed: int) -> MinuteNote:
        tasks = tuple(
            TaskMinute(
                "default",
                task,
                {
                    "completed": number - (failed if task == "sync_orders" else 0),
                    "failed": failed if task == "sync_orders" else 0,
                },
                (number,),
                (0, 0, number),
            )
            for task, number in PER_MINUTE.items()
        )
        id = self.chance.uuid7()
        return MinuteNote(
            id=id, worker=worker.worker, seconds=60.0, slots=worker.slots, in_use=4.5, memory=400_000_000, tasks=tasks
        )


async def busy(shop: Shop, *workers: NewLease) -> None:
    """Leave what a shop in which all is well leaves: jobs that completed, and some that run."""
    for task in ("sync_orders", "charge_card", "send_mail"):
        await shop.enqueue(task, 60, ago=900.0)
        for lease in workers:
            await shop.end(await shop.claim(lease, task, 60 // len(workers), ago=890.0), ago=880.0)
