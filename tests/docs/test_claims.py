"""What pages claim is there, and each kind of stale or wrong claim is noticed."""

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from scripts import check_claims
from tests.docs.pages import ROOT

CLAIMS: list[dict[str, Any]] = tomllib.loads((ROOT / "docs/claims.toml").read_text(encoding="utf-8"))["claim"]


def test_every_claim_is_true_today() -> None:
    assert check_claims.main(ROOT) == 0


@pytest.mark.parametrize(
    "proof",
    ["import holdfast.stores.paper", "import holdfast.app:Application", "command jobs juggle", "test docs/test_claims: nothing"],
)
def test_a_claim_without_its_proof_is_noticed(proof: str) -> None:
    (advice,) = check_claims.check_proofs([{"feature": "paper", "words": [], "proof": proof}], ROOT)
    assert proof in advice


@pytest.mark.parametrize(
    "text",
    [
        "Not there yet: actions in the dashboard.",
        "MongoDB is not supported yet.",
        "Workers on SQLite; PostgreSQL follows.",
        "| Prometheus is to follow | x |",
        "* It works.\n* NATS will follow.",
    ],
)
def test_a_feature_that_exists_and_is_put_off_is_noticed(text: str) -> None:
    assert len(list(check_claims.check_later(CLAIMS, {"page": text}))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "A worker on PostgreSQL follows the changes of the store.",
        "The job has not started yet. MongoDB keeps it.",
        "```text\nMongoDB: not there yet\n```",
        "Not there yet: jobs on paper.",
    ],
)
def test_a_sentence_about_something_else_is_left_alone(text: str) -> None:
    assert list(check_claims.check_later(CLAIMS, {"page": text})) == []


def test_a_feature_without_its_claim_is_noticed() -> None:
    less = [claim for claim in CLAIMS if claim["feature"] not in ("MongoDB", "workflows")]
    found = "\n".join(check_claims.check_complete(less, ROOT))
    assert "no claim has the extra mongo" in found
    assert "the command workflows" in found


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("`pip install '.[postgress]'`", "postgress is not an extra"),
        ("`holdfast[nats,paper]`", "paper is not an extra"),
        ("`holdfast jobs list --stat failed`", "--stat is not an option"),
        ("`worker.vanished`", "worker.vanished is not an event"),
        ("`holdfast_jobs_lost_total`", "holdfast_jobs_lost_total is not a metric"),
    ],
)
def test_a_name_that_does_not_exist_is_noticed(text: str, wrong: str) -> None:
    (advice,) = check_claims.check_names({"page": text}, ROOT)
    assert wrong in advice


def test_names_that_exist_are_left_alone() -> None:
    text = "`.[postgres,nats]` `holdfast jobs list --state failed` `worker.started` `holdfast_attempts_total` `worker.py`"
    assert list(check_claims.check_names({"page": text}, ROOT)) == []


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the check reads of the repository. Its tests are those of the repository."""
    folder = tmp_path_factory.mktemp("repository")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("images"))
    pages = [page.relative_to(ROOT) for page in ROOT.glob("examples/*/README.md")]
    for path in (Path("README.md"), Path("pyproject.toml"), *pages):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    (folder / "tests").symlink_to(ROOT / "tests")
    assert check_claims.main(folder) == 0
    return folder


@pytest.mark.parametrize("feature", [claim["feature"] for claim in CLAIMS])
def test_no_claim_can_be_removed(copy: Path, feature: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = copy / "docs/claims.toml"
    text = file.read_text(encoding="utf-8")
    head, *claims = text.split("[[claim]]")
    kept = [claim for claim in claims if f"feature = {json.dumps(feature)}" not in claim]
    assert len(kept) == len(claims) - 1
    file.write_text("[[claim]]".join([head, *kept]), encoding="utf-8")
    try:
        assert check_claims.main(copy) == 1
    finally:
        file.write_text(text, encoding="utf-8")
    assert "no claim has" in (output := capsys.readouterr().out) or "without a claim" in output


def test_no_page_can_put_a_claimed_feature_off(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for claim in CLAIMS for word in claim["words"]]
    sentences = [f"Not there yet: {word}." for word in words]
    page = copy / "docs/how-to/put-off.md"
    page.write_text("# Later\n\n" + "\n\n".join(sentences), encoding="utf-8")
    try:
        assert check_claims.main(copy) == 1
    finally:
        page.unlink()
    found = capsys.readouterr().out.splitlines()
    assert [line.rpartition(": Not there yet")[0].split(": ")[0] for line in found] == ["docs/how-to/put-off.md"] * len(words)
    assert [f"Not there yet{line.rpartition(': Not there yet')[2]}" for line in found] == sentences
