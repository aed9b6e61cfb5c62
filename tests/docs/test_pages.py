"""Every block of code and every command on a page works as written, and every link leads to a heading that is there."""

import codeop
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from holdfast.testing.servers import MongoSet, PostgresServer
from holdfast.testing.servers.mongo import find_mongod
from holdfast.testing.servers.process import free_port
from tests.docs.pages import PAGES, ROOT, Reader, blocks_before, blocks_of, read

RUN = ("python", "console")
MONGO = "127.0.0.1:27017"
LONG = (
    "tutorial.md",
    "tutorial-retry.md",
    "how-to/test-crashes.md",
    "how-to/test-crashes-more.md",
    "how-to/stuck-table.md",
    "how-to/stuck-table-worker.md",
    "how-to/stuck-table-counts.md",
    "how-to/own-store.md",
    "how-to/crashes.md",
    "how-to/rescue-hooks.md",
    "how-to/testing.md",
    "how-to/testing-workers.md",
    "how-to/queues.md",
    "how-to/long-jobs.md",
    "how-to/nightly-import.md",
    "how-to/transactions.md",
    "how-to/moving-jobs.md",
    "how-to/tenant-fairness.md",
    "how-to/urgent-queue.md",
    "coming-from/rq.md",
    "coming-from/agenda.md",
    "how-to/broker.md",
    "how-to/rate-limited-api.md",
    "operations/troubleshooting.md",
    "operations/mongodb.md",
    "coming-from/celery-operate.md",
)
"""Pages of `docs` whose blocks take more than 3 s of a core."""
SHOWN = ("text", "json", "ini", "dockerfile", "yaml", "sql", "javascript", "html")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def environment(page: Path, request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """Provide what the page expects: a server of PostgreSQL with the database that it names, one of NATS."""
    text = page.read_text(encoding="utf-8")
    if "mongod --replSet" in text:
        yield {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}{os.pathsep}{find_mongod().parent}"}
        return
    named = re.search(r"postgresql:///(\w+)", text)
    if named is None:
        yield {"NATS_URL": request.getfixturevalue("nats_url")} if "NATS_URL" in text else {}
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    parts = urlsplit(server.dsn())
    server.sql(f"CREATE DATABASE {named[1]}")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}{os.pathsep}{server.binaries}"  # where psql is
    yield {"PGHOST": str(parts.hostname), "PGPORT": str(parts.port), "PGUSER": str(parts.username), "PATH": path}
    server.sql(f"DROP DATABASE {named[1]} WITH (FORCE)")


@pytest.fixture
def replaced(page: Path, request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """Provide a server of MongoDB on a free port; the page may start it itself."""
    text = "".join(block.text for block in blocks_of(page) if block.language in RUN)
    if "mongod --replSet" in text:
        yield {"27017": str(free_port())}
    elif named := re.search(rf"mongodb://{MONGO}/(\w+)", text):
        servers: MongoSet = request.getfixturevalue("mongo_set")
        yield {MONGO: servers.members[0].address}
        servers.drop_database(servers.url.replace("/?", f"/{named[1]}?"))
    else:
        yield {}


@pytest.fixture
def reader(tmp_path: Path, environment: dict[str, str], replaced: dict[str, str]) -> Iterator[Reader]:
    reader = Reader(tmp_path, environment, replaced)
    yield reader
    reader.close()


def pages_to_run() -> Iterator[object]:
    """Yield the pages with blocks to run; the long ones are marked."""
    for page in PAGES:
        if any(each.language in RUN for each in blocks_of(page)):
            is_long = page in [ROOT / "docs" / each for each in LONG]
            yield pytest.param(page, marks=[pytest.mark.prove] if is_long else [], id=name_of(page))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("page", [*pages_to_run()])
def test_everything_on_the_page_works_as_written(page: Path, reader: Reader) -> None:
    for block in (*blocks_before(page), *blocks_of(page)):
        if block.excuse is not None:
            read(block)
        elif block.language in RUN or block.file is not None:
            reader.run(block)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_block_is_of_a_kind_that_is_not_checked(page: Path) -> None:
    assert {block.language for block in blocks_of(page)} <= {*RUN, *SHOWN}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_is_not_a_file_can_be_typed_at_the_prompt(page: Path) -> None:
    for block in blocks_of(page):
        if block.language == "python" and block.file is None and block.excuse is None:
            typed: list[str] = []
            for line in [*block.text.splitlines(), ""]:
                typed.append(line)
                if codeop.compile_command("\n".join(typed), block.where) is not None:
                    typed = []
            assert typed == [], f"{block.where}: {typed}"


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading)).strip().lower() for heading in headings)
    return {each.replace(" ", "-") for each in words}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_to_a_heading_finds_it(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    lost = [
        f"{target}#{anchor}"
        for target, anchor in re.findall(r"\]\(([^()\s#:]*)#([^()\s]+)\)", text)
        if anchor not in anchors_of((page.parent / target).resolve() if target else page)
    ]
    assert lost == []


def test_the_map_leads_to_every_page() -> None:
    start = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs") for page in PAGES if page.is_relative_to(ROOT / "docs") and page.name != "README.md"]
    assert [str(page) for page in pages if f"({page})" not in start] == []
