"""The packages of Node.js, beside those of the Python environment."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).parent / "node"
FOLDER = Path(sys.prefix) / "bench-mongo-node"


def install() -> str | None:
    """Install them, once for each list of them. Return why there are none."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "node and npm are not installed"
    FOLDER.mkdir(exist_ok=True)
    lock = (SOURCE / "package-lock.json").read_bytes()
    stamp = FOLDER / "installed"
    for each in SOURCE.iterdir():
        shutil.copy(each, FOLDER)
    if not stamp.exists() or stamp.read_bytes() != lock:
        done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=FOLDER, capture_output=True, text=True)
        if done.returncode:
            return f"npm ci: {done.stderr.strip()[-300:]}"
        stamp.write_bytes(lock)
    return None


def versions(packages: Sequence[str]) -> str | None:
    """Return the versions of packages; ``None`` if one is not installed."""
    files = [FOLDER / "node_modules" / each / "package.json" for each in packages]
    if not all(each.exists() for each in files):
        return None
    found = [json.loads(each.read_text(encoding="utf-8")) for each in files]
    return ", ".join(f"{each['name']} {each['version']}" for each in found)
