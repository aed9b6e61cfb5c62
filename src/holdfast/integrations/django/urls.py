"""``path("jobs/", include("holdfast.integrations.django.urls"))``."""

from django.urls import path

from holdfast.integrations.django.views import view

app_name = "holdfast"
urlpatterns = [path("", view, name="overview"), path("<path:path>", view, name="page")]
