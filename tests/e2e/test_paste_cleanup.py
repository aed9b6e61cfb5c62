"""examples/paste_cleanup: under faults of workers and bucket, each paste is deleted once, its object with the last paste of it.

``E2E_PASTES=1000000 pytest tests/e2e/test_paste_cleanup.py -s -k 'killed and postgres'`` is the long run; it prints its figures.
"""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.paste_cleanup.bucket_server import BucketServer
from tests.e2e.fleet import START, fleet, thaw
from tests.e2e.paste_figures import EXAMPLE
from tests.e2e.paste_shop import LIMIT, PasteShop, Size
from tests.e2e.waiting import until

SIZES = {"postgres": Size(8_000, 800, 400, batch=100), "sqlite": Size(4_000, 400, 200, batch=50)}
FAULTS = [
    pytest.param({"failing": 0.05, "losing": 0.01, "refusing": 0.001}, id="failing"),
    pytest.param({}, id="sound", marks=pytest.mark.prove),
]


@pytest.fixture
def shop(tmp_path: Path, store_url: str) -> Iterator[PasteShop]:
    with BucketServer() as bucket, fleet(tmp_path, url=store_url) as ships:
        yield PasteShop(ships, bucket, Size.wished(SIZES["postgres" if store_url else "sqlite"]))


@pytest.mark.prove
@pytest.mark.timeout(LIMIT)
@pytest.mark.parametrize("faults", FAULTS)
def test_workers_are_killed_and_frozen_and_each_paste_goes_once_and_its_object_with_the_last(
    shop: PasteShop, faults: dict[str, float]
) -> None:
    shop.fill()
    shop.bucket.fail(**faults)
    frozen = shop.freeze_a_crew_that_holds("pastes")
    crew = shop.ships.crew("--processes", "4", "--concurrency", "2")
    figures = shop.clean(crew, frozen)
    shop.close(crew, frozen.crew)
    print(figures.write(shop.ships.folder, store=shop.ships.url.partition(":")[0], faults=faults, **shop.size._asdict()))
    assert figures.kills
    shop.judge(added=figures.kills)
    assert "rows.lost" in frozen.crew.log_text(), "the frozen worker has not noticed that its rows were taken"


@pytest.mark.prove
@pytest.mark.timeout(120)
def test_a_worker_that_deletes_objects_late_harms_no_paste_of_the_same_text(tmp_path: Path, store_url: str) -> None:
    with BucketServer() as bucket, fleet(tmp_path, url=store_url) as ships:
        shop = PasteShop(ships, bucket, Size(16, 8, 2, batch=8, delay=1.0))
        shop.fill()
        frozen = shop.freeze_a_crew_that_holds("contents")
        objects = set(bucket.objects)
        for content in range(8):
            shop.paste(content)
        crew = shop.ships.crew()
        until(lambda: shop.is_replaced(frozen) and shop.is_clean(), within=60)
        gone, calls = objects - set(bucket.objects), bucket.calls["deletes"]
        thaw(frozen.pids)
        until(lambda: bucket.calls["deletes"] > calls, within=START)
        shop.close(crew, frozen.crew)
        assert gone
        shop.judge(added=8)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the bucket.py of the example, imported from its folder."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    found = importlib.import_module("bucket")
    monkeypatch.delitem(sys.modules, "bucket")
    return found


def test_two_thousand_objects_are_deleted_by_two_calls(driver: Any) -> None:
    with BucketServer() as bucket:
        bucket.objects.update(dict.fromkeys(map(str, range(2001)), b""))
        gone = driver.Bucket(bucket.url).delete(list(map(str, range(2000))))
        assert (gone, set(bucket.objects), bucket.calls["deletes"]) == (list(map(str, range(2000))), {"2000"}, 2)


def test_a_bulk_delete_that_fails_for_some_keys_leaves_only_those(driver: Any) -> None:
    with BucketServer() as bucket:
        bucket.objects.update(dict.fromkeys(map(str, range(1000)), b""))
        bucket.locked = {"7", "8", "900"}
        gone = driver.Bucket(bucket.url).delete(list(map(str, range(1000))))
        assert set(bucket.objects) == bucket.locked
        assert sorted(set(map(str, range(1000))) - set(gone)) == ["7", "8", "900"]
        assert len(gone) == 997
        assert bucket.calls["deletes"] <= 60


def test_a_bulk_delete_whose_answers_are_lost_is_not_taken_for_done(driver: Any) -> None:
    with BucketServer() as bucket:
        bucket.fail(losing=1.0)
        assert driver.Bucket(bucket.url).delete(["mine"]) == []
