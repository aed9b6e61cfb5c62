"""Holdfast in a Django project: the dashboard below a path of its URLs, for the users of the project.

``settings.py`` names the application in ``INSTALLED_APPS`` and has ``HOLDFAST = {"APP": "shop.tasks:app", "ACTIONS": True}``;
``urls.py`` has ``path("jobs/", include("holdfast.integrations.django.urls"))``.
"""
