"""examples/paste_cleanup works as its README describes."""

import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from holdfast.testing.servers.process import free_port
from tests.docs.pages import Reader, blocks_of
from tests.e2e.fleet import START
from tests.e2e.paste_figures import EXAMPLE
from tests.e2e.waiting import until

README = EXAMPLE / "README.md"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    for path in EXAMPLE.glob("*.py"):
        shutil.copy(path, tmp_path)
    reader = Reader(tmp_path, {})
    yield reader
    reader.close()


def is_listening(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.prove
@pytest.mark.timeout(180)
def test_every_command_of_the_readme_works(reader: Reader) -> None:
    port = free_port()
    for block in blocks_of(README):
        if block.language == "console" and block.excuse is None:
            reader.run(block._replace(text=block.text.replace("9000", str(port))))
            until(lambda: is_listening(port), within=START)
    chart = ElementTree.fromstring((reader.folder / "chart.svg").read_text())
    assert len(chart.findall("{*}polygon")) == 4
    assert chart.findall("{*}line"), "no worker was killed"


def test_every_setting_is_explained() -> None:
    explained = set(re.findall(r"^\| `(PASTES_\w+)` \|", README.read_text(), re.MULTILINE))
    asked = {name for path in EXAMPLE.glob("*.py") for name in re.findall(r'"(PASTES_\w+)"', path.read_text())}
    assert explained == asked
