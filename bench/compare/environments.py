"""An environment for each peer: a folder beside this one's packages, built once for each list of pinned versions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench.compare.catalogue import Peer

FOLDER = Path(sys.prefix)
DRIVERS = Path(__file__).parent / "drivers"


class Missing(Exception):
    """The peer cannot be measured on this machine, and why."""


def ready(peer: Peer, log_line: Callable[[str], None]) -> tuple[str, ...]:
    """Build the environment of a peer unless it is there. Return its interpreter, and for Node.js the folder of the drivers."""
    if not peer.packages:
        return (sys.executable,)
    folder = FOLDER / f"peers-{peer.environment}"
    stamp = folder / "installed"
    wanted = json.dumps([*peer.packages, peer.python])
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        log_line(f"installing {', '.join(peer.packages)}")
        shutil.rmtree(folder, ignore_errors=True)
        _install(peer, folder)
        stamp.write_text(wanted, encoding="utf-8")
    if not peer.is_node:
        return (str(folder / "bin/python"),)
    for each in DRIVERS.glob("*.js"):
        shutil.copy(each, folder)  # beside the packages, where Node.js looks for them
    return ("node", str(folder))


def _install(peer: Peer, folder: Path) -> None:
    if peer.is_node:
        if shutil.which("node") is None or shutil.which("npm") is None:
            raise Missing("node and npm are not installed")
        folder.mkdir(parents=True)
        (folder / "package.json").write_text('{"private": true, "type": "module"}', encoding="utf-8")
        _run(["npm", "install", "--no-audit", "--no-fund", *peer.packages], folder)
        return
    _run([_python(peer.python), "-m", "venv", str(folder)], FOLDER)
    _run([str(folder / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *peer.packages], FOLDER)


def _run(words: Sequence[str], folder: Path) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise Missing(f"{' '.join(words[:3])} failed: {(done.stderr or done.stdout).strip()[-300:]}")


def _python(oldest: tuple[int, int]) -> str:
    """Return an interpreter that is new enough. A name on the path proves nothing, so it has to run."""
    if sys.version_info[:2] >= oldest:
        return sys.executable
    for each in _candidates(oldest):
        if subprocess.run([each, "-c", ""], capture_output=True).returncode == 0:
            return each
    raise Missing(f"Python {oldest[0]}.{oldest[1]} or newer is not installed")


def _candidates(oldest: tuple[int, int]) -> Iterator[str]:
    names = [f"python3.{minor}" for minor in range(oldest[1], oldest[1] + 3)]
    yield from (name for name in names if shutil.which(name))
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from (str(found) for name in names for found in sorted(pyenv.glob(f"versions/*/bin/{name}")))
