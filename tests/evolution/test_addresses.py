"""Visitors name public repositories over https and nothing else; what was checked is what git connects to."""

import socket
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest
from evolution_web import cloning
from evolution_web.addresses import FILES, is_public, public_addresses, read

from holdfast.demo.analysis import GIT, BadRepository, environment

REFUSED = (
    "",
    "flask",
    "http://github.com/pallets/flask",
    "ssh://git@github.com/pallets/flask",
    "git@github.com:pallets/flask",
    "ext::sh -c id",
    "--upload-pack=id",
    "https://me@github.com/pallets/flask",
    "https://me:secret@github.com/pallets/flask",
    "https://github.com@127.0.0.1/pallets/flask",
    "https://github.com:8443/pallets/flask",
    "https://github.com:22/pallets/flask",
    "https://localhost/x",
    "https://[::1]/x",
    "https://github.com",
    "https://github.com/",
    "https://github.com/a/../../b",
    "https://github.com/.git/config",
    "https://github.com/a?b",
    "https://github.com/a#b",
    "https://github.com/%2e%2e/a",
    "https://github.com\\@127.0.0.1/a",
    "https://github.com/a b",
    "https://github.com/a\nb",
    "https://github.com//127.0.0.1/a",
    "https://gıthub.com/a",
    "https://github.com/" + "a" * 300,
    "file:///etc",
)
PRIVATE = (
    *(
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
    ),
    *(
        "::1",
        "::",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001::1",
    ),
)


def resolve_to(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> None:
    """Let each look-up of a name have the next answer."""
    following = iter(answers)

    def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in next(following)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@pytest.mark.parametrize("text", REFUSED)
def test_an_address_that_is_not_plainly_https_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FILES, raising=False)
    with pytest.raises(BadRepository, match="paste an https address"):
        read(text)


def test_spellings_of_one_repository_have_one_key() -> None:
    texts = ("https://github.com/pallets/flask", " https://GitHub.com/Pallets/flask.git/ ", "HTTPS://github.com/pallets/flask/")
    assert {read(text).key for text in texts} == {"github.com/pallets/flask"}
    assert read("https://git.example.org/~me/a_b/c-d.git").url == "https://git.example.org/~me/a_b/c-d.git"


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_of_the_internet_is_not_public(address: str) -> None:
    assert not is_public(address)


def test_one_private_address_among_public_ones_is_enough_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, ["140.82.121.3", "2606:50c0:8000::153"], ["140.82.121.3", "10.0.0.1"])
    assert public_addresses("github.com") == ["140.82.121.3", "2606:50c0:8000::153"]
    with pytest.raises(BadRepository, match="public repository"):
        public_addresses("github.com")


def test_folders_are_allowed_below_one_folder_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "allowed" / "a.git").mkdir(parents=True)
    (tmp_path / "b.git").mkdir()
    (tmp_path / "allowed" / "link.git").symlink_to(tmp_path / "b.git")
    monkeypatch.setenv(FILES, str(tmp_path / "allowed"))
    assert read(f"file://{tmp_path}/allowed/a.git").host == ""
    for path in ("b.git", "allowed/../b.git", "allowed/link.git", "allowed/none.git"):
        with pytest.raises(BadRepository):
            read(f"file://{tmp_path}/{path}")


def test_git_connects_to_the_addresses_that_were_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr(cloning, "_problem", lambda words, surroundings, target: runs.append((words, surroundings)) or "")
    monkeypatch.setenv("https_proxy", "http://10.0.0.1:3128")
    resolve_to(monkeypatch, ["140.82.121.3", "2606:50c0:8000::153"])
    cloning.clone("https://github.com/pallets/flask", tmp_path / "x")
    ((words, surroundings),) = runs
    assert "http.curloptResolve=github.com:443:140.82.121.3,[2606:50c0:8000::153]" in words
    assert {"http.followRedirects=false", "http.proxy=", "credential.helper="} < set(words)
    assert words[-3:] == ["--", "https://github.com/pallets/flask", str(tmp_path / "x")]
    assert surroundings["GIT_ALLOW_PROTOCOL"] == "https"
    assert surroundings["HOME"] == surroundings["GIT_CONFIG_GLOBAL"] == "/dev/null"


def test_a_name_that_answers_differently_after_the_check_is_refused_before_git_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cloning, "_problem", lambda *_: pytest.fail("git was started"))
    resolve_to(monkeypatch, ["140.82.121.3"], ["127.0.0.1"])
    public_addresses("rebinding.example.org")
    with pytest.raises(BadRepository):
        cloning.clone("https://rebinding.example.org/a", tmp_path / "x")


class Redirects(BaseHTTPRequestHandler):
    """A server that sends every caller somewhere else."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.headers["host"].partition(":")[0] + self.path.partition("?")[0])
        self.send_response(302)
        self.send_header("location", f"http://127.0.0.1:{self.server.server_address[1]}/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Keep requests out of the output of the tests."""


def test_git_keeps_to_the_checked_address_uses_no_proxy_and_follows_no_redirect(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with ThreadingHTTPServer(("127.0.0.1", 0), Redirects) as server:
        Thread(target=server.serve_forever).start()
        pin = f"http.curloptResolve=pinned.example.org:{server.server_port}:127.0.0.1,[::1]"
        words = [*GIT, *(word for option in (*cloning._SAFE, pin) for word in ("-c", option)), "clone", "--quiet", "--"]
        url = f"http://pinned.example.org:{server.server_port}/a"
        assert "redirects are not followed" in cloning._problem([*words, url, str(tmp_path / "x")], environment("http"), tmp_path)
        assert "not allowed" in cloning._problem([*words, url, str(tmp_path / "x")], environment("https"), tmp_path)
        server.shutdown()
    assert Redirects.asked == ["pinned.example.org/a/info/refs"]


@pytest.mark.parametrize(("limit", "value", "problem"), [("SECONDS", 0.02, "longer than"), ("MEGABYTES", 0, "larger than")])
def test_a_clone_beyond_its_limit_ends_with_its_helpers(
    limit: str, value: float, problem: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cloning, limit, value)
    monkeypatch.setattr(cloning, "LOOK", 0.02)
    (tmp_path / "pack").write_bytes(b"x")
    helper = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)"
    assert problem in cloning._problem([sys.executable, "-c", helper], {}, tmp_path)


def test_what_git_cannot_clone_is_a_bad_repository_and_leaves_nothing(repositories: Path, site: object, tmp_path: Path) -> None:
    (repositories / "empty.git").mkdir(exist_ok=True)
    with pytest.raises(BadRepository, match="check the address"):
        cloning.clone(f"file://{repositories}/empty.git", tmp_path / "x")
    assert not (tmp_path / "x").exists()
    cloning.clone(f"file://{repositories}/sample.git", tmp_path / "y")
    counted = ["git", f"--git-dir={tmp_path}/y", "rev-list", "--count", "HEAD"]
    assert subprocess.run(counted, capture_output=True, text=True, check=True).stdout == "60\n"
