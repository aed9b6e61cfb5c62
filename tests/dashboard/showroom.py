"""A store with something on each page of the dashboard."""

import asyncio
from pathlib import Path
from uuid import UUID

from holdfast import App, Backoff, Job, Limit, every
from holdfast._core.identity import ProcessIdentity
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest, NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._system.clock import SystemRandomness
from holdfast.opening import open_store
from tests.dashboard.past import remember

PROCESS = ProcessIdentity("elsewhere", 7, 700, "boot", "pid:1", "time:1")


def furnish(folder: Path) -> str:
    """Fill a store in a SQLite file; return its URL."""
    url = f"sqlite:///{folder}/jobs.db"
    app = App(url)

    @app.task(max_attempts=2, backoff=Backoff.fixed("0s"))
    async def sync_orders(job: Job, shop: str) -> int:
        await job.progress(fraction=0.4, stage="fetch", message="page 2 of 5")
        if shop == "closed":
            raise KeyError("sku")
        return 7

    @app.task(limit=Limit(concurrency=2), queue="imports")
    async def import_catalog(job: Job, shop: str) -> None:
        """Nothing is left to do."""

    with app.workflow("report") as flow:
        fetched = flow.add(sync_orders.bind("north"), name="fetch")
        flow.add(import_catalog.bind("north"), name="import", after=[fetched])
    for shop in ("north", "south", "closed"):
        sync_orders.enqueue(shop)
    app.schedules.set("refresh", every("5m"), sync_orders.bind("north"))
    app.run_due()
    for number in range(3):
        import_catalog.enqueue(f"shop {number}")
    app.queues.pause("mail")
    sync_orders.options(queue="mail").enqueue("east")
    app.close()
    asyncio.run(remember(folder, PROCESS))
    asyncio.run(_claim(app))
    return url


async def _claim(app: App) -> list[UUID]:
    store, chance = open_store(app.settings), SystemRandomness()
    lease = NewLease(
        chance.uuid4(), "elsewhere-7-0000", PROCESS, LeaseTiming.of("1h"), ("imports",), ("import_catalog",), slots=2
    )
    await store.open_lease(lease)
    request = ClaimRequest(lease=lease.id, claim=chance.uuid4(), tasks={"import_catalog": Policy()}, limit=1)
    claims = (await store.exchange((), request)).claims
    await store.close()
    return [claim.job.id for claim in claims]
