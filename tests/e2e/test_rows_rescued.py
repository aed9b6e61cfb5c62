"""Rows that a real worker held when it was killed, drained or frozen: free in seconds, done once, counted once."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast._core.table_spec import RowOutcome
from holdfast._ports.table import ClaimedRows, Table
from tests.e2e.fleet import START, Fleet, fleet, thaw
from tests.e2e.scripted_workers import end
from tests.e2e.server_site import ON_BOTH
from tests.e2e.waiting import until
from tests.rows.databases import OWNED, Ground, keys

ALL = dict.fromkeys(range(1, 11), "GONE")


class Shop:
    """A fleet whose store has a table of ten pastes beside the jobs, and a count of references to each content."""

    def __init__(self, ships: Fleet) -> None:
        self.ships = ships
        ships.target = "tests.e2e.rows_app:app"
        ships.app.migrate()
        is_file = ships.url.startswith("sqlite:")
        self.ground = Ground("sqlite" if is_file else "postgres", ships.url.removeprefix("sqlite:///"))
        self.ground.make(10)
        self.ground.say("CREATE TABLE contents (number int)")
        self.ground.say("INSERT INTO contents VALUES (10)")

    def busy(self) -> int:
        return list(self.ground.statuses().values()).count("BUSY")

    def number(self) -> int:
        return int(self.ground.say("SELECT number FROM contents")[0][0])

    def until_all_are_gone(self) -> None:
        until(lambda: self.ground.statuses() == ALL, within=START)
        assert self.number() == 0


@pytest.fixture
def shop(tmp_path: Path, store_url: str, request: pytest.FixtureRequest) -> Iterator[Shop]:
    with fleet(tmp_path, url=store_url, **getattr(request, "param", {})) as ships:
        yield Shop(ships)
        print(ships.logs())  # shown if the test fails


@pytest.mark.timeout(120)
@ON_BOTH
def test_s3_rows_of_a_killed_worker_are_back_in_seconds_and_each_is_done_and_counted_once(shop: Shop) -> None:
    crew = shop.ships.crew()
    until(lambda: shop.busy() == 4, within=START)
    for worker in crew.workers():
        end(worker)
    shop.ships.open("gate")
    shop.until_all_are_gone()
    job = shop.ships.journal.read(what="claimed")[0]["job"]
    view = shop.ships.until_state(job, "completed", within=START)
    assert (view.task, view.crashes, view.attempt) == ("rows.pastes", 1, 2)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("shop", [{"grace": "0.3s"}], indirect=True)
def test_l7_a_batch_that_outlasts_the_grace_is_released_before_its_worker_has_ended(shop: Shop) -> None:
    crew = shop.ships.crew()
    until(lambda: shop.busy() == 4, within=START)
    crew.send(signal.SIGTERM)
    assert crew.wait(START) == 0
    assert set(shop.ground.statuses().values()) == {"NEW"}
    (view,) = shop.ships.app.jobs.list()
    assert (view.state, view.crashes, view.failures) == ("available", 0, 0)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("shop", [{"stale": "2s"}], indirect=True)
def test_s3_a_worker_frozen_until_its_rows_are_stale_changes_nothing_when_it_wakes(shop: Shop) -> None:
    sleeping = shop.ships.crew()
    until(lambda: shop.busy() == 4, within=START)
    frozen = sleeping.freeze_outside_of_writes()
    shop.ships.crew()
    shop.ships.open("gate")
    shop.until_all_are_gone()
    thaw(frozen)
    sleeping.send(signal.SIGTERM)
    assert sleeping.wait(START) == 0
    assert (shop.ground.statuses(), shop.number()) == (ALL, 0)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("shop", "fence"),
    [({"ttl": "60s"}, {}), pytest.param({"ttl": "60s", **OWNED}, OWNED, marks=pytest.mark.prove)],
    indirect=["shop"],
    ids=["stamp", "owner"],
)
@ON_BOTH
def test_s3_a_zombie_whose_rows_were_reset_and_taken_again_changes_nothing(shop: Shop, fence: dict[str, Any]) -> None:
    shop.ships.target = "tests.e2e.zombie_app:app"
    sleeping = shop.ships.crew()
    until(lambda: shop.busy() == 5, within=START)
    zombie = sleeping.freeze_outside_of_writes()
    claims: list[ClaimedRows] = []

    async def take_again(table: Table) -> None:
        shop.ground.age()
        assert len(await table.reset(9)) == 5
        claims.append(await table.claim("the next", 99))
        assert len(claims[0].rows) == 10

    async def finish(table: Table) -> None:
        assert sorted(await table.move(claims[0].fence, keys(claims[0]), RowOutcome.DONE)) == [(key,) for key in ALL]

    shop.ground.play(take_again, **fence)
    before = shop.ground.say("SELECT * FROM pastes ORDER BY id")
    shop.ships.open("gate")
    thaw(zombie)
    (entry,) = until(lambda: shop.ships.journal.read(what="meddled"), within=START)
    job = shop.ships.until_state(entry["job"], "completed", within=START)
    assert (entry["moved"], entry["was_lost"], entry["is_alive"]) == ([], True, False if fence else None)
    assert (job.result["done"], job.result["left"], job.attempt) == (0, 0, 1), "it still was the owner of its job"
    assert (shop.ground.say("SELECT * FROM pastes ORDER BY id"), shop.number()) == (before, 10)
    shop.ground.play(finish, **fence)
