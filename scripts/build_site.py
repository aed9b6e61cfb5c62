"""Build the documentation's site from `docs`: `make docs`, into build/site. It works from file://, and no request leaves the host.

Pages stay where they are and read well on their own. What only the site needs is added to a copy: the navigation of `site_map.py`,
a page made from docstrings, and `llms.txt`. A link that leaves `docs` becomes the name of the file.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import holdfast

sys.path.insert(0, str(Path(__file__).parent))
from site_map import MAP

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^()\s#:]+)(#[^()\s]*)?\)")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
ELSEWHERE = re.compile(r"""<(?:link|script|img|iframe|source)\b[^>]*(?:href|src)=["'](?:https?:)?//[^"']+""")
STYLE_ELSEWHERE = re.compile(r"(?:url\(|@import\s+)[\"']?(?:https?:)?//")
FONT_ELSEWHERE = re.compile(r"@font-face\{[^{}]*url\([\"']?https?:[^{}]*\}")
API = "reference/python"


def toctrees() -> str:
    """Return the navigation, as directives."""
    parts = []
    for caption, names in MAP.items():
        pages = "\n".join((*names, API) if caption == "Reference" else names)
        parts.append(f"```{{toctree}}\n:caption: '{caption}'\n:hidden:\n:maxdepth: 1\n\n{pages}\n```\n")
    return "\n".join(parts)


def on_the_site(text: str, page: Path) -> str:
    """Return a page without links that leave `docs`: each becomes its words, and the file where the words do not name it."""

    def shown(link: re.Match[str]) -> str:
        target = (page.parent / link[2]).resolve()
        if target.is_relative_to(DOCS):
            return link[0]
        name = str(target.relative_to(ROOT))
        return link[1] if name.startswith(link[1].strip("`")) else f"{link[1]} (`{name}`)"

    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(shown, part) for part in parts)


def api_page() -> str:
    """Return a page of directives that show the docstrings of all public names."""
    kinds = {name: getattr(holdfast, name) for name in sorted(holdfast.__all__) if not name.startswith("_")}
    lines = [
        "# Python",
        "",
        "Every public name of `holdfast`, with its docstring. The other pages of the reference explain more.",
        "",
    ]
    for name, value in kinds.items():
        if not isinstance(value, type) and not callable(value):
            continue
        lines += [
            f"## `{name}`",
            "",
            "```{eval-rst}",
            f".. auto{'class' if isinstance(value, type) else 'function'}:: holdfast.{name}",
        ]
        lines += ["   :members:"] if isinstance(value, type) else []
        lines += ["   :no-index:", "```", ""]
    return "\n".join(lines)


def copy_pages(source: Path) -> None:
    """Write the pages, with what the site needs, into a folder for Sphinx."""
    shutil.copytree(DOCS, source)
    for page in DOCS.rglob("*.md"):
        (source / page.relative_to(DOCS)).write_text(on_the_site(page.read_text(encoding="utf-8"), page), encoding="utf-8")
    start = (source / "README.md").read_text(encoding="utf-8")
    (source / "README.md").unlink()
    (source / "index.md").write_text(f"{start}\n{toctrees()}", encoding="utf-8")
    for page in source.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(r"\]\(((?:\.\./)*)README\.md\)", r"](\1index.md)", text), encoding="utf-8")
    old = source / "recovery.md"
    old.write_text("---\norphan: true\n---\n" + old.read_text(encoding="utf-8"), encoding="utf-8")
    (source / f"{API}.md").write_text(api_page(), encoding="utf-8")


def llms() -> str:
    """Return the list of pages for programs that read: https://llmstxt.org."""
    lines = ["# Holdfast", "", "> Background jobs for Python that survive the death of the worker.", ""]
    for caption, names in MAP.items():
        lines += [f"## {caption}", ""]
        for name in names:
            title = (DOCS / f"{name}.md").read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ")
            lines.append(f"- [{title}](_sources/{name}.md.txt)")
        lines.append("")
    return "\n".join(lines)


def elsewhere(site: Path) -> Iterator[str]:
    """Yield what the built pages would load from another host."""
    for page in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        pattern = STYLE_ELSEWHERE if page.suffix == ".css" else ELSEWHERE
        for found in pattern.finditer(page.read_text(encoding="utf-8")):
            yield f"{page.relative_to(site)}: {found.group()} is loaded from elsewhere: ship it, or leave it out"


def main(target: Path) -> int:
    """Build the site into a folder; 1 when anything is not as it must be."""
    source = target.with_name("site-source")
    for folder in (source, target):
        shutil.rmtree(folder, ignore_errors=True)
    copy_pages(source)
    command = [
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-n",
        "-b",
        "html",
        "-c",
        str(ROOT / "scripts/site"),
        str(source),
        str(target),
    ]
    if subprocess.run([sys.executable, *command], check=False).returncode:
        return 1
    (target / "llms.txt").write_text(llms(), encoding="utf-8")
    for style in target.rglob("*.css"):  # the theme's font for flags of countries
        style.write_text(FONT_ELSEWHERE.sub("", style.read_text(encoding="utf-8")), encoding="utf-8")
    found = list(elsewhere(target))
    for advice in found:
        print(advice)
    print(f"{target}/index.html: {len(list(target.rglob('*.html')))} pages")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/site").resolve()))
