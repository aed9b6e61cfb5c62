"""Six situations: the overview names the trouble, what it is about, and a remedy that can be pasted or clicked."""

import asyncio
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast import App
from holdfast.cli.remedies import Named, with_names
from holdfast.dashboard import Dashboard, Identity
from holdfast.dashboard.commands import set_commands
from tests.cli.support import run
from tests.dashboard.browser import Elements, get
from tests.dashboard.situations import SITUATIONS, prepare


class Seen(NamedTuple):
    """What the overview calls for in a situation. ``commands``: patterns; ``buttons``: their links."""

    text: str
    commands: tuple[str, ...]
    buttons: tuple[str, ...]


SEEN = {
    "wave": Seen(
        r"A new error: 400 jobs of sync_orders failed with KeyError .* at shop/orders\.py:118 in sync_line\. "
        r"It began \d+ s after the workers were started, so a release may have brought it\.",
        ("errors show 5a41ab0c77d2e913", "errors retry 5a41ab0c77d2e913"),
        ("/errors/5a41ab0c77d2e913",),
    ),
    "paused": Seen(
        r"The queue imports has been paused by anna for 2 h 01 min, and 412 jobs wait\. *Ask anna why",
        ("queues resume imports",),
        ("/actions/queue/resume?name=imports", "/queues/imports"),
    ),
    "zombie": Seen(
        r"The code of charge_card may have run twice: the worker web3-4713-\w+ was frozen or cut off, and its late result was refused\. "
        r"One job \(charge_card\) was taken from it .* ago\. It has completed since\. *See when each run began and ended",
        ("jobs show ......", "ps -fp 4713", "jobs list --rescued"),
        ("/jobs?rescued=yes",),
    ),
    "limit": Seen(
        r"The limit of the task render_report, 2 at once, is full: two jobs have held it for 21 min.*, and 36 jobs wait for a slot\. "
        r"The oldest holder, render_report \w{6} on web1-4711, reported progress \(40 %, stage pages\) 1[2-9] s ago, so it is slow, "
        r"and not stuck\. The last beat of its worker was .* ago\. The other one, render_report \w{6} on web2-4712, reports no progress",
        ("jobs show ......", "ps -fp 4712", "jobs cancel ......", "limits set task render_report --concurrency 3"),
        ("/limits",),
    ),
    "unknown": Seen(
        r"No live worker knows the task render_report_v2, and 41 jobs of it wait\. *Start a worker of the release that has it",
        ("worker shop:app", "jobs cancel --task render_report_v2"),
        ("/jobs?task=render_report_v2",),
    ),
    "machine": Seen(
        r"The machine web3 has no live worker any more: two workers of web3 sent no beat\. "
        r"12 jobs \(render_report\) were taken from them .* ago\. Of these, 6 run again on web1 and web2, and 6 wait for a free worker\. "
        r"None of them runs twice at once unless web3 was frozen and goes on; the store then refuses its results\. *See whether web3 runs",
        ("worker shop:app", "jobs list --rescued"),
        ("/jobs?rescued=yes",),
    ),
}


def test_there_is_a_test_of_each_situation() -> None:
    assert SEEN.keys() == SITUATIONS.keys()


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_overview_names_the_trouble_its_object_and_a_remedy(situation: str, tmp_path: Path) -> None:
    app, seen = App(asyncio.run(prepare(situation, tmp_path))), SEEN[situation]
    set_commands(app, lambda text: with_names(text, Named(app="shop:app")))
    dashboard = Dashboard(app, authenticate=lambda _: Identity("anna", ["operator"]), actions=True)
    needs = re.findall(r'<ul class="need panel">(.*?)\n</ul></section>', get(dashboard, "/").body, re.DOTALL)
    assert len(needs) == 1
    page = Elements(needs[0])
    assert sum(tag == "b" for tag, _ in page.found) == 1, "one trouble, and nothing beside it"
    assert re.search(seen.text, page.text), page.text
    assert [attrs["href"] for tag, attrs in page.found if tag == "a"] == [*seen.buttons]
    commands = re.findall(r"<code>(.*?)</code>", needs[0])
    assert len(commands) == len(seen.commands), commands
    for command, pattern in zip(commands, seen.commands, strict=True):
        assert re.fullmatch(rf"(holdfast )?{pattern}( --app shop:app)?", command), command
    app.close()


@pytest.mark.parametrize("situation", ["wave", "paused", "zombie", "limit"])
def test_the_first_remedy_works_as_it_is(situation: str, tmp_path: Path) -> None:
    """Those of the other two start a worker."""
    app = App(asyncio.run(prepare(situation, tmp_path)))
    set_commands(app, lambda text: with_names(text, Named(url=app.settings.url)))
    command = re.findall(r"<code>holdfast (.*?)</code>", get(Dashboard(app), "/").body)[0]
    app.close()
    answer = run(*shlex.split(command))
    assert answer.exit_code == 0, answer.output
