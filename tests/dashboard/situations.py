"""Six situations in which a shop needs an operator. Each leaves a store that shows one trouble on the overview, and little else."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from holdfast import App, Limit
from holdfast._core.job import ActiveJob, Failure, RescueReason
from holdfast._core.lifecycle import LeaseEnd, finish, rescue
from holdfast._core.outcome import Done, Raised
from holdfast._core.policy import Policy
from holdfast._core.requests import AttemptNote, ClaimKind, NewLease
from tests.dashboard.shop import CLOSE, SLOTS, Shop, busy

ONCE = Policy(max_attempts=1)
EXPIRED = LeaseEnd(RescueReason.EXPIRED)
BUG = Failure(
    "KeyError",
    "'sku'",
    "Traceback (most recent call last):\n  File \"/srv/shop/orders.py\", line 118, in sync_line\nKeyError: 'sku'\n",
    "builtins.KeyError",
    "5a41ab0c77d2e913",
)


async def wave_of_errors(shop: Shop) -> None:
    """Nine minutes ago a release brought workers whose code has a bug."""
    old = [await shop.worker("web1"), await shop.worker("web2")]
    await busy(shop, *old)
    for each in old:
        await shop.end_lease(each, LeaseEnd(RescueReason.CLOSED, is_free=True), ago=545.0)
    new = [await shop.worker("web1", ago=540.0), await shop.worker("web2", ago=540.0)]
    await shop.enqueue("sync_orders", 400, ago=530.0, policy=ONCE)
    for ago in range(520, 20, -50):
        for lease in new:
            await shop.end(await shop.claim(lease, "sync_orders", 20, ago=ago + 1, policy=ONCE), ago=ago, how=Raised(BUG))
    await shop.beat(*new)
    await shop.minutes(*new, failed=(44, 44, 46, 44, 46, 44, 44, 44, 44))


async def paused_queue(shop: Shop) -> None:
    """Two hours ago an operator paused a queue, and gave no reason; its jobs wait."""
    workers = await _well(shop)
    await shop.enqueue("import_catalog", 240, ago=7000.0, queue="imports")
    await shop.pause("imports", who="anna", ago=7300.0)
    await shop.enqueue("import_catalog", 172, ago=600.0, queue="imports")
    await _end(shop, workers)


async def zombie(shop: Shop) -> None:
    """A worker froze; its job was taken back and ran elsewhere. Then the worker thawed, and its answer was refused."""
    workers = await _well(shop)
    frozen = await shop.worker("web3")
    await shop.enqueue("charge_card", 1, ago=250.0)
    (job,) = await shop.claim(frozen, "charge_card", ago=249.0)
    await shop.beat(*workers, ago=219.0)
    await _take_back(shop, frozen, [job], ago=218.0)
    (again,) = await shop.claim(workers[0], "charge_card", ago=217.0)
    await shop.end([again], ago=215.0)
    late = finish(job, Done(b'"charged"'), jitter=0.0)
    assert await shop.move(late, ago=90.0) == ["lost"]
    await shop.store.annotate((AttemptNote(job=job.id, token=job.token, late_result=b'"charged"'),))
    await _end(shop, workers)


async def full_limit(shop: Shop) -> None:
    """Two reports hold both slots of a limit for twenty minutes, and others wait. The older one still makes progress."""
    workers = await _well(shop)
    await shop.limit("render_report", Limit(concurrency=2), ago=7000.0)
    await shop.enqueue("render_report", 38, ago=1300.0)
    (oldest,), _ = [await shop.claim(lease, "render_report", ago=1260.0, kind=ClaimKind.LIMITED) for lease in workers]
    await shop.progress(oldest, 0.4, "pages", ago=12.0)
    await _end(shop, workers)


async def unknown_task(shop: Shop) -> None:
    """The web servers enqueue a task of a newer release, whose workers have not been started."""
    workers = await _well(shop)
    await shop.enqueue("render_report_v2", 41, ago=360.0)
    await _end(shop, workers)


async def dead_machine(shop: Shop) -> None:
    """A machine with two workers is gone; their jobs were taken back, and wait for the slots of another one."""
    workers = await _well(shop, slots=6)
    dead = [await shop.worker("web3"), await shop.worker("web3")]
    await shop.enqueue("render_report", 12, ago=190.0)
    held = [await shop.claim(lease, "render_report", 6, ago=189.0) for lease in dead]
    await shop.beat(*workers, *dead, ago=185.0)
    for lease, jobs in zip(dead, held, strict=True):
        await _take_back(shop, lease, jobs, ago=150.0)
    for lease in workers:
        await shop.claim(lease, "render_report", 3, ago=149.0)
    await shop.enqueue("charge_card", 3, ago=4.0)
    await shop.claim(workers[1], "charge_card", 3, ago=3.0)
    await _end(shop, workers)


SITUATIONS: Final[Mapping[str, Callable[[Shop], Awaitable[None]]]] = {
    "wave": wave_of_errors,
    "paused": paused_queue,
    "zombie": zombie,
    "limit": full_limit,
    "unknown": unknown_task,
    "machine": dead_machine,
}


async def prepare(situation: str, folder: Path) -> str:
    """Make a store in this situation; return its URL."""
    url = f"sqlite:///{folder}/jobs.db"
    app = App(url)
    await app.amigrate()
    await app.aclose()
    shop = Shop(folder)
    await SITUATIONS[situation](shop)
    await shop.store.close()
    return url


async def _well(shop: Shop, slots: int = SLOTS) -> list[NewLease]:
    workers = [await shop.worker("web1", slots=slots), await shop.worker("web2", slots=slots)]
    await busy(shop, *workers)
    return workers


async def _end(shop: Shop, workers: list[NewLease]) -> None:
    """Have the workers that are well go on until now."""
    await shop.minutes(*workers)
    await shop.enqueue("send_mail", 3, ago=2.0)
    await shop.claim(workers[0], "send_mail", 3, ago=2.0 - CLOSE)
    await shop.beat(*workers)


async def _take_back(shop: Shop, lease: NewLease, jobs: Sequence[ActiveJob], ago: float) -> None:
    await shop.end_lease(lease, EXPIRED, ago=ago)
    moves = [rescue(each, EXPIRED, jitter=0.0, by="web1-4711") for each in jobs]
    assert set(await shop.move(*moves, ago=ago)) <= {"applied"}
