"""The settings of the shop. ``SHOP_DATABASE``: its database, as JSON. ``SHOP_OPTIONS``: those of its backend."""

import json
import os

SECRET_KEY = "test"
USE_TZ = True
DEBUG = False
DATABASES = {
    "default": json.loads(os.environ.get("SHOP_DATABASE", '{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}'))
}
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "holdfast.integrations.django",
    "tests.django.shop",
]
TASKS = {
    "default": {
        "BACKEND": "holdfast.integrations.django.HoldfastBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": json.loads(os.environ.get("SHOP_OPTIONS", "{}")),
    }
}
