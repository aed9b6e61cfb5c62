"""``explain`` and ``check`` name what keeps jobs from starting: limits, rates and lanes, on every store that needs no server."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast import App, Limit
from holdfast._core.answers import Check
from holdfast._core.job import NewJob, RescueReason
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimKind, ClaimRequest
from holdfast._engine.client import explaining
from holdfast._engine.operators import check_limits
from holdfast.sync import PORTAL
from holdfast.testing.clock import FakeChance
from tests.engine.support import LEASE, TIMING

IDLE = structs.replace(LEASE, timing=TIMING, tasks=("send",), slots=10)


class Site:
    """An App whose only worker a test plays."""

    def __init__(self, app: App) -> None:
        self.app, self.chance = app, FakeChance()
        app.task(name="send", queue="mail")(nothing)
        PORTAL.run(self.store.open_lease(IDLE))

    @property
    def store(self) -> Any:
        return self.app._connections.store

    def enqueue(self, *keys: str, queue: str = "mail") -> list[UUID]:
        jobs = [NewJob(id=self.chance.uuid7(), task="send", payload=b"{}", policy=Policy(), queue=queue, key=key) for key in keys]
        PORTAL.run(self.store.enqueue(self.chance.uuid4(), jobs))
        return [job.id for job in jobs]

    def claim(self, number: int, kind: ClaimKind = ClaimKind.LIMITED, *, ids: Sequence[UUID] | None = None) -> list[UUID]:
        request = ClaimRequest(
            lease=IDLE.id,
            claim=self.chance.uuid4(),
            tasks={"send": Policy()},
            limit=number,
            kind=kind,
            ids=None if ids is None else tuple(ids),
        )
        return [each.job.id for each in PORTAL.run(self.store.exchange((), request)).claims]

    def causes(self, job: UUID) -> list[str]:
        return [f"{each.code}: {each.message}" for each in self.app.jobs.explain(job).causes]

    def findings(self, name: str = "limits") -> list[Check]:
        return [each for each in self.app.check() if each.name == name]


@pytest.fixture(params=["memory://", "sqlite:///{}/jobs.db"], ids=["memory", "sqlite"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    app = App(request.param.format(tmp_path))
    yield Site(app)
    app.close()


def nothing() -> None: ...


def test_a_job_that_all_limits_allow_has_no_cause(site: Site) -> None:
    site.app.limits.set("cluster", Limit(concurrency=5, per_key=2, rate="100/s"))
    (job,) = site.enqueue("acme")
    assert site.causes(job) == []


def test_a_full_limit_is_explained_with_the_job_and_worker_that_hold_it(site: Site) -> None:
    site.app.limits.set("queue", "mail", Limit(concurrency=1))
    site.app.limits.set("queue", "other", Limit(concurrency=0))
    first, second = site.enqueue("", "")
    assert site.claim(5) == [first]
    (cause,) = site.causes(second)
    assert cause.startswith(
        f"at_capacity: the limit of queue mail is full: 1 of 1 jobs are active: job {first} on worker-1 since "
    )


def test_a_full_key_is_explained_and_other_keys_are_not_kept(site: Site) -> None:
    site.app.limits.set("task", "send", Limit(per_key=1))
    first, second, other = site.enqueue("acme", "acme", "else")
    assert site.claim(1) == [first]
    (cause,) = site.causes(second)
    assert cause.startswith("at_capacity: the limit of task send for the key 'acme' is full: 1 of 1 jobs are active: job ")
    assert site.causes(other) == []


def test_rates_are_explained_with_the_time_of_the_next_start(site: Site) -> None:
    site.app.limits.set("queue", "mail", Limit(rate="1/h"))
    first, second = site.enqueue("", "")
    assert site.claim(5) == [first]
    (cause,) = site.causes(second)
    assert cause.startswith("rate_limited: the rate of queue mail, 1/h, allows the next start at ")


def test_the_rate_of_a_key_is_explained(site: Site) -> None:
    site.app.limits.set("queue", "mail", Limit(rate_per_key="1/h"))
    first, second, other = site.enqueue("acme", "acme", "else")
    assert site.claim(1) == [first]
    (cause,) = site.causes(second)
    assert cause.startswith("rate_limited: the rate of queue mail for the key 'acme', 1/h, allows the next start at ")
    assert site.causes(other) == []


def test_a_store_without_limits_is_explained_as_before(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (explaining, check_limits):
        monkeypatch.setattr(module, "offers", lambda *_: False)
    site.app.limits.set("queue", "mail", Limit(concurrency=0))
    (job,) = site.enqueue("")
    assert site.causes(job) == []
    assert site.findings() == []


# lanes


def starve(site: Site) -> UUID:
    """Make more jobs of another lane start than turns explain, while one job waits."""
    (waits,) = site.enqueue("", queue="slow")
    others = site.enqueue(*["", "acme"] * 14)
    assert len(site.claim(28, ClaimKind.PLAIN, ids=others)) == 28
    return waits


def test_a_lane_that_waits_longer_than_its_share_is_explained(site: Site) -> None:
    job = starve(site)
    PORTAL.run(site.store.open_lease(structs.replace(IDLE, id=UUID(int=77), worker="idle", slots=1)))
    (cause,) = site.causes(job)
    assert "its lane (queue slow) waits longer than its share" in cause


def test_a_lane_that_was_overtaken_a_few_times_has_no_cause(site: Site) -> None:
    (job,) = site.enqueue("", queue="slow")
    assert len(site.claim(5, ClaimKind.PLAIN, ids=site.enqueue(*[""] * 5))) == 5
    assert site.causes(job) == []


def test_check_reports_lanes_that_wait_longer_than_their_share(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_limits, "LATE", 0.0)
    assert site.findings("lanes") == []
    starve(site)
    (found,) = site.findings("lanes")
    assert (found.level, "queue slow" in found.message) == ("warning", True)
    assert "`holdfast queues set slow --weight 2`" in found.remedy
    site.app.queues.pause("slow")
    assert site.findings("lanes") == []


# findings about limits


def test_check_has_nothing_to_report_of_limits_that_work(site: Site) -> None:
    site.app.limits.set("cluster", Limit(concurrency=1))
    site.app.limits.set("task", "send", Limit(rate="1/s"))
    site.app.limits.set("queue", "mail", Limit(per_key=1))
    site.enqueue("", "")
    assert len(site.claim(5)) == 1
    assert site.findings() == []


def test_check_reports_a_limit_of_nothing(site: Site) -> None:
    site.app.limits.set("queue", "mail", Limit(concurrency=0, rate="1/s"))
    (found,) = site.findings()
    assert found.message == "the limit of queue mail is 0: no job of it may start"
    assert found.remedy == "raise it: `holdfast limits set queue mail --concurrency 1 --rate 1/s`"


def test_check_reports_a_full_limit_whose_holders_have_ended(site: Site) -> None:
    site.app.limits.set("cluster", Limit(concurrency=1))
    site.enqueue("")
    (job,) = site.claim(1)
    PORTAL.run(site.store.end_lease(IDLE.id, LeaseEnd(RescueReason.CRASHED)))
    (found,) = site.findings()
    assert found.message == f"the limit of the cluster is full, and the workers that hold it have ended: job {job} on worker-1"
    assert "`holdfast recover module:app`" in found.remedy


@pytest.mark.parametrize("scope", ["task", "queue"])
def test_check_reports_limits_that_count_nothing(site: Site, scope: Any) -> None:
    site.app.limits.set(scope, "mial", Limit(concurrency=1))
    (found,) = site.findings()
    assert found.message.startswith(f"the limit of {scope} mial counts nothing")
    assert found.remedy == f"correct the name, or `holdfast limits clear {scope} mial`"
