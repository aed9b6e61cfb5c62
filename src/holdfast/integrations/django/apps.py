"""The application as ``INSTALLED_APPS`` names it. It has no table; Django makes its permissions."""

from django.apps import AppConfig


class HoldfastConfig(AppConfig):  # type: ignore[misc]
    """``holdfast.integrations.django``."""

    name = "holdfast.integrations.django"
    label = "holdfast"
    verbose_name = "Holdfast"
    default_auto_field = "django.db.models.BigAutoField"
