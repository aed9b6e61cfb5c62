"""Commands run inside the test's process."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import UUID

from click.testing import CliRunner, Result
from msgspec import structs

from holdfast import App
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import RescueReason
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.policy import Policy
from holdfast._core.requests import BeatNote, ClaimRequest, NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._system.clock import SystemRandomness
from holdfast.cli.commands import root
from holdfast.opening import open_store

PROCESS = ProcessIdentity("elsewhere", 7, 700, "boot", "pid:1", "time:1")


def run(*words: str, input: str | None = None) -> Result:
    return CliRunner().invoke(root, words, input=input)


def answer(*words: str) -> Any:
    """Return the document a command answers with."""
    done = run(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def enqueue(payload: str = '{"repo_url": "u"}', task: str = "analyze") -> str:
    done = run("enqueue", "shop:app", task, payload)
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


def claim(folder: Path, task: str, limit: int = 1, *, worker: str = "elsewhere-7-0000", is_dead: bool = False) -> list[UUID]:
    """Have another worker run jobs of that task, and die if wanted; return which ones."""

    async def take() -> list[UUID]:
        store, chance = open_store(App(url(folder)).settings), SystemRandomness()
        lease = NewLease(chance.uuid4(), worker, PROCESS, LeaseTiming.of("1h"), ("default",), (task,), slots=limit)
        await store.open_lease(lease)
        request = ClaimRequest(lease=lease.id, claim=chance.uuid4(), tasks={task: Policy()}, limit=limit)
        claims = (await store.exchange((), request)).claims
        if is_dead:
            await store.end_lease(lease.id, LeaseEnd(RescueReason.CRASHED, "SIGKILL"))
        await store.close()
        return [claim.job.id for claim in claims]

    return asyncio.run(take())


def serve(folder: Path, *queues: str) -> None:
    """Have another worker serve these queues."""

    async def open_lease() -> None:
        store = open_store(App(url(folder)).settings)
        lease = NewLease(SystemRandomness().uuid4(), "elsewhere-7-0000", PROCESS, LeaseTiming.of("1h"), queues, ("analyze",))
        await store.open_lease(lease)
        await store.close()

    asyncio.run(open_lease())


def note(folder: Path, *notes: BeatNote, worker: str) -> None:
    """Have a supervisor note what it knows of a worker, with one beat for each note; their ``lease`` is set here."""

    async def beat() -> None:
        store = open_store(App(url(folder)).settings)
        lease = NewLease(SystemRandomness().uuid4(), worker, PROCESS, LeaseTiming.of("1h"), slots=4)
        await store.open_lease(lease)
        for each in notes:
            await store.beat([lease.id], notes=[structs.replace(each, lease=lease.id)])
        await store.close()

    asyncio.run(beat())


def url(folder: Path) -> str:
    return f"sqlite:///{folder}/jobs.db"
