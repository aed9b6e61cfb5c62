"""The ready-made authenticators: whom they recognise."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import App
from holdfast.dashboard import Dashboard, Identity, basic, bearer, header
from holdfast.dashboard.serving import dashboard_of
from holdfast.errors import ConfigurationError
from holdfast.http.identity import Authenticate, Role
from holdfast.http.tokens import new_token
from holdfast.testing.clock import FakeChance
from tests.dashboard.browser import OWN, Elements, ask, get

ANNA = Identity("anna", ["operator"])


@pytest.fixture
def app() -> Iterator[App]:
    app = App("memory://")
    yield app
    app.close()


def _status(authenticate: Authenticate, *headers: tuple[bytes, bytes], peer: str = "10.0.0.7") -> int:
    dashboard = Dashboard(App("memory://"), authenticate=authenticate)
    return get(dashboard, "/jobs", headers=((b"host", b"jobs.example"), *headers), peer=peer).status


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (b"Bearer s3cret", 200),
        (b"bearer s3cret", 200),
        (b"Bearer wrong", 401),
        (b"Basic s3cret", 401),
        (b"Bearer ", 401),
        (b"", 401),
    ],
)
def test_bearer(given: bytes, status: int) -> None:
    assert _status(bearer({"s3cret": ANNA}.get), (b"authorization", given)) == status


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (b"Basic " + b64encode(b"anna:a:b"), 200),
        (b"Basic " + b64encode(b"anna:no"), 401),
        (b"Basic !", 401),
        (b"Basic YQ==", 401),
    ],
)
def test_basic_has_the_browser_ask(given: bytes, status: int) -> None:
    known = basic(lambda name, password: ANNA if (name, password) == ("anna", "a:b") else None)
    assert _status(known, (b"authorization", given)) == status
    reply = get(Dashboard(App("memory://"), authenticate=known), "/")
    assert reply.headers["www-authenticate"].startswith("Basic realm=")


@pytest.mark.parametrize(
    ("users", "peer", "status"),
    [
        ([b"anna"], "10.1.2.3", 200),
        ([b"anna"], "10.2.0.1", 401),
        ([], "10.1.2.3", 401),
        ([b"eve", b"anna"], "10.1.2.3", 401),
        ([b""], "10.1.2.3", 401),
    ],
)
def test_a_header_counts_only_from_a_trusted_proxy(users: list[bytes], peer: str, status: int) -> None:
    known = header("X-User", trusted=["10.1.0.0/16"], roles=lambda name: [Role.ADMIN] if name == "anna" else [])
    assert _status(known, *((b"x-user", user) for user in users), peer=peer) == status


@pytest.mark.parametrize("trusted", [[], ["10.0.0.1/8"], ["proxy.example"]])
def test_a_network_that_cannot_be_read_is_refused(trusted: list[str]) -> None:
    with pytest.raises(ConfigurationError, match=r"trusted: .*10\.0\.0\.0/8"):
        header("X-User", trusted=trusted)


def test_a_role_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'boss' is not a role"):
        Identity("anna", ["boss"])


def test_the_link_of_a_dashboard_with_actions_is_good_for_one_browser(app: App) -> None:
    dashboard, path = dashboard_of(app, "127.0.0.1", None, actions=True)

    async def visit() -> tuple[int, int, int, int]:
        before = await ask(dashboard, "/jobs")
        assert (await ask(dashboard, f"/{path}", method="HEAD")).status == 403, "a preview of the link used it up"
        entered, again = await ask(dashboard, f"/{path}"), await ask(dashboard, f"/{path}")
        cookie = (b"cookie", entered.headers["set-cookie"].partition(";")[0].encode())
        inside = await ask(dashboard, "/jobs", headers=(OWN, cookie))
        elsewhere = await ask(dashboard, "/jobs", headers=(OWN, cookie), peer="10.0.0.7")
        assert "printed" in before.body
        assert "actions on" in Elements(inside.body).text
        assert elsewhere.status == 403
        return before.status, entered.status, again.status, inside.status

    assert re.fullmatch(r"enter\?token=[0-9a-f]{64}", path)
    assert asyncio.run(visit()) == (401, 303, 403, 200)


def test_a_token_file_lets_other_machines_in(app: App, tmp_path: Path) -> None:
    token, line = new_token("anna", "operator", FakeChance())
    (tmp_path / "tokens").write_text(line)
    (tmp_path / "tokens").chmod(0o600)
    dashboard, path = dashboard_of(app, "0.0.0.0", str(tmp_path / "tokens"), actions=True)
    typed = b"Basic " + b64encode(f"anna:{token}".encode())
    for given, status in ((typed, 200), (f"Bearer {token}".encode(), 200), (b"Bearer x", 401)):
        assert get(dashboard, "/", headers=((b"host", b"jobs"), (b"authorization", given)), peer="10.0.0.7").status == status
    assert path == ""
    with pytest.raises(ConfigurationError, match=r"--token-file: .* cannot be read"):
        dashboard_of(app, "0.0.0.0", str(tmp_path / "none"), actions=True)
