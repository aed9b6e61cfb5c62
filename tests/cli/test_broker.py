"""``holdfast broker``: what it refuses to start with, and its life as a process."""

import asyncio
import json
import signal
import ssl
import subprocess
import urllib.request
from pathlib import Path

import pytest

from holdfast import App
from holdfast.errors import StoreUnavailable
from holdfast.http.tokens import Tokens, new_token
from holdfast.stores.remote.store import RemoteStore
from holdfast.testing.clock import FakeChance
from holdfast.testing.servers.process import free_port
from tests.broker.processes import BrokerProcess
from tests.cli.support import run, url

STORE = ("--url", "memory://")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--listen", "0.0.0.0:7700"), "pass --tokens FILE, or listen on 127.0.0.1"),
        (("--listen", "10.0.0.5:7700"), "pass --tokens FILE"),
        (("--listen", "[::]:7700"), "pass --tokens FILE"),
        (("--listen", "broker.example:7700"), "pass --tokens FILE"),
        (("--listen", "127.0.0.1:many"), "is not host:port"),
        (("--listen", "127.0.0.1:99999"), "is not host:port"),
        (("--listen", ":7700"), "is not host:port"),
        (("--tls-cert", "a.pem"), "pass both"),
        (("--client-ca", "a.pem"), "--tls-cert and --tls-key, too"),
        (("--tokens", "missing"), "cannot be read"),
        (("--new-token", "mailer=boss"), "is not a role: use producer, worker"),
        (("--new-token", "=worker"), "is not a name"),
    ],
)
def test_wrong_words_are_refused_with_the_remedy(words: tuple[str, ...], problem: str) -> None:
    done = run("broker", *STORE, *words)
    assert done.exit_code == 2
    assert problem in done.stderr


def test_an_address_that_is_taken_is_refused(folder: Path) -> None:
    with BrokerProcess(*STORE) as broker:
        done = run("broker", *STORE, "--listen", f"127.0.0.1:{broker.port}")
    assert done.exit_code == 2
    assert "cannot be used: Address already in use" in done.stderr


def test_files_of_tls_that_are_wrong_are_refused(folder: Path) -> None:
    for name in ("cert.pem", "key.pem"):
        (folder / name).write_text("rubbish")
    done = run("broker", *STORE, "--listen", f"127.0.0.1:{free_port()}", "--tls-cert", "cert.pem", "--tls-key", "key.pem")
    assert done.exit_code == 2
    assert "--tls-cert" in done.stderr


def test_a_store_without_a_schema_is_an_error_at_the_start(postgres_dsn: str) -> None:
    done = run("broker", "--url", postgres_dsn)
    assert done.exit_code == 1
    assert "holdfast migrate" in done.stderr


def test_a_new_token_fits_its_line(folder: Path) -> None:
    done = run("broker", "--new-token", "mailer=producer,worker")
    token, line = (text.partition(": ")[2].strip() for text in done.stdout.splitlines())
    identity = Tokens.parse(line).identity(token)
    assert identity is not None
    assert (identity.name, sorted(identity.roles)) == ("mailer", ["producer", "worker"])
    assert token not in line


def test_it_logs_where_it_listens_and_ends_by_a_signal(folder: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        broker = BrokerProcess("--url", url(folder))
        with broker:
            process = broker._process
            assert process is not None
            process.send_signal(number)
            assert process.wait(30) == 0
            assert f"listens at {broker.url}" in broker.log.read_text()


def test_commands_work_through_a_broker_as_on_its_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token, line = new_token("ops", "admin", FakeChance())
    (folder / "tokens").write_text(line)
    (folder / "tokens").chmod(0o600)
    with BrokerProcess("--url", url(folder), "--tokens", str(folder / "tokens")) as broker:
        refused = run("jobs", "list", "--url", broker.url)
        assert refused.exit_code == 1
        assert "set HOLDFAST_TOKEN" in refused.stderr
        monkeypatch.setenv("HOLDFAST_TOKEN", token)
        app = App(broker.url)
        job = app.enqueue("analyze", repo_url="u")
        app.close()
        for words in (
            ("jobs", "list"),
            ("jobs", "show", str(job.id)),
            ("queues", "list"),
            ("workers", "list"),
            ("top", "--once"),
        ):
            done = run(*words, "--url", broker.url, "--json")
            assert done.exit_code == 0, done.output
        assert json.loads(run("jobs", "counts", "--url", broker.url, "--json").stdout)["available"] == 1
        assert run("jobs", "cancel", str(job.id), "--url", broker.url).exit_code == 0


async def count(address: str) -> None:
    store = RemoteStore([address], token=None, chance=FakeChance())
    try:
        await store.counts()  # type: ignore[attr-defined]
    finally:
        await store.close()


def make_certificate() -> None:
    """Write `cert.pem` and `key.pem` of this machine into the current folder."""
    certificate = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    certificate += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(certificate, check=True, capture_output=True)


def test_tls_is_verified(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_certificate()
    words = ("--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem"))
    with BrokerProcess("--url", url(folder), *words) as broker:
        address = broker.url.replace("http:", "https:")
        with pytest.raises(StoreUnavailable, match="certificate verify failed"):
            asyncio.run(count(address))
        monkeypatch.setenv("SSL_CERT_FILE", str(folder / "cert.pem"))
        assert run("jobs", "counts", "--url", address).exit_code == 0
        app = App(address)  # its transport is encrypted, too
        assert [each.level for each in app.check() if each.name == "transport"] == ["ok"]
        app.close()
        context = ssl.create_default_context(cafile=str(folder / "cert.pem"))
        with urllib.request.urlopen(f"{address}/healthz", context=context) as answer:
            assert answer.read() == b"ok"


def test_clients_without_a_certificate_of_the_authority_are_not_let_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_certificate()
    words = (
        "--tls-cert",
        str(folder / "cert.pem"),
        "--tls-key",
        str(folder / "key.pem"),
        "--client-ca",
        str(folder / "cert.pem"),
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "cert.pem"))
    (folder / "client.pem").write_text((folder / "cert.pem").read_text() + (folder / "key.pem").read_text())
    with BrokerProcess("--url", url(folder), *words) as broker:
        address = broker.url.replace("http:", "https:")
        with pytest.raises(StoreUnavailable):
            asyncio.run(count(address))
        monkeypatch.setenv("HOLDFAST_CLIENT_CERT", str(folder / "missing.pem"))
        wrong = run("jobs", "counts", "--url", address)
        assert (wrong.exit_code, "HOLDFAST_CLIENT_CERT" in wrong.stderr) == (2, True)
        monkeypatch.setenv("HOLDFAST_CLIENT_CERT", str(folder / "client.pem"))
        assert run("jobs", "counts", "--url", address).exit_code == 0


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = run("broker", *STORE)
    assert done.exit_code == 2
    assert "pip install starlette uvicorn" in done.stderr
