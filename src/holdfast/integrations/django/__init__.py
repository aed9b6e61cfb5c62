"""Holdfast in a Django project: the dashboard below a path of its URLs, for the users of the project.

>>> # settings.py: INSTALLED_APPS += ["holdfast.integrations.django"]; HOLDFAST = {"APP": "shop.tasks:app", "ACTIONS": True}
>>> # urls.py:     path("jobs/", include("holdfast.integrations.django.urls"))
"""
