"""An enqueue and the transaction of its caller."""

import unittest
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.tasks import TaskResultStatus
from django.tasks.exceptions import TaskResultDoesNotExist
from django.tasks.signals import task_enqueued
from django.test import TestCase as Case

from holdfast import App
from tests.django.shop import tasks
from tests.django.shop.models import Order

THREADS, EACH = 8, 10


def enqueued(app: App) -> int:
    """Return how many jobs the store has."""
    return len(app.jobs.list(limit=1000))


def order(number: int, *, fails: bool = False) -> Any:
    """Write an order and its job in one transaction."""
    with transaction.atomic():
        Order.objects.create(number=number)
        result = tasks.ship.enqueue(number)
        if fails:
            raise OSError("sold out")
    return result


def test_a_job_exists_if_its_row_does(app: App) -> None:
    with pytest.raises(OSError, match="sold out"):
        order(1, fails=True)
    assert (enqueued(app), Order.objects.count()) == (0, 0)
    with transaction.atomic():
        Order.objects.create(number=2)
        result = tasks.ship.enqueue(2)
        with pytest.raises(OSError, match="sold out"):
            order(3, fails=True)
        with pytest.raises(TaskResultDoesNotExist):
            tasks.ship.get_result(result.id)
    app.run_due()
    result.refresh()
    assert (result.return_value, enqueued(app), Order.objects.get().shipped) == (True, 1, 1)


def test_nothing_is_announced_before_the_commit(app: App) -> None:
    seen = []

    def receive(task_result: Any, **_: Any) -> None:
        seen.append(tasks.ship.get_result(task_result.id).status)

    task_enqueued.connect(receive)
    try:
        with pytest.raises(OSError, match="sold out"):
            order(1, fails=True)
        assert seen == []
        order(2)
    finally:
        task_enqueued.disconnect(receive)
    assert seen == [TaskResultStatus.READY]


def test_a_connection_without_autocommit_is_a_transaction(app: App) -> None:
    transaction.set_autocommit(False)
    try:
        tasks.add.enqueue(1)
        transaction.rollback()
        assert enqueued(app) == 0
        tasks.add.enqueue(1)
        transaction.commit()
        assert enqueued(app) == 1
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)


def test_after_commit_writes_then(app: App, options: Callable[..., None]) -> None:
    options(TRANSACTION="after_commit")
    with pytest.raises(OSError, match="sold out"):
        order(1, fails=True)
    with transaction.atomic():
        result = tasks.ship.enqueue(1)
        assert enqueued(app) == 0
    assert (enqueued(app), tasks.ship.get_result(result.id).id) == (1, result.id)


def test_a_store_elsewhere_waits_for_the_commit(database: Any, options: Callable[..., None]) -> None:
    options(URL="memory://")
    with pytest.raises(OSError, match="sold out"):
        order(1, fails=True)
    with transaction.atomic():
        result = tasks.ship.enqueue(1)
        with pytest.raises(TaskResultDoesNotExist):
            tasks.ship.get_result(result.id)
    assert tasks.ship.get_result(result.id).status == TaskResultStatus.READY


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)  # SQLite has one lock: a system check refuses it there
def test_now_is_at_once(app: App, options: Callable[..., None]) -> None:
    options(TRANSACTION="now")
    with pytest.raises(OSError, match="sold out"):
        order(1, fails=True)
    assert (enqueued(app), Order.objects.count()) == (1, 0)


def test_rollbacks_of_many_threads_leave_no_job(app: App) -> None:
    def run(thread: int) -> int:
        kept = 0
        try:
            for each in range(EACH):
                number = thread * EACH + each
                try:
                    order(number, fails=number % 2 == 0)
                    kept += 1
                except OSError:
                    continue
            return kept
        finally:
            connections.close_all()

    with ThreadPoolExecutor(THREADS) as pool:
        kept = sum(pool.map(run, range(THREADS)))
    rows = set(Order.objects.values_list("number", flat=True))
    jobs = [each.payload["args"][0] for each in app.jobs.list(limit=1000)]
    assert (len(jobs), set(jobs)) == (kept, rows) == (THREADS * EACH // 2, {n for n in range(THREADS * EACH) if n % 2})


@pytest.mark.usefixtures("database")
def test_testcase_rolls_jobs_back_with_its_rows(app: App) -> None:
    class Ordering(Case):
        def test_order(self) -> None:
            with self.captureOnCommitCallbacks(execute=True):
                self.result = order(1)
            assert self.result.status == TaskResultStatus.READY
            assert connection.in_atomic_block

    found = unittest.TestResult()
    unittest.TestSuite([Ordering("test_order")]).run(found)
    assert (found.errors, found.failures, found.testsRun) == ([], [], 1)
    assert (enqueued(app), Order.objects.count()) == (0, 0)
