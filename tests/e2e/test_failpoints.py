"""Every named point between a process and its store is a place to die at."""

import random
from functools import partial
from pathlib import Path

import pytest

from holdfast.testing.checker import Rules
from tests.e2e import failpoints
from tests.e2e.fleet import START, fleet
from tests.e2e.test_torture import SEED, Tormentor
from tests.e2e.waiting import until

WORKER = ("claim", "settle", "report", "held", "next_due")
SUPERVISOR = ("open_lease", "beat", "settle", "end_lease", "expired", "overdue", "workers")
POINTS = tuple(
    f"{role}.{deed}.{side}"
    for role, deeds in (("worker", WORKER), ("supervisor", SUPERVISOR))
    for deed in deeds
    for side in ("before", "after")
)
MAIN = ("-c", "from tests.e2e.failpoints import supervise; supervise()")


@pytest.mark.timeout(180)
def test_s15_a_process_that_dies_before_or_after_any_call_of_its_store_loses_nothing(tmp_path: Path) -> None:
    with fleet(tmp_path, ttl="3s", recovery="0.5s") as ships:
        ships.environment["E2E_FAILPOINTS"] = ",".join(POINTS)
        ships.main = MAIN
        tormentor = Tormentor(ships, random.Random(SEED), crews=1)
        hit = 0
        while hit < len(POINTS):
            tormentor.enqueue(4)
            hit = until(partial(_hits, tormentor, ships.folder, hit), within=START)
        _replaced(tormentor)
        tormentor.deeds += failpoints.deeds(ships.folder)
        tormentor.stop(Rules(bound=3.003 + 0.5 + 2.0))


def _hits(tormentor: Tormentor, folder: Path, before: int) -> int:
    """How many points were died at, once those are more; 0 as long as they are not."""
    _replaced(tormentor)
    found = len(list(folder.glob("failpoint-[ws]*")))
    return found if found > before else 0


def _replaced(tormentor: Tormentor) -> None:
    if tormentor.crews[0].process.poll() is not None:
        tormentor.crews = [tormentor.sail(is_ready=False)]
