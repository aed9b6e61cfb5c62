"""What an embedded worker did is in the history when it has ended."""

from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import App, JobFailed
from holdfast._engine.store_defaults import history
from holdfast.app import environment_of
from holdfast.errors import ConfigurationError


async def test_an_embedded_worker_leaves_its_minute_with_waits_and_outcomes(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'jobs.db'}")

    @app.task(max_attempts=1)
    async def check(number: int) -> None:
        if number == 2:
            raise ValueError

    @app.task
    def sleepy() -> None: ...

    handles = await check.aenqueue_many([{"number": number} for number in range(3)])
    handles.append(await sleepy.aenqueue())
    async with app.worker(concurrency=4):
        for handle in handles:
            with suppress(JobFailed):
                await handle.aresult("20s")
    store, now = environment_of(app).store, (await handles[0].aget()).created_at
    rows = await history(store).minutes(now - timedelta(minutes=1), now + timedelta(minutes=1), 10)
    tasks = {each.task: each for row in rows for each in row.note.tasks}
    assert tasks["check"].outcomes == {"completed": 2, "failed": 1}
    assert (sum(tasks["check"].wait), sum(tasks["check"].run)) == (3, 3)
    assert (sum(tasks["sleepy"].wait), tasks["sleepy"].rescued) == (1, 0)
    assert {row.note.worker for row in rows} == {(await handles[0].aget()).worker}
    with pytest.raises(ConfigurationError, match="whole minutes"):
        await app.ahistory(step="90s")
    await app.aclose()
