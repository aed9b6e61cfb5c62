"""The number of worker pods follows the jobs that wait: by the rule of KEDA, and by the figures that Holdfast shows."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast import App
from holdfast.dashboard.dashboard import Dashboard
from tests.dashboard.browser import ask
from tests.deploy.keda import LOOK, STABLE, Scaler

TEMPLATE = (Path(__file__).parents[2] / "deploy/helm/holdfast/templates/scaledobject.yaml").read_text()
SLOTS, WAITS, LEAST, MOST = 20, 5, 1, 20
TARGET = SLOTS * WAITS
SECONDS_PER_JOB = 3


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    yield app
    app.close()


async def _mail() -> None: ...


async def backlog(dashboard: Dashboard, queue: str = "default") -> int:
    """Return the figure at the path and in the field that the template names."""
    path, field = re.search(r"url: http:.*?}}(/[a-z].*)\n\s+valueLocation: (\w+)\n", TEMPLATE).groups()  # type: ignore[union-attr]
    reply = await ask(dashboard, path.replace("{{ .Values.keda.queue }}", queue))
    assert reply.status == 200, reply
    return int(json.loads(reply.body)[field])


async def scaled(app: App, jobs: int) -> list[tuple[int, int, int]]:
    """Work ``jobs`` off with as many pods as the scaler wants; return the second, backlog and pods of each look, back to the least."""

    mail = app.task(retention="0s")(_mail)
    await mail.aenqueue_many([{}] * jobs)
    dashboard, scaler, looks = Dashboard(app), Scaler(TARGET, least=LEAST, most=MOST), list[tuple[int, int, int]]()
    while not looks or looks[-1][1] or looks[-1][2] > LEAST:
        figure = await backlog(dashboard)
        looks.append((LOOK * len(looks), figure, scaler.look(figure)))
        if figure:
            await app.arun_due(limit=min(figure, looks[-1][2] * SLOTS * LOOK // SECONDS_PER_JOB), concurrency=SLOTS)
    dashboard.stop()
    await app.aclose()
    return looks


def test_pods_follow_a_small_backlog_and_go_back_to_the_least(app: App) -> None:
    looks = asyncio.run(scaled(app, 250))
    assert looks[:3] == [(0, 250, 3), (15, 0, 3), (30, 0, 3)]
    assert looks[-1] == (STABLE, 0, LEAST)


@pytest.mark.prove
@pytest.mark.timeout(180)
def test_pods_follow_ten_thousand_jobs_and_go_back_to_the_least(app: App) -> None:
    looks = asyncio.run(scaled(app, 10_000))
    rising, full, ended = looks[:3], looks[3:7], looks[7:]
    assert rising == [(0, 10_000, 5), (15, 9_500, 10), (30, 8_500, 20)]
    assert full == [(45, 6_500, 20), (60, 4_500, 20), (75, 2_500, 20), (90, 500, 20)]
    assert {figure for _, figure, _ in ended} == {0}
    assert [(second, pods) for second, _, pods in ended if pods < MOST] == [(375, 5), (390, LEAST)]


@pytest.mark.parametrize(
    ("figure", "pods", "wanted"),
    [(0, 1, 1), (1, 1, 1), (101, 2, 2), (250, 1, 3), (10_000, 1, 20), (210, 2, 2), (230, 2, 3), (50, 0, 1)],
)
def test_the_rule_is_the_figure_over_the_target_rounded_up(figure: int, pods: int, wanted: int) -> None:
    scaler = Scaler(TARGET, least=LEAST, most=MOST)
    scaler.pods = pods
    assert scaler.wanted(figure) == wanted


def test_a_paused_queue_wants_no_pods(app: App) -> None:
    async def paused() -> int:
        await app.task(_mail).aenqueue()
        await app.queues.apause("default")
        figure = await backlog(Dashboard(app))
        await app.aclose()
        return figure

    assert asyncio.run(paused()) == 0


@pytest.fixture
def query() -> str:
    """Return the statement of the template for the queue `default`."""
    (found,) = re.findall(r"query: >-\n(.*?)\n\s+targetQueryValue", TEMPLATE, re.DOTALL)
    names = {"{{ .Values.keda.postgresql.schema }}": "holdfast", "{{ .Values.keda.queue }}": "default"}
    return re.sub(r"{{.*?}}", lambda value: names[value[0]], found)


def test_the_statement_of_the_template_counts_what_waits_as_the_role_that_reads(database: str, query: str) -> None:
    async def fill() -> None:
        app = App(database)
        mail = app.task(_mail)
        await app.acreate_roles()
        for each in (mail, mail, mail.options(delay="1h"), mail.options(queue="other")):
            await each.aenqueue()
        await app.aclose()

    asyncio.run(fill())
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SET ROLE holdfast_read")
        assert connection.execute(query).fetchone() == (2,)
        connection.execute("RESET ROLE")
        connection.execute("INSERT INTO holdfast.queues (queue, paused_at) VALUES ('default', now())")
        assert connection.execute(query).fetchone() == (0,)
