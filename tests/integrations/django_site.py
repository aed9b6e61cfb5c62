"""A Django project that serves its admin and the dashboard on a free port: `django_site.py FOLDER asgi|wsgi` prints the address."""

import socket
import sys
from collections.abc import Callable
from typing import Any

import django
from django.conf import settings
from django.http import HttpResponse
from django.urls import include, path

PASSWORD = "correct horse"
SECRET = "ada@shop.example"
STRICT = "default-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
USERS: dict[str, tuple[str, ...]] = {"vera": ("view",), "otto": ("view", "operate"), "carla": ()}
"""Staff beside the superuser root, with their permissions."""
urlpatterns: list[Any] = []


def strict(get_response: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Give pages that have no policy a strict one: a middleware."""

    def answer(request: Any) -> Any:
        response = get_response(request)
        response.headers.setdefault("content-security-policy", STRICT)
        return response

    return answer


def configure(folder: str) -> None:
    """Make the settings of the project, its tables and its addresses."""
    settings.configure(
        ALLOWED_HOSTS=["127.0.0.1"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{folder}/shop.db", "OPTIONS": {"timeout": 20}}},
        HOLDFAST={"DATABASE": "default", "ACTIONS": True, "TITLE": "Shop jobs"},
        INSTALLED_APPS=[
            *(f"django.contrib.{name}" for name in ("admin", "auth", "contenttypes", "messages", "sessions", "staticfiles")),
            "holdfast.integrations.django",
        ],
        LOGIN_URL="admin:login",
        MIDDLEWARE=[
            "__main__.strict",
            "django.middleware.security.SecurityMiddleware",
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.common.CommonMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
            "django.middleware.clickjacking.XFrameOptionsMiddleware",
        ],
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        ROOT_URLCONF="__main__",
        SECRET_KEY="test",
        STATIC_URL="static/",
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                        "django.template.context_processors.request",
                    ]
                },
            }
        ],
        USE_TZ=True,
    )
    django.setup()
    from django.contrib import admin  # noqa: PLC0415 - after the setup
    from django.core.management import call_command  # noqa: PLC0415

    urlpatterns.append(path("admin/", admin.site.urls))
    urlpatterns.append(path("favicon.ico", lambda _: HttpResponse(status=204)))  # Chromium asks for it on pages of the admin
    urlpatterns.append(path("work/", include("holdfast.integrations.django.urls")))
    call_command("migrate", verbosity=0)


def furnish() -> None:
    """Make users with each permission, a job that failed and three that wait."""
    from django.contrib.auth.models import Permission, User  # noqa: PLC0415 - after the setup

    from holdfast.integrations.django import get_app  # noqa: PLC0415

    User.objects.create_superuser("root", password=PASSWORD)
    for name, codenames in USERS.items():
        user = User.objects.create_user(name, password=PASSWORD, is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames, content_type__app_label="holdfast"))
    app = get_app()

    @app.task(max_attempts=1)
    def mail(to: str) -> None:
        raise OSError(f"no such host: {to}")

    mail.enqueue(SECRET)
    app.run_due()
    for name in ("label", "pack", "print"):
        app.enqueue(name, to=SECRET)


def serve(kind: str) -> None:
    """Serve the project until the process is ended, with its static files."""
    from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler, StaticFilesHandler  # noqa: PLC0415 - after the setup
    from django.core.asgi import get_asgi_application  # noqa: PLC0415
    from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler  # noqa: PLC0415
    from django.core.wsgi import get_wsgi_application  # noqa: PLC0415
    from uvicorn import Config, Server  # noqa: PLC0415

    if kind == "asgi":
        site = socket.create_server(("127.0.0.1", 0))
        announce(site.getsockname()[1])
        web = ASGIStaticFilesHandler(get_asgi_application())
        Server(Config(web, lifespan="off", log_level="warning", timeout_graceful_shutdown=1)).run([site])
    else:
        server = ThreadedWSGIServer(("127.0.0.1", 0), WSGIRequestHandler)
        server.set_app(StaticFilesHandler(get_wsgi_application()))
        announce(server.server_port)
        server.serve_forever()


def announce(port: int) -> None:
    """Print the address of the site."""
    sys.stdout.write(f"http://127.0.0.1:{port}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.modules["__main__"] = sys.modules[__name__]
    configure(sys.argv[1])
    furnish()
    serve(sys.argv[2])
