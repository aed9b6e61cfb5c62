"""The one view behind ``holdfast.integrations.django.urls``."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse

from holdfast.dashboard import Dashboard
from holdfast.errors import ConfigurationError
from holdfast.integrations.django.access import PERSON, Person, allows, django, person_of
from holdfast.integrations.django.bridge import answered, scope_of
from holdfast.integrations.django.options import OF_PROJECT
from holdfast.integrations.django.wiring import backends, project_app
from holdfast.sync import PORTAL

NEEDED: Final = "These pages are for staff with the permission holdfast.view: ask who gives permissions in this project."


@cache
def dashboard() -> Dashboard:
    """Return the dashboard that the setting ``HOLDFAST`` describes. Raises ``ConfigurationError`` if it cannot be read."""
    given: Mapping[str, Any] = getattr(settings, "HOLDFAST", {})
    problems = [f"HOLDFAST: there is no {name!r}: use {', '.join(OF_PROJECT)}" for name in given if name not in OF_PROJECT]
    named, there_are = given.get("APP"), backends()
    if not isinstance(named, str) and (named is not None or not there_are):
        problems.append('HOLDFAST: name your App in settings.py: HOLDFAST = {"APP": "shop.tasks:app"}')
    if problems:
        raise ConfigurationError(problems)
    return Dashboard(
        project_app(),
        authenticate=django,
        authorize=allows,
        actions=given.get("ACTIONS", False) is True,
        title=given.get("TITLE", "Holdfast"),
    )


async def view(request: HttpRequest, path: str = "") -> HttpResponse:
    """Answer one request of a user of the project; a stranger who opens a page is sent to the login."""
    person, is_known = await sync_to_async(_sender)(request)
    if not is_known and request.method in ("GET", "HEAD") and not path.startswith(("api/", "static/")):
        return redirect_to_login(request.get_full_path())
    if person is None and is_known and not path.startswith("static/"):
        return HttpResponse(f"{NEEDED}\n", status=403, content_type="text/plain")
    scope = {**scope_of(request, path), PERSON: person}
    if isinstance(request, ASGIRequest):
        return await answered(dashboard(), scope, request.body)
    if path.endswith("/events"):  # WSGI would give a thread to each open page, which reads itself again without a stream
        return _no_stream(request)
    # Each request of WSGI has a separate event loop; the store's connections stay in one.
    return await sync_to_async(lambda body: PORTAL.run(answered(dashboard(), scope, body)))(request.body)


# The dashboard's forms have separate tokens, and it looks at where a request comes from: Django's tokens would add nothing.
view.csrf_exempt = True  # type: ignore[attr-defined]


def _no_stream(request: HttpRequest) -> HttpResponse:
    """Answer who asks for a stream: a program learns why there is none; a page is quiet at 204, and reports an error at 501."""
    if "sec-fetch-mode" in request.headers:
        return HttpResponse(status=204)
    return HttpResponse("Streams need ASGI.\n", status=501, content_type="text/plain")


def _sender(request: HttpRequest) -> tuple[Person | None, bool]:
    """Return who sends a request, if the user may look, and whether it is a user at all. Permissions are in Django's database."""
    user = getattr(request, "user", None)
    if user is None:
        raise ConfigurationError(["MIDDLEWARE: django.contrib.auth.middleware.AuthenticationMiddleware is missing: add it"])
    return person_of(user), bool(user.is_authenticated)
