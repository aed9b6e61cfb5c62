"""The pages of the web application, without a browser and without a worker process."""

import json
import os
import re
from itertools import pairwise
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from evolution_web import addresses

from holdfast._core.identity import ProcessIdentity
from holdfast._system.host import identify

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

NONE = "01a22356-4d9d-7428-9140-8d68f516e482"
REFRESH = '<noscript><meta http-equiv="refresh" content="2"></noscript>'


def begin(visitor: "TestClient", url: str) -> str:
    answer = visitor.post("/analyses", data={"url": url})
    assert answer.status_code == 303
    return str(answer.headers["location"])


def end(site: ModuleType, path: str) -> None:
    """Free the key of the repository for the next test."""
    job = UUID(path.rpartition("/")[2])
    site.app.jobs.cancel(job)
    site.app.jobs.delete(job)


def test_an_analysis_from_the_form_to_its_files(visitor: "TestClient", site: ModuleType, sample: str) -> None:
    path = begin(visitor, sample)
    assert begin(visitor, sample) == path  # it is not finished
    assert visitor.post("/analyses", data={"url": sample, "slowly": "on"}).headers["location"] == path
    waiting = visitor.get(path).text
    assert REFRESH in waiting
    assert "waiting for a worker" in waiting
    assert site.app.run_due() == 1
    done = visitor.get(path).text
    assert REFRESH not in done
    assert "data-events" not in done
    assert 'data-next="60"' in done
    assert "Completed on its first attempt" in done
    assert "commit" in done
    for kind, start in (("png", b"\x89PNG"), ("svg", b"<svg"), ("csv", b"commit,date,lines"), ("json", b'{"format":1')):
        answer = visitor.get(f"{path}/evolution.{kind}")
        assert answer.content.startswith(start)
        assert answer.headers["content-security-policy"].endswith("sandbox")
        assert f'href="{path}/evolution.{kind}"' in done
    assert len(json.loads(visitor.get(f"{path}/evolution.json").content)["history"]) == 60
    assert path in visitor.get("/").text
    assert visitor.get(f"{path}/progress").text.count("event: end") == 1
    for story in ("/dashboard/", f"/dashboard/jobs/{path.rpartition('/')[2]}"):
        assert (visitor.get(story).status_code, story in done) == (200, True)
    assert begin(visitor, sample) == path  # it has completed less than 10 minutes ago
    end(site, path)


def test_the_chart_has_what_the_checkpoint_covers(visitor: "TestClient", site: ModuleType, sample: str) -> None:
    job = UUID(begin(visitor, sample).rpartition("/")[2])
    rows = [
        json.dumps({"commit": f"{n}", "date": n * 86_400, "languages": {"C": n + 1, "Go": 5}}).encode() + b"\n" for n in range(40)
    ]
    work = site.folder_of(job) / f".work-{job}"
    work.mkdir(parents=True)
    (work / "rows-1").write_bytes(b"".join(rows))
    mark = {"tip": "x", "rows": "rows-1", "commits": 60, "next": 30, "length": len(b"".join(rows[:30]))}
    series = site.series_of(SimpleNamespace(id=job, checkpoint=mark))
    assert (len(series["rows"]), series["places"][-1], series["next"]) == (30, 30, 30)
    chart = site.chart_of(series, [{"commit": 12}])
    assert [(band["name"], band["lines"]) for band in chart["bands"]] == [("C", 30), ("Go", 5)]
    assert 72 < chart["marks"][0][0] < chart["front"] < 872
    end(site, str(job))


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ("https://me@github.com/a", "paste an https address"),
        ("https://internal.example.org/a", "public repository"),
        ("https://nowhere.example.org/a", "check the address"),
        ("<script>alert(1)</script>", "paste an https address"),
    ],
)
def test_a_refusal_is_on_the_form_with_what_was_typed(
    typed: str, problem: str, visitor: "TestClient", monkeypatch: pytest.MonkeyPatch
) -> None:
    def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        if host.startswith("nowhere"):
            raise addresses.socket.gaierror(-2, "Name or service not known")
        return [(2, 1, 6, "", ("10.0.0.1", port))]

    monkeypatch.setattr(addresses.socket, "getaddrinfo", getaddrinfo)
    answer = visitor.post("/analyses", data={"url": typed})
    assert answer.status_code == 400
    assert problem in answer.text
    assert "<script>alert" not in answer.text
    assert answer.text.count("<script") == 2
    assert f'value="{typed[:20].replace("<", "&lt;").replace(">", "&gt;")}' in answer.text


def test_a_form_that_is_too_large_or_of_unknown_size_is_not_read(visitor: "TestClient") -> None:
    assert visitor.post("/analyses", data={"url": "x" * 5000}).status_code == 403
    assert visitor.post("/analyses", content=iter([b"url=x"])).status_code == 403


def test_pages_have_no_inline_script_or_style_and_name_no_other_host(visitor: "TestClient") -> None:
    for path in ("/", f"/analyses/{NONE}"):
        answer = visitor.get(path)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert not re.search(r"<script(?! src=\"/static/)|<style| style=| on\w+=\"", answer.text)
        assert not re.search(r"(?:src|href|action)=\"(?!/|#|data:)", answer.text)


