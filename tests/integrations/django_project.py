"""A Django project with the dashboard below ``jobs/``, and what its users see there; written as JSON, because Django has one setting."""

import asyncio
import json
import re
import sys
from typing import Any

import django
from django.conf import settings
from django.urls import include, path

from holdfast import App

app = App(f"sqlite:///{sys.argv[1]}/jobs.db") if __name__ == "__main__" else App("memory://")


@app.task(max_attempts=1)
def mail(to: str) -> str:
    """Deliver nothing to ada."""
    if to == "ada":
        raise OSError("no such host")
    return to


urlpatterns: list[Any] = []


def configure(folder: str) -> None:
    """Make the settings of the project, its tables and its users."""
    settings.configure(
        ALLOWED_HOSTS=["shop.example", "testserver"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{folder}/django.db"}},
        HOLDFAST={"APP": "__main__:app", "ACTIONS": True, "TITLE": "Shop jobs"},
        INSTALLED_APPS=[
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
            "holdfast.integrations.django",
        ],
        MIDDLEWARE=[
            "django.middleware.common.CommonMiddleware",
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
        ],
        ROOT_URLCONF="__main__",
        SECRET_KEY="test",
    )
    django.setup()
    urlpatterns.append(path("tools/jobs/", include("holdfast.integrations.django.urls")))
    from django.contrib.auth.models import Permission, User  # noqa: PLC0415 - after the setup
    from django.core.management import call_command  # noqa: PLC0415

    call_command("migrate", run_syncdb=True, verbosity=0)
    call_command("check")
    permitted = {"vera": ("view",), "otto": ("view", "operate"), "anna": ("view", "operate", "delete", "payload"), "carl": ()}
    for name, codenames in permitted.items():
        user = User.objects.create_user(name, password="x", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames, content_type__app_label="holdfast"))
    User.objects.create_user("guest", password="x")


def look(client: Any, job: str) -> dict[str, Any]:
    """Return the statuses that one user gets."""
    paths = ("", "jobs", f"jobs/{job}", "static/style.css", "api/v1/queues", "api/v1/events", "actions/queue/pause?name=mail")
    found: dict[str, Any] = {each.replace(job, "ID"): client.get(f"/tools/jobs/{each}").status_code for each in paths}
    found["delete"] = client.get(f"/tools/jobs/actions/job/delete?name={job}").status_code
    found["message"] = "no such host" in client.get(f"/tools/jobs/jobs/{job}").content.decode()
    return found


def act(client: Any, job: str) -> dict[str, Any]:
    """Cancel a job in the form of its page, with and without the token of the form."""
    page = client.get(f"/tools/jobs/actions/job/cancel?name={job}")
    token = re.search(r'name="token" value="(\w+)"', page.content.decode())
    form = {"name": job, "token": token[1] if token else ""}
    own = {"origin": "http://shop.example", "sec-fetch-site": "same-origin"}

    def send(headers: dict[str, str], **more: str) -> int:
        body = "&".join(f"{name}={value}" for name, value in {**form, **more}.items())
        kind = "application/x-www-form-urlencoded"
        answer = client.post("/tools/jobs/actions/job/cancel", body, content_type=kind, headers=headers)
        assert answer.status_code != 303 or answer.headers["location"] == f"/tools/jobs/jobs/{job}"
        return int(answer.status_code)

    return {
        "foreign": send({"origin": "https://evil.example"}),
        "without a token": send(own, token=""),
        "state before": app.jobs.get(job).state,
        "with the token": send(own, reason="wrong"),
        "state after": app.jobs.get(job).state,
    }


async def follow(user: Any) -> dict[str, Any]:
    """Look at a page and a stream as ASGI serves them."""
    from django.test import AsyncClient  # noqa: PLC0415 - after the setup

    client = AsyncClient()
    await client.aforce_login(user)
    page = await client.get("/tools/jobs/jobs")
    stream = await client.get("/tools/jobs/api/v1/events")
    first = await anext(aiter(stream.streaming_content))
    await stream.streaming_content.aclose()
    return {
        "page": page.status_code,
        "stream": stream.status_code,
        "kind": stream.headers["content-type"],
        "first": first.decode(),
    }


def main(folder: str) -> None:
    """Print what each user gets."""
    configure(folder)
    from django.contrib.auth.models import User  # noqa: PLC0415 - after the setup
    from django.test import Client  # noqa: PLC0415

    app.migrate()
    failed = app.enqueue("mail", to="ada")
    app.run_due()
    waiting = app.enqueue("mail", to="bob")
    stranger = Client(headers={"host": "shop.example"})
    login = stranger.get("/tools/jobs/jobs?state=failed")
    found: dict[str, Any] = {
        "stranger": [login.status_code, login.headers["location"], stranger.get("/tools/jobs/api/v1/jobs").status_code],
        "other host": Client(headers={"host": "evil.example"}).get("/tools/jobs/").status_code,
    }
    for user in User.objects.all():
        client = Client(enforce_csrf_checks=True, headers={"host": "shop.example"})
        client.force_login(user)
        found[user.username] = look(client, str(failed.id))
        if user.username == "otto":
            found["acted"] = act(client, str(waiting.id))
            found["page"] = [
                word
                for word in ("Shop jobs", "actions on", "/tools/jobs/static/style.css")
                if word in client.get("/tools/jobs/").content.decode()
            ]
    found["audit"] = [[each.who, each.action, each.reason] for each in app.audit.list()]
    page = Client(headers={"host": "shop.example", "sec-fetch-mode": "cors"})
    page.force_login(User.objects.get(username="vera"))
    found["stream of a page"] = page.get("/tools/jobs/api/v1/events").status_code
    found["asgi"] = asyncio.run(follow(User.objects.get(username="vera")))
    sys.stdout.write(f"{json.dumps(found)}\n")


if __name__ == "__main__":
    sys.modules["__main__"] = sys.modules[__name__]
    main(sys.argv[1])
