"""Clone what a visitor named: from the addresses that were checked and no others, within limits of time and size."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

from evolution_web.addresses import public_addresses, read
from holdfast.demo.analysis import GIT, BadRepository, environment, repository_name

SECONDS, MEGABYTES, LOOK = 240, 500, 0.2
_SAFE = ("http.followRedirects=false", "http.proxy=", "credential.helper=", "http.lowSpeedLimit=1000", "http.lowSpeedTime=30")
_NO_SETTINGS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": os.devnull, "XDG_CONFIG_HOME": os.devnull}


def clone(url: str, target: Path) -> None:
    """Clone a URL into a folder. Raises ``BadRepository``, or ``OSError`` when the name cannot be resolved now.

    The name is resolved here, once, and git gets the addresses that were checked: a name that answers differently a moment later (DNS
    rebinding) changes nothing. Settings and passwords of the worker's user are not read.
    """
    address, options = read(url), [*_SAFE]
    if address.host:
        pinned = ",".join(f"[{each}]" if ":" in each else each for each in public_addresses(address.host))
        options.append(f"http.curloptResolve={address.host}:443:{pinned}")
    words = [*GIT, *(word for option in options for word in ("-c", option)), "clone", "--quiet", "--bare", "--single-branch"]
    surroundings = environment("https" if address.host else "file") | _NO_SETTINGS
    if problem := _problem([*words, "--no-tags", "--template=", "--", address.url, str(target)], surroundings, target):
        shutil.rmtree(target, ignore_errors=True)
        raise BadRepository(f"{repository_name(url)} cannot be cloned: {problem}")


def _problem(words: list[str], surroundings: dict[str, str], target: Path) -> str:
    """Run git until it ends or breaks a limit. Its process group ends its helpers too; its session is the worker's and ends with it."""
    with subprocess.Popen(words, env=surroundings, stderr=subprocess.PIPE, text=True, errors="replace", process_group=0) as git:
        try:
            for _ in range(round(SECONDS / LOOK)):
                try:
                    last = (git.communicate(timeout=LOOK)[1].strip().splitlines() or ["no message"])[-1][:200]
                    return f"check the address, redirects are not followed ({last})" if git.returncode else ""
                except subprocess.TimeoutExpired:
                    if sum(path.lstat().st_size for path in target.rglob("*") if path.exists()) > MEGABYTES * 1_000_000:
                        return f"it is larger than {MEGABYTES} MB"
            return f"that took longer than {SECONDS} s"
        finally:
            if git.returncode is None:
                os.killpg(git.pid, signal.SIGKILL)
