"""What tests of pages share: an App with a task that fails as asked, and the browser in which pages are looked at."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from holdfast import App

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 – only `make prove` installs it

    path = next(filter(os.path.exists, CHROMIUM), None)
    assert path, "no Chromium: apt-get install chromium"
    with sync_playwright() as made:
        browser = made.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def app() -> Iterator[App]:
    app = App("memory://")

    @app.task(max_attempts=1)
    def mail(to: str) -> str:
        if to == "nowhere":
            raise KeyError(to)
        return to

    yield app
    app.close()
