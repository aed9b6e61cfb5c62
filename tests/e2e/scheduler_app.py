"""A program as users of a scheduler over MongoDB write it: tasks with their options, a schedule, and a listener of events.

Set by the environment: HOLDFAST_URL, and WALK_FOLDER, where the events and the gates are.
"""

import asyncio
import json
import os
from pathlib import Path

from holdfast import App, Backoff, Event, Job, every

FOLDER = Path(os.environ["WALK_FOLDER"])

app = App(ttl="3s", recovery_interval="0.5s", poll_interval="0.5s", grace="0.5s")


@app.on("*")
def remember(event: Event) -> None:
    """Append the event to a file: each process has one."""
    with (FOLDER / f"events-{os.getpid()}").open("a") as file:
        file.write(json.dumps({"event": event.name, **event.fields}, default=str) + "\n")


@app.task(max_attempts=1, retention="1h")
async def report(job: Job) -> int:
    """Fail each other time; in between, take longer than the schedule's interval."""
    seen = FOLDER / "reports"
    seen.mkdir(exist_ok=True)
    (seen / f"{job.id}").touch()
    if len(list(seen.iterdir())) % 2:
        raise ValueError("no figures yet")
    await asyncio.sleep(1.5)
    return 1


@app.task(max_attempts=3, backoff=Backoff.exponential("0.2s", cap="0.3s"))
async def flaky(job: Job) -> int:
    """Succeed the third time."""
    if job.attempt < 3:
        raise ConnectionError("try again")
    return job.attempt


@app.task(timeout="0.5s", max_attempts=1)
async def endless() -> None:
    """Wait for an event that no code sets."""
    await asyncio.Event().wait()


@app.task
async def wait(gate: str) -> str:
    """Run until a gate opens."""
    while not (FOLDER / gate).exists():  # noqa: ASYNC110 - the test opens it
        await asyncio.sleep(0.02)
    return gate


@app.task(retention="0.1s")
async def brief() -> None:
    """Return at once: the job is deleted 0.1 s after its end."""


app.schedule(every("1s"), report.bind(), name="reports", overlap="skip")