def test_there_is_no_page_without_an_analysis(visitor: "TestClient", site: ModuleType) -> None:
    other = str(site.app.task(name="other")(lambda: None).enqueue().id)
    for id in ("x", NONE, other):
        for path in (f"/analyses/{id}", f"/analyses/{id}/progress", f"/analyses/{id}/evolution.png"):
            answer = visitor.get(path)
            assert (answer.status_code, "There is no such analysis" in answer.text) == (404, True), path
        assert visitor.post(f"/analyses/{id}/kill").status_code == 404
    assert visitor.get("/?problem=x&status=500").status_code == 200


def test_files_other_than_the_results_are_not_served(visitor: "TestClient", site: ModuleType, sample: str) -> None:
    path = begin(visitor, sample)
    folder = site.folder_of(UUID(path.rpartition("/")[2]))
    folder.mkdir(parents=True)
    (folder / "evolution.txt").touch()
    assert visitor.get(f"{path}/evolution.txt").status_code == 404
    assert visitor.get(f"{path}/evolution.json/../../x").status_code == 404
    end(site, path)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"host": "rebound.example:8420"},
        {"x-forwarded-for": "127.0.0.1"},
        {"forwarded": "for=127.0.0.1"},
    ],
)
def test_a_kill_is_refused_unless_this_page_sends_it(headers: dict[str, str], visitor: "TestClient", site: ModuleType) -> None:
    assert visitor.post(f"/analyses/{NONE}/kill", headers=headers).status_code == 403
    if "origin" in headers or "sec-fetch-site" in headers:
        assert visitor.post("/analyses", data={"url": "x"}, headers=headers).status_code == 403


def test_a_kill_from_another_machine_is_refused_and_not_offered(site: ModuleType, visitor: "TestClient", sample: str) -> None:
    from fastapi.testclient import TestClient  # noqa: PLC0415 – needs the application's packages

    path = begin(visitor, sample)
    guest = TestClient(site.web, base_url="http://127.0.0.1:8420", client=("10.0.0.7", 50_000))
    assert guest.post(f"{path}/kill").status_code == 403
    assert "Kill the worker" in visitor.get(path).text
    end(site, path)


@pytest.mark.parametrize("change", ["none", "start", "boot", "host", "unknown"])
def test_the_process_is_killed_only_if_it_is_the_one_that_the_store_names(
    change: str, visitor: "TestClient", site: ModuleType, sample: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = UUID(begin(visitor, sample).rpartition("/")[2])
    me = identify(os.getpid())
    other = {"start": me.start + 1, "boot": "x", "host": "elsewhere"}
    changed = {change: other[change]} if change in other else {"start": 0} if change == "unknown" else {}
    process = ProcessIdentity(**{name: getattr(me, name) for name in me.__struct_fields__} | changed)
    killed: list[int] = []

    async def leases() -> list[Any]:
        return [SimpleNamespace(worker="w", end=None, process=process), SimpleNamespace(worker="v", end=None, process=me)]

    async def running(_: object) -> Any:
        return SimpleNamespace(id=job, task="evolve", state="running", worker="w", attempt=1)

    site.folder_of(job).mkdir(parents=True)
    monkeypatch.setattr(site.app.workers, "alist", leases)
    monkeypatch.setattr(site.app.jobs, "aget", running)
    monkeypatch.setattr(site.os, "kill", lambda pid, signal: killed.append(pid))
    assert visitor.post(f"/analyses/{job}/kill").status_code == 303
    assert killed == ([os.getpid()] if change == "none" else [])
    assert (site.folder_of(job) / "kills.jsonl").exists() == (change == "none")
    monkeypatch.undo()
    end(site, str(job))


def test_names_of_many_thin_bands_stay_in_the_picture_and_one_commit_fills_it(site: ModuleType) -> None:
    languages = ("C", "CSS", "Go", "HTML", "Java", "PHP", "Perl", "Ruby")
    row = {"date": 0, "languages": {"Python": 100_000, **dict.fromkeys(languages, 1)}}
    chart = site.chart_of({"rows": [row], "places": [1], "commits": 1, "next": 1}, [])
    heights = [band["y"] for band in chart["bands"] if band["lines"]]
    assert all(low - high >= 17 for low, high in pairwise(heights))
    assert 26 <= min(heights) < max(heights) <= 320
    assert chart["front"] == 872


def test_a_language_keeps_its_colour_and_position_while_the_chart_grows(site: ModuleType) -> None:
    names = ("C", "Go", "CSS", "PHP", "Java", "Perl", "Ruby", "Rust", "SQL", "HTML", "Scala", "Swift")
    rows = [{"date": n, "languages": {name: 1 + n * (k + 1) for k, name in enumerate(names[: n + 1])}} for n in range(12)]
    seen: dict[str, int] = {}
    for many in range(1, 9):  # as many languages as there are colours
        drawn = site.chart_of({"rows": rows[:many], "places": [*range(1, many + 1)], "commits": 12, "next": many}, [])["bands"]
        assert [band["name"] for band in drawn] == list(names[:many])
        colours = {band["name"]: band["colour"] for band in drawn}
        assert colours | seen == colours
        assert len(set(colours.values())) == many
        seen = colours
    drawn = site.chart_of({"rows": rows, "places": [*range(1, 13)], "commits": 12, "next": 12}, [])["bands"]
    assert len({band["colour"] for band in drawn}) == len(drawn) == 9
