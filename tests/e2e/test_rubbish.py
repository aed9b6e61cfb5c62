"""Invalid payloads, written past all checks: each fails when it is run, for its own reason, and affects no other job."""

import math
from itertools import product
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast import PayloadInvalid
from proof.checker import history_sqlite
from tests.e2e.fleet import START, Fleet, fleet
from tests.e2e.waiting import until

CAP = 256 * 1024
DEEP = 10_000
RUBBISH: dict[str, object] = {
    "nothing": b"",
    "undecodable": b"\xff\xfe\x00number",
    "undecodable within": b'{"number": "\xff\xfe"}',
    "cut off": b'{"number": 1',
    "two": b'{"number": 1}{"number": 2}',
    "not an object": b"[1]",
    "null": b"null",
    "a text": b'"number"',
    "missing": b"{}",
    "wrong type": b'{"number": "seven"}',
    "a fraction": b'{"number": 1.5}',
    "not a number": b'{"number": NaN}',
    "infinite": b'{"number": 1e999}',
    "a lone surrogate": b'{"number": "\\ud800"}',
    "too many digits": b'{"number": ' + b"9" * 5000 + b"}",
    "deep": b'{"number": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "large": b'{"number": "' + b"x" * CAP + b'"}',
    "pickled": b"\x80\x04\x95\x0c\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.",
    "SQL text": '{"number": "seven"}',
    "SQL integer": 42,
    "SQL real": 1.5,
    "SQL null": None,
}
TASKS = ("count", "count_on_the_loop", "count_in_runner")


def nested(depth: int) -> Any:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def spoil(ships: Fleet, jobs: dict[tuple[str, str], UUID]) -> None:
    with history_sqlite.opened(ships.folder / "jobs.db") as connection:
        for (_, name), job in jobs.items():
            connection.execute("UPDATE holdfast_jobs SET payload = ? WHERE id = ?", (RUBBISH[name], job.bytes))


def test_l4_rubbish_in_the_store_fails_alone_and_its_neighbours_complete(tmp_path: Path) -> None:
    with fleet(tmp_path) as ships:
        ships.target = "tests.e2e.fault_jobs:app"
        jobs, neighbours = {}, []
        for number, (task, name) in enumerate(product(TASKS, RUBBISH)):
            jobs[task, name] = ships.enqueue(task, number=0)
            neighbours.append(ships.enqueue(task, number=number))
        spoil(ships, jobs)
        crew = ships.crew()
        (worker,) = crew.workers()
        for kind, job in jobs.items():
            until(lambda job=job: ships.view(job).state in ("failed", "completed"), within=START)  # type: ignore[misc]
            view = ships.view(job)
            assert (kind, view.state, view.reason, view.failures) == (kind, "failed", "PAYLOAD_INVALID", 1)
            assert view.error is not None
            assert len(str(view.error)) < 1000
        assert [ships.until_state(job, "completed", within=START).result for job in neighbours] == list(range(len(jobs)))
        assert crew.workers() == [worker]
        assert "Traceback" not in crew.log_text()


NO_JSON: dict[str, dict[str, Any]] = {
    "not a number": {"number": math.nan},
    "infinite within": {"number": [1, {"deep": -math.inf}]},
    "a lone surrogate": {"number": "\ud800"},
    "a lone surrogate as a name": {"\udcff": 1},
    "large": {"number": "x" * CAP},
    "deep": {"number": nested(DEEP)},
    "an object": {"number": object()},
    "a complex number": {"number": {1j}},
    "a type": {"number": int},
}


@pytest.mark.parametrize("kind", NO_JSON)
def test_l4_a_payload_that_is_not_json_is_refused_when_it_is_enqueued_even_without_the_code(tmp_path: Path, kind: str) -> None:
    with fleet(tmp_path) as ships:
        with pytest.raises(PayloadInvalid):
            ships.enqueue("count", **NO_JSON[kind])
        assert ships.app.jobs.counts().get("available", 0) == 0
