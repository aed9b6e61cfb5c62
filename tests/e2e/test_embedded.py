"""A worker in a loop that other code blocks: its beats come from a thread, so its jobs stay its own."""

import asyncio
import os
import threading
from importlib import import_module
from pathlib import Path

import pytest

from holdfast import App
from tests.e2e.scripted_workers import is_alive
from tests.engine.support import until
from tests.event_loops import run

SHOP = """
import os
from holdfast import App, SyncJob

app = App("{url}", poll_interval="50ms")

@app.task(process=True)
def where(job: SyncJob) -> int:
    job.checkpoint({{"seen": True}})
    return os.getpid()
"""


def test_a_loop_blocked_for_longer_than_the_ttl_keeps_its_lease(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    app, watcher = App(url, ttl="3s", poll_interval="50ms"), App(url, ttl="3s")
    blocked, over = threading.Event(), threading.Event()
    seen: list[tuple[float, int]] = []

    @app.task
    async def block() -> str:
        blocked.set()
        threading.Event().wait(4.5)
        await asyncio.to_thread(over.set)
        return "done"

    def watch() -> None:
        blocked.wait()
        while not over.wait(0.1):
            rescued = watcher.recovery.run_once(now=True)
            seen.extend((lease.overdue, len(rescued)) for lease in watcher.workers.list())

    async def main() -> None:
        handle = await block.aenqueue()
        watching = threading.Thread(target=watch)
        watching.start()
        async with app.worker():
            await until(over.is_set)
        watching.join()
        view = await handle.aget()
        assert (view.result, view.attempt, view.crashes) == ("done", 1, 0)
        await app.aclose()

    run(main())
    watcher.close()
    assert len(seen) > 5
    assert [each for each in seen if each[0] >= 0 or each[1]] == []


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/jobs.db"])
async def test_handlers_in_separate_processes_end_with_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    name = f"shop_with_{url.partition(':')[0]}"
    (tmp_path / f"{name}.py").write_text(SHOP.format(url=url.format(tmp_path)))
    monkeypatch.syspath_prepend(tmp_path)
    shop = import_module(name)
    async with shop.app.worker():
        handle = await shop.where.aenqueue()
        runner: int = await handle.aresult(timeout=40)
        assert is_alive(runner)
        assert (await handle.aget()).checkpoint == {"seen": True}
    await shop.app.aclose()
    assert runner != os.getpid()
    assert not is_alive(runner)


def test_run_due_runs_them_in_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_of_tests.py").write_text(SHOP.format(url="memory://"))
    monkeypatch.syspath_prepend(tmp_path)
    shop = import_module("shop_of_tests")
    handle = shop.where.enqueue()
    assert shop.app.run_due() == 1
    assert handle.get().result == os.getpid()
    shop.app.close()
