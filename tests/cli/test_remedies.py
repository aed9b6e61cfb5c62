"""Commands in what `holdfast` prints can be pasted: they name the App or the store that the command before them was given."""

import json
import re
import shlex
from pathlib import Path

import pytest

from holdfast.cli.remedies import Named, with_names
from tests.cli.support import run, url

PAYLOAD = '{"repo_url": "u"}'
APP, STORE = Named(app="shop:app"), Named(url="sqlite:///jobs.db")
OF_ENVIRONMENT = Named().or_of({"HOLDFAST_APP": "shop:app", "HOLDFAST_URL": "sqlite:///jobs.db"})
URL_OF_ENVIRONMENT = Named().or_of({"HOLDFAST_URL": "sqlite:///jobs.db"})


@pytest.mark.parametrize(
    ("text", "named", "expected"),
    [
        ("see `holdfast jobs list`", APP, "see `holdfast jobs list --app shop:app`"),
        ("see `holdfast jobs list`", STORE, "see `holdfast jobs list --url sqlite:///jobs.db`"),
        ("see `holdfast jobs list`", OF_ENVIRONMENT, "see `holdfast jobs list`"),
        ("see `holdfast jobs list`", URL_OF_ENVIRONMENT, "see `holdfast jobs list`"),
        ("run: holdfast recover MODULE:APP", APP, "run: holdfast recover shop:app"),
        ("run: holdfast recover MODULE:APP", OF_ENVIRONMENT, "run: holdfast recover shop:app"),
        ("run: holdfast recover MODULE:APP", STORE, "run: holdfast recover MODULE:APP"),
        ("run `holdfast migrate module:app`", STORE, "run `holdfast migrate --url sqlite:///jobs.db`"),
        ("run `holdfast migrate module:app`", URL_OF_ENVIRONMENT, "run `holdfast migrate`"),
        ("see `holdfast check`", APP, "see `holdfast check shop:app`"),
        ("see `holdfast check`", STORE, "see `holdfast check --url sqlite:///jobs.db`"),
        ("`holdfast migrate --roles --url URL`", APP, "`holdfast migrate --roles --url URL`"),
        ("`holdfast migrate --roles`", APP, "`holdfast migrate --roles shop:app`"),
        ("`holdfast rows indexes a --create`", APP, "`holdfast rows indexes a --create --app shop:app`"),
        ("look: holdfast top; then: holdfast top", APP, "look: holdfast top --app shop:app; then: holdfast top --app shop:app"),
        ("`holdfast store` is for buckets", STORE, "`holdfast store` is for buckets"),
        ("`holdfast worker` does it", STORE, "`holdfast worker` does it"),
        ("`holdfast broker --new-token NAME=ROLE`", APP, "`holdfast broker --new-token NAME=ROLE`"),
        ("see `holdfast jobs list`", Named(url="s3://b/p?region=eu&schema=a"), "see `holdfast jobs list --url 's3://b/p?region=eu&schema=a'`"),
        ("see `holdfast jobs list`", Named(url="postgresql://u:secret@h/d"), "see `holdfast jobs list --url URL`"),
        ("see `holdfast jobs list`", Named(url="postgresql:///d?password=secret"), "see `holdfast jobs list --url URL`"),
        ("see `holdfast jobs list`", Named(url="postgresql://[h/d"), "see `holdfast jobs list --url URL`"),
    ],
)  # fmt: skip
def test_a_command_names_what_was_named(text: str, named: Named, expected: str) -> None:
    assert with_names(text, named) == expected


def pasted(text: str) -> str:
    """Run the first command of a remedy as a shell would, and return what it prints."""
    found = re.search(r"`holdfast ([^`]+)`|: holdfast ([^;\n]+)", text)
    assert found is not None, text
    done = run(*shlex.split(found[1] or found[2]))
    assert done.exit_code == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["plain", "a.b-c_d"])
def test_pasting_a_remedy_ends_what_it_is_for(folder: Path, name: str) -> None:
    job = run("enqueue", "shop", "analyze", PAYLOAD, "--queue", name).stdout.strip()
    given = ("--url", url(folder))
    assert run("queues", "pause", name, *given).exit_code == 0
    for words in (["check", "shop"], ["jobs", "explain", job, *given], ["top", "--once", *given, "--json"]):
        printed = run(*words).stdout if "--json" not in words else json.loads(run(*words).stdout)["needs"][1]["step"]
        (line,) = [line for line in printed.splitlines() if "queues resume" in line]
        assert pasted(line) == f"queue {name} resumed\n"
        assert run("queues", "pause", name, *given).exit_code == 0


@pytest.mark.parametrize("words", [["jobs", "show", "0123"], ["errors", "show", "ab"], ["workers", "drain", "x"]])
@pytest.mark.parametrize("by_url", [False, True])
def test_the_command_that_an_error_names_can_be_pasted(folder: Path, words: list[str], by_url: bool) -> None:
    done = run(*words, *(("--url", url(folder)) if by_url else ("--app", "shop")))
    assert done.exit_code in (1, 2)
    pasted(done.stderr)
    document = json.loads(run(*words, "--app", "shop", "--json").stderr)["error"]
    pasted(f"{document['message']} {document['remedy']}")
