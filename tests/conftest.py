"""What every test shares."""

import pytest
from hypothesis import settings

pytest_plugins = [
    "holdfast.testing.servers",
    "tests.servers.absent",
    "tests.stores.postgres_homes",
    "tests.stores.postgres_sites",
]

# A slow machine is not a failing property. Under CI=true Hypothesis chooses its own reproducible profile.
settings.register_profile("here", deadline=None)
if settings.get_current_profile_name() == "default":
    settings.load_profile("here")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that of two processes none is left alone with them at the end."""
    items.sort(key=lambda item: -max((mark.args[0] for mark in item.iter_markers("timeout") if mark.args), default=0))
