"""A job that kills its worker each time, and the jobs that run beside it."""

import os
import time
from pathlib import Path

import pytest

from tests.e2e.fleet import fleet

INNOCENTS = int(os.environ.get("E2E_INNOCENTS", "9"))
"""Jobs beside the poison; 99 once for the acceptance."""


@pytest.mark.prove
@pytest.mark.timeout(300)
def test_s9_innocents_beside_a_poison_job_complete_and_it_ends_after_three_deaths(tmp_path: Path) -> None:
    with fleet(tmp_path, ttl="6s") as ships:
        poison = ships.enqueue("kill_the_worker")
        innocents = [ships.enqueue("be_innocent") for _ in range(INNOCENTS)]
        began = time.monotonic()
        crew = ships.crew("--concurrency", str(INNOCENTS + 1), "--until-empty", is_ready=False)
        assert crew.wait(within=280) == 0
        print(f"{INNOCENTS} innocents and the poison ended after {time.monotonic() - began:.1f} s")
        view = ships.view(poison)
        assert (view.state, view.reason, view.crashes) == ("failed", "WORKER_CRASHED", 3)
        assert [attempt.outcome for attempt in view.attempts] == ["crashed"] * 3
        assert len(ships.journal.read(poison, "start")) == 3
        assert {ships.view(job).state for job in innocents} == {"completed"}
        assert max(ships.view(job).crashes for job in innocents) == 2, "they did run beside it"
