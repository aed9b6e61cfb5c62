"""Tests as the shop has them, for ``manage.py test``: they run in a database that Django makes and drops."""

from django.db import connection
from django.test import TestCase, TransactionTestCase

from holdfast.integrations.django import get_app
from tests.django.shop import tasks
from tests.django.shop.models import Order


class Enqueuing(TestCase):
    """Each test is rolled back, its jobs too."""

    def test_first(self) -> None:
        tasks.ship.enqueue(1)
        assert get_app().jobs.list() == []

    def test_second(self) -> None:
        self.test_first()


class Shipping(TransactionTestCase):
    """Each test commits."""

    def test_ship(self) -> None:
        Order.objects.create(number=1)
        result = tasks.ship.enqueue(1)
        assert "test" in connection.settings_dict["NAME"]
        assert get_app().settings.url.endswith(connection.settings_dict["NAME"])
        assert get_app().run_due() == 1
        result.refresh()
        assert result.return_value is True
