"""The site's navigation has each page once, and links and names of the site are made as they must be; `make docs` builds it."""

import re
from collections import Counter
from pathlib import Path

import pytest

from scripts import build_site
from scripts.site_map import HIDDEN, MAP
from tests.docs.pages import ROOT

DOCS = ROOT / "docs"


def test_the_navigation_has_each_page_once() -> None:
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")} - {*HIDDEN}
    named = Counter(name for names in MAP.values() for name in names)
    assert {name: times for name, times in named.items() if times > 1} == {}
    assert sorted(named) == sorted(pages)


def test_a_link_that_leaves_the_pages_becomes_the_name_of_the_file() -> None:
    page = DOCS / "how-to/fastapi.md"
    text = "[the demo](../../examples/evolution_web/README.md), [words](../glossary.md#time-and-order), ![x](../images/rows.svg)"
    shown = build_site.on_the_site(text, page)
    assert shown.startswith("the demo (`examples/evolution_web/README.md`), [words](../glossary.md#time-and-order), ![x](")


def test_a_link_in_a_block_of_code_stays() -> None:
    text = "```text\n[a](../../README.md)\n```"
    assert build_site.on_the_site(text, DOCS / "how-to/fastapi.md") == text


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("a.html", '<script src="https://cdn.example/x.js"></script>', 1),
        ("a.html", '<link rel="stylesheet" href="//fonts.example/x.css"/>', 1),
        ("a.html", '<a href="https://example.org">elsewhere</a><script src="_static/x.js"></script>', 0),
        ("a.css", "@font-face{src:url(https://cdn.example/x.woff2)}", 1),
        ("a.css", "a{background:url(x.svg)}", 0),
    ],
)
def test_what_a_page_would_load_from_elsewhere_is_found(tmp_path: Path, name: str, text: str, count: int) -> None:
    (tmp_path / name).write_text(text)
    assert len(list(build_site.elsewhere(tmp_path))) == count


def test_the_list_for_programs_has_each_page() -> None:
    listed = re.findall(r"\(_sources/(.+)\.md\.txt\)", build_site.llms())
    assert sorted(listed) == sorted(name for names in MAP.values() for name in names)


def test_the_reference_made_from_docstrings_has_the_public_names() -> None:
    page = build_site.api_page()
    for name in ("App", "Job", "Handle", "Backoff", "cron"):
        assert f"holdfast.{name}\n" in page
