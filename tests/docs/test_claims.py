"""What pages claim is there, and each kind of stale or wrong claim is noticed."""

import tomllib
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
