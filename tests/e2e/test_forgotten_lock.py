"""A session that does not end its transaction keeps two jobs locked: only these two wait for it."""

from pathlib import Path

import psycopg
import pytest

from tests.e2e.fleet import START, fleet
from tests.e2e.machines import Machine
from tests.e2e.waiting import STALL

SETTINGS = {"ttl": "3s", "recovery": "0.5s"}
BOUND = 3.0 + 0.5 + 0.6 + 0.5  # ttl, recovery interval, a beat, half a margin: until an expired lease is ended


@pytest.mark.prove
def test_l11_a_forgotten_lock_on_one_job_delays_neither_rescue_nor_siblings(tmp_path: Path, postgres_dsn: str) -> None:
    with fleet(tmp_path, url=postgres_dsn, **SETTINGS) as ships, psycopg.connect(postgres_dsn) as forgetful:
        doomed = ships.crew("--concurrency", "3", machine=Machine("web-1"))
        lost = [ships.enqueue("wait", gate="gate") for _ in range(3)]
        for job in lost:
            ships.entry(job, "start")
        ships.crew("--concurrency", "7", machine=Machine("web-2"))
        ended = [ships.enqueue("wait", gate="early") for _ in range(4)]
        for job in ended:
            ships.entry(job, "start")
        locked = [lost[0], ended[0]]
        forgetful.execute("SELECT FROM holdfast.active WHERE id = ANY(%s) FOR KEY SHARE", [locked])
        ships.open("early")
        for job in ended[1:]:
            assert ships.until_state(job, "completed", within=STALL).attempt == 1
        doomed.kill()
        for job in lost[1:]:
            ships.entry(job, "start", number=2, within=BOUND + STALL)
        assert [ships.view(job).state for job in locked] == ["running", "running"]
        log_text = "".join(crew.log_text() for crew in ships.crews)
        assert "store.busy" in log_text
        assert "store.unavailable" not in log_text
        forgetful.rollback()
        assert ships.until_state(ended[0], "completed", within=STALL).attempt == 1
        ships.entry(lost[0], "start", number=2, within=STALL)
        ships.open("gate")
        for job in lost:
            assert ships.until_state(job, "completed", within=START).crashes == 1
