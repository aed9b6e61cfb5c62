"""The dashboard in a Django project: its users see what their permissions allow, with Django's own client."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).with_name("django_project.py")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run the project once: Django has one setting for a process. Return what each of its users got."""
    path = os.pathsep.join(sys.path)
    command = [sys.executable, str(PROJECT), str(tmp_path_factory.mktemp("django"))]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_stranger_is_sent_to_the_login_and_a_user_learns_which_permission_is_missing(found: Any) -> None:
    assert found["stranger"] == [302, "/accounts/login/?next=/tools/jobs/jobs%3Fstate%3Dfailed", 401]
    assert found["other host"] == 400
    for name in ("guest", "carl"):
        assert {path: status for path, status in found[name].items() if status != 403} == {
            "static/style.css": 200,
            "message": False,
        }


@pytest.mark.parametrize(
    ("name", "pause", "delete", "has_message"), [("vera", 403, 403, False), ("otto", 200, 403, False), ("anna", 200, 200, True)]
)
def test_permissions_allow_what_they_name(found: Any, name: str, pause: int, delete: int, has_message: bool) -> None:
    seen = found[name]
    assert [seen[path] for path in ("", "jobs", "jobs/ID", "static/style.css", "api/v1/queues")] == [200] * 5
    assert (seen["actions/queue/pause?name=mail"], seen["delete"], seen["message"]) == (pause, delete, has_message)


def test_an_action_needs_the_token_of_its_form_and_is_audited_with_the_name_of_the_user(found: Any) -> None:
    assert found["acted"] == {
        "foreign": 403,
        "without a token": 403,
        "state before": "available",
        "with the token": 303,
        "state after": "cancelled",
    }
    assert found["page"] == ["Shop jobs", "actions on", "/tools/jobs/static/style.css"]
    assert found["audit"][0] == ["otto", "cancel", "wrong"]
    assert {(who, action) for who, action, _ in found["audit"][1:]} == {("vera", "denied"), ("otto", "denied")}


def test_streams_need_asgi(found: Any) -> None:
    assert (found["anna"]["api/v1/events"], found["stream of a page"]) == (501, 204)
    assert (found["asgi"]["page"], found["asgi"]["stream"]) == (200, 200)
    assert found["asgi"]["kind"].startswith("text/event-stream")
    assert found["asgi"]["first"].startswith("retry:")
