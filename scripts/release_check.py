"""Check whether this commit can be released; `make release-check` runs this.

It builds the wheel and the sdist twice, in different folders, and reads what is in them. It installs both into empty environments of each
Python that is here, and runs a job there. It writes the list of what is installed, an SBOM in the form of CycloneDX. Each finding is
printed with ✓, ✗ or –, and the exit code is 1 if one is wrong. The files are left in dist/.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
LARGEST = 2_000_000
"""Bytes of a wheel. One that grows past this has something in it that was not meant."""
CORE = {"holdfast", "msgspec", "click", "rich"}
DRIVERS = ("apsw", "asyncpg", "psycopg", "pymongo", "nats", "obstore", "aiohttp", "starlette", "uvicorn", "jinja2", "django")
SHOWN = "postgres,dashboard,prometheus,schedules"
"""The extras of the image, which the SBOM lists."""
TESTS = re.compile(r"(^|/)(tests?/|conftest\.py$|test_[^/]*\.py$)")
JOB = """
from holdfast import App
app = App("sqlite:///jobs.db")
@app.task
def double(number: int) -> int:
    return 2 * number
"""
IMPORTS = f"""
import importlib.util, sys, holdfast
found = [name for name in {DRIVERS!r} if importlib.util.find_spec(name)]
sys.exit(f"installed beside the core: {{found}}" if found else 0)
"""


class Finding(NamedTuple):
    """One line of the list. ``is_right=None``: it could not be tried here."""

    is_right: bool | None
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        sign = {True: "✓", False: "✗", None: "–"}[self.is_right]
        return f"{sign} {self.what}" + (f": {self.remedy}" if self.is_right is False and self.remedy else "")


def version_of(root: Path) -> str:
    """Return the version that the code has."""
    return re.findall(r'^VERSION: Final = "([^"]+)"', (root / "src/holdfast/_core/release.py").read_text(), re.MULTILINE)[0]


def check_versions(root: Path, version: str) -> Iterator[Finding]:
    """Compare other files with the version of the code, which is the only one that a person writes."""
    project = (root / "pyproject.toml").read_text()
    is_dynamic = 'dynamic = ["version"]' in project and not re.search(r'^version = "', project, re.MULTILINE)
    yield Finding(
        is_dynamic, f"the version {version} is written in src/holdfast/_core/release.py", "remove it from pyproject.toml"
    )
    chart = re.findall(
        r'^(?:version|appVersion): "?([^"\n]+)"?$', (root / "deploy/helm/holdfast/Chart.yaml").read_text(), re.MULTILINE
    )
    yield Finding({*chart} == {version}, "the Helm chart has this version", f"it has {', '.join(chart)}; change Chart.yaml")


def check_changelog(text: str, version: str) -> Finding:
    """Look for the entry of the version, with a date and a line."""
    entry = re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    remedy = f"rename the section Unreleased to `## [{version}] - YYYY-MM-DD`, and begin a new one"
    return Finding(entry is not None and "\n- " in entry[1], f"CHANGELOG.md has an entry for {version}", remedy)


def check_names(names: Sequence[str], version: str) -> Iterator[Finding]:
    """Check which files a wheel has."""
    info = f"holdfast-{version}.dist-info/"
    other = [name for name in names if not name.startswith(("holdfast/", info))]
    yield Finding(not other, "the wheel has only the package", f"it has {', '.join(other[:3])}")
    tests = [name for name in names if TESTS.search(name)]
    yield Finding(not tests, "the wheel has no tests", f"it has {', '.join(tests[:3])}")
    for name in ("holdfast/py.typed", info + "licenses/LICENSE", info + "entry_points.txt"):
        yield Finding(name in names, f"the wheel has {name}", "see [tool.hatch.build] in pyproject.toml")
    sql = sum(name.endswith(".sql") for name in names)
    yield Finding(sql > 0, f"the wheel has the statements of the stores ({sql} files)", "no .sql file is in it")


def check_size(wheel: int, sdist: int) -> Finding:
    """Check the sizes, and show them."""
    what = f"wheel {wheel / 1000:,.0f} kB, sdist {sdist / 1000:,.0f} kB"
    return Finding(wheel <= LARGEST, what, f"a wheel has at most {LARGEST / 1000:,.0f} kB: what is new in it?")


def check_same(first: Sequence[Path], second: Sequence[Path]) -> Iterator[Finding]:
    """Compare two builds byte for byte."""
    for one, other in zip(first, second, strict=True):
        digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (one, other)]
        what = f"{one.name} is the same when built again: sha256 {digests[0]}"
        yield Finding(digests[0] == digests[1], what, f"the second build has {digests[1]}; diffoscope shows where they differ")


def check_components(bill: dict[str, object]) -> Finding:
    """Check that a CycloneDX document lists what the core needs."""
    parts = bill.get("components")
    names = {part["name"].lower() for part in parts} if isinstance(parts, list) else set()
    main = bill.get("metadata")
    names |= {"holdfast"} if isinstance(main, dict) and main.get("component", {}).get("name") == "holdfast" else set()
    is_right = bill.get("bomFormat") == "CycloneDX" and names >= CORE
    return Finding(
        is_right, f"the SBOM lists {len(names)} packages", f"it lacks {', '.join(sorted(CORE - names)) or 'its format'}"
    )


def run(*words: str | Path, folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program without anything of this environment that Python reads."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HOLDFAST_"))}
    command = [str(word) for word in words]
    return subprocess.run(
        command, cwd=folder, env={**kept, **environment}, capture_output=True, text=True, timeout=600, check=False
    )


def outcome(what: str, done: subprocess.CompletedProcess[str]) -> Finding:
    """Return the finding of a program that had to succeed."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return Finding(done.returncode == 0, what, lines[-1] if lines else f"exit code {done.returncode}")


