"""More finished jobs than a page counts: it shows about how many there are, if the store knows."""

from collections.abc import Mapping

import pytest

from holdfast import App
from holdfast._core.job import State
from holdfast._engine import store_defaults
from holdfast._ports.store import Store
from holdfast.dashboard import Dashboard
from tests.dashboard.browser import Elements, get

MILLIONS = {State.COMPLETED: 3_012_000, State.FAILED: 0, State.CANCELLED: 0}


@pytest.mark.parametrize(("known", "shown"), [(MILLIONS, "≈ 3.0 M"), ({State.COMPLETED: 2}, "3+"), ({}, "3+")])
def test_a_count_that_stopped_is_about_what_the_store_knows_or_at_least_what_was_counted(
    app: App, monkeypatch: pytest.MonkeyPatch, known: Mapping[State, int], shown: str
) -> None:
    async def estimates(store: Store) -> Mapping[State, int]:
        return known

    monkeypatch.setattr("holdfast.dashboard.views.page.MOST_COUNTED", 2)
    monkeypatch.setattr("holdfast.http.stream.MOST_COUNTED", 2)
    monkeypatch.setattr(store_defaults, "estimates", estimates)
    for to in ("anna", "bob", "eve", "nowhere"):
        app.enqueue("mail", to=to)
    app.run_due()
    dashboard = Dashboard(app)
    for path in ("/", "/jobs"):
        body = get(dashboard, path).body
        assert shown in Elements(body).text
        if known == MILLIONS:
            assert "3+" not in body
