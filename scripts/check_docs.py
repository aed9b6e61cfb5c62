"""Keep the documents true to the tree; `make check` runs this.

Every path in the tables of CONTRIBUTING.md exists (seen from the root or from src/holdfast). Every test that the pages on promises,
pitfalls and proof name exists. Every relative link in the Markdown files of the root and of docs/ leads somewhere. A page of docs/ has
at most 200 lines: it is about one subject.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(r"[\w.*/-]*(/|\.(py|sql|md|toml))[\w.*/-]*")
LINK = re.compile(r"\]\(<?([^()\s>]+)>?[^)]*\)|\b(?:src|href)=\"([^\"]+)\"")
TEST = re.compile(r"`([\w/]+): (\w+)`")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
TESTED = ("promises*.md", "pitfalls.md", "proof*.md")
PAGE_LINES = 200
ELSEWHERE = re.compile(r"^([a-z][a-z0-9+.-]*:|//|#)", re.IGNORECASE)


def check_map(root: Path) -> Iterator[str]:
    """Yield the paths named in tables of CONTRIBUTING.md that do not exist."""
    lines = (root / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        if not line.startswith("|"):
            continue
        for name in CODE.findall(line):
            if PATH.fullmatch(name) and not any(any(base.glob(name.strip("/"))) for base in (root, root / "src/holdfast")):
                yield f"CONTRIBUTING.md:{number}: {name} does not exist: the map names it, so move or remove the row"


def check_promises(root: Path) -> Iterator[str]:
    """Yield the tests that the documents name and that do not exist."""
    for page in (page for pattern in TESTED for page in sorted((root / "docs").glob(pattern))):
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            for place, name in TEST.findall(line):
                folder = root / ("src/holdfast/testing" if place.startswith("contracts/") else "tests")
                file = folder / f"{place}.py"
                if not file.exists() or f"def test_{name}(" not in file.read_text(encoding="utf-8"):
                    yield f"{page.relative_to(root)}:{number}: {place}: {name} does not exist: name the test that shows this promise"


def check_links(root: Path) -> Iterator[str]:
    """Yield the relative links that lead nowhere."""
    for page in sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")]):
        text = FENCE.sub(_blank, page.read_text(encoding="utf-8"))
        for number, line in enumerate(text.splitlines(), 1):
            for target in (markdown or html for markdown, html in LINK.findall(line)):
                if ELSEWHERE.match(target) or (page.parent / unquote(target.split("#")[0])).exists():
                    continue
                yield f"{page.relative_to(root)}:{number}: {target} leads nowhere: correct the link"


def check_lengths(root: Path) -> Iterator[str]:
    """Yield the pages that are too long to read in one go."""
    for page in sorted(root.glob("docs/**/*.md")):
        count = len(page.read_text(encoding="utf-8").splitlines())
        if count > PAGE_LINES:
            name = page.relative_to(root)
            yield f"{name}: {count} lines, at most {PAGE_LINES}: cut what another page has, or split it where its subject changes"


def _blank(fence: re.Match[str]) -> str:
    return "\n" * fence.group().count("\n")


def main(root: Path) -> int:
    """Check the documents of the repository at `root`; 1 when one is wrong."""
    found = [*check_map(root), *check_promises(root), *check_links(root), *check_lengths(root)]
    for advice in found:
        print(advice)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
