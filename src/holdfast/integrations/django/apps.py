"""The application as ``INSTALLED_APPS`` names it. It has no table; Django makes its permissions."""

from importlib import import_module

from django.apps import AppConfig
from django.core.checks import Tags, register
from django.db import connections


class HoldfastConfig(AppConfig):  # type: ignore[misc]
    """``holdfast.integrations.django``."""

    name = "holdfast.integrations.django"
    label = "holdfast"
    verbose_name = "Holdfast"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks, and have stores closed before Django drops a test database."""
        from holdfast.integrations.django.checks import check_settings, check_stores, check_transactions
        from holdfast.integrations.django.schema import close_before_drop
        from holdfast.integrations.django.wiring import HAS_TASKS

        if HAS_TASKS:
            import_module("django.tasks")  # which registers Django's check of TASKS, once
        register(check_settings)
        register(check_transactions)
        register(check_stores, Tags.database)
        for connection in connections.all():
            close_before_drop(connection)