def interpreters(wanted: Iterable[str] = PYTHONS) -> dict[str, str | None]:
    """Find an interpreter for each version. A name on the path proves nothing: a version manager's shim may refuse to run."""
    found: dict[str, str | None] = {}
    for version in wanted:
        managed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"), reverse=True)
        candidates = [shutil.which(f"python{version}"), *map(str, managed), sys.executable]
        found[version] = next((each for each in candidates if each and _is(each, version)), None)
    return found


def _is(python: str, version: str) -> bool:
    done = run(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    return done.returncode == 0 and done.stdout.strip() == version


def build(commit_time: str, folder: Path) -> tuple[Path, Path]:
    """Build this commit in a folder, and return the wheel, which is built from the sdist, and the sdist."""
    tree, out = folder / "tree", folder / "out"
    tree.mkdir(parents=True)
    archive = run("git", "archive", "--output", folder / "tree.tar", "HEAD")
    if archive.returncode:
        raise SystemExit(archive.stderr)
    with tarfile.open(folder / "tree.tar") as tar:
        tar.extractall(tree, filter="data")
    done = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, tree, SOURCE_DATE_EPOCH=commit_time)
    if done.returncode:
        raise SystemExit(f"✗ the build: {done.stdout}{done.stderr}")
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def check_install(python: str, version: str, package: Path, folder: Path) -> Iterator[Finding]:
    """Install a package into an empty environment, and run a job from its enqueue to its result."""
    title = f"Python {version}, {'wheel' if package.suffix == '.whl' else 'sdist'}"
    run(python, "-m", "venv", folder)
    inside = folder / "bin/python"
    installed = outcome(f"{title}: installs", run(inside, "-m", "pip", "install", "-q", package))
    yield installed
    if not installed.is_right:
        return
    (folder / "shop.py").write_text(JOB)
    tool = folder / "bin/holdfast"
    shown = run(tool, "--version", folder=folder)
    yield Finding(version_of(ROOT) in shown.stdout, f"{title}: `holdfast --version`", shown.stdout + shown.stderr)
    yield outcome(f"{title}: imports without drivers", run(inside, "-W", "error", "-c", IMPORTS, folder=folder))
    job = run(tool, "enqueue", "shop:app", "double", '{"number": 21}', folder=folder).stdout.strip()
    worked = run(tool, "worker", "shop:app", "--until-empty", folder=folder)
    view = run(tool, "jobs", "show", job, "--app", "shop:app", "--json", folder=folder)
    is_done = view.returncode == 0 and (json.loads(view.stdout)["state"], json.loads(view.stdout)["result"]) == ("completed", 42)
    yield Finding(is_done, f"{title}: a job on SQLite from start to end", worked.stderr[-300:] + view.stderr[-300:])


def check_bill(inside: Path, wheel: Path, to: Path) -> Iterator[Finding]:
    """Install the extras that an image has, and list what is installed."""
    installed = outcome(
        "the extras of the image install", run(inside, "-m", "pip", "install", "-q", f"holdfast[{SHOWN}] @ {wheel.as_uri()}")
    )
    yield installed
    words = ("environment", "--pyproject", ROOT / "pyproject.toml", "--output-reproducible", "--of", "JSON", "-o", to)
    listed = outcome("the SBOM is written", run(Path(sys.executable).parent / "cyclonedx-py", *words, inside))
    yield listed
    if installed.is_right and listed.is_right:
        yield check_components(json.loads(to.read_text()))


def check_all(scratch: Path, dist: Path) -> Iterator[Finding]:
    """Yield all findings, in the order in which they are made."""
    version, moment = version_of(ROOT), run("git", "log", "-1", "--format=%ct").stdout.strip()
    changed = run("git", "status", "--porcelain").stdout.strip().splitlines()
    yield Finding(not changed, "all changes are committed", f"{len(changed)} files are not, and would not be in the release")
    yield from check_versions(ROOT, version)
    yield check_changelog((ROOT / "CHANGELOG.md").read_text(), version)
    first, second = build(moment, scratch / "one"), build(moment, scratch / "another-folder")
    yield from check_same(first, second)
    wheel, sdist = (Path(shutil.copy(path, dist)) for path in first)
    yield outcome("twine accepts the metadata", run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist))
    yield from check_names(zipfile.ZipFile(wheel).namelist(), version)
    yield check_size(wheel.stat().st_size, sdist.stat().st_size)
    last: Path | None = None
    for name, python in interpreters().items():
        if python is None:
            yield Finding(None, f"Python {name} is not on this machine, so it was not tried")
            continue
        for package in (wheel, sdist):
            last = scratch / f"{name}-{package.suffix[1:]}"
            yield from check_install(python, name, package, last)
    if last is not None:
        yield from check_bill(last / "bin/python", wheel, dist / f"holdfast-{version}.cdx.json")


def main() -> int:
    """Print each finding as it is made; return 1 if one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where the wheel, the sdist and the SBOM are left")
    dist: Path = parser.parse_args().dist
    dist.mkdir(parents=True, exist_ok=True)
    wrong = untried = 0
    with tempfile.TemporaryDirectory() as scratch:
        for finding in check_all(Path(scratch), dist):
            print(finding, flush=True)
            wrong, untried = wrong + (finding.is_right is False), untried + (finding.is_right is None)
    print(f"{wrong} wrong, {untried} not tried here; the files are in {dist}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
