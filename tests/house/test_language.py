"""The lint of the language: each rule has lines that it refuses and lines that it lets pass."""

from pathlib import Path

import pytest

from scripts import check_language


def rules(source: str, path: str = "src/holdfast/module.py") -> list[str]:
    return [hit.rule for hit in check_language.check_text(path, source)]


def prose(sentence: str) -> list[str]:
    return rules(sentence + "\n", "docs/page.md")


# --- W1: words


@pytest.mark.parametrize(
    ("refused", "passed"),
    [
        ("Nobody claims it.", "No worker claims it."),
        ("Who waits, does nothing.", "A worker who waits does nothing. Who waits?"),
        ("The store says so.", "The store reports it, and a saying is fine."),
        ("It was told twice.", "It was reported twice."),
        ("There is no news.", "There is no update."),
        ("It runs whatever happens.", "It runs wherever needed; however, it stops."),
        ("'30x' is no duration.", "There is no duration, and it is no longer one."),
        ("It asks in vain.", "It asks without effect."),
        ("It runs for ever.", "It runs for every job."),
        ("The caller and his job.", "The caller and this job."),
        ("It heals the row.", "It is owed until the transaction commits."),
        ("The value is sound.", "It resounds."),
        ("Deaf code is killed.", "Unresponsive code is killed."),
        ("The job runs alone.", "A pid alone is reused."),
        ("The burial of a worker.", "The burying-place."),
        ("It goes back in line.", "It is a line of text."),
        ("There is no room for it.", "There are no free slots."),
        ("The job keeps its place.", "It happens in one place."),
        ("It writes the mark.", "It ends with a question mark."),
        ("A text is stored.", "The text of a file is stored."),
        ("It takes so many jobs.", "It takes so long."),
        ("A process of its own.", "A separate process."),
        ("It lets go of the lock.", "It releases the lock."),
        ("The job is given back.", "The job is returned."),
    ],
)
def test_w1_refuses_a_banned_word_and_passes_its_replacement(refused: str, passed: str) -> None:
    assert set(prose(refused)) == {"W1"}
    assert prose(passed) == []


def test_w1_reads_docstrings_comments_and_messages_of_python() -> None:
    assert rules('"""Nobody waits."""\n') == ["W1"]
    assert rules('LIMIT = 1\n"""What nobody may pass."""\n') == ["W1"]
    assert rules("x = 1  # for nobody\n") == ["W1"]
    assert rules("raise ValueError('nobody waits')\n") == ["W1"]
    assert rules("raise ValueError(f'nobody waits for {name}')\n") == ["W1"]
    assert rules("Check('red', 'nobody waits')\n") == ["W1"]
    assert rules("option('--x', help='nobody waits')\n") == ["W1"]
    assert rules("x = 'nobody # waits'\n") == []


def test_w1_finds_a_word_across_lines_and_names_its_line() -> None:
    (hit,) = check_language.check_text("src/x.py", "x = 1\n# It runs for\n# ever.\n")
    assert str(hit) == "src/x.py:2: W1 'for ever': use indefinitely; gradually; again; in the meantime"


def test_w1_reads_the_comments_of_sql() -> None:
    assert rules("-- Nobody waits.\nSELECT 'nobody -- waits';\n", "src/x.sql") == ["W1"]


def test_w1_skips_code_examples_and_addresses() -> None:
    assert prose("`nobody` and [a page](nobody.md) and https://nobody.example") == []
    assert prose("```\nnobody\n```\n\nNo worker waits.") == []
    assert rules('"""Use ``nobody``.\n\n>>> nobody()\nnobody\n\nIt is used thus::\n\n    nobody()\n"""\n') == []
    assert rules("raise ValueError(f'{nobody!r} is not a name')\n") == []


def test_w1_lets_comments_speak_of_us_but_not_documents() -> None:
    assert rules("# It kills us.\n") == []
    assert prose("It kills us.") == ["W1"]
    assert prose("It takes 10 us in the US.") == []


# --- the other rules


def test_w2_refuses_retired_names_where_we_define_them() -> None:
    assert rules("class Heart:\n    pass\n") == ["W2"]
    assert rules("def bury_worker(): ...\n") == ["W2"]
    assert rules("def recover(ward): ...\n") == ["W2"]
    assert rules("self.was_told = True\n") == ["W2"]
    assert rules("class Heartbeat:\n    pass\nx = other.was_told\nforward = steward = 1\n") == []


def test_d1_refuses_docstrings_that_do_not_begin_with_a_verb(tmp_path: Path) -> None:
    module = tmp_path / "src" / "module.py"
    module.parent.mkdir()
    module.write_text(
        'def first():\n    """The first of the waiting jobs."""\n\n\ndef last():\n    """Return the job to be claimed."""\n'
    )
    assert [(hit.line, hit.rule) for hit in check_language.check_tree(tmp_path)] == [(2, "D1")]


def test_d2_refuses_docstrings_of_functions_under_four_words() -> None:
    assert rules('def close():\n    """Close it soon."""\n') == ["D2"]
    assert rules('def close_the_store_of_jobs():\n    """Close the store of jobs."""\n') == ["D2"]
    assert rules('def close():\n    """Close it after the last statement."""\n') == []
    assert rules('class Store:\n    """A job store."""\n') == []


def test_s1_refuses_sentences_over_35_words() -> None:
    assert prose("word " * 36 + ".") == ["S1"]
    assert prose("word " * 35 + ". " + "word " * 35 + ".") == []
    assert prose("- " + "word " * 20 + "\n- " + "word " * 20) == []


def test_t1_refuses_test_names_over_100_characters_or_with_banned_words() -> None:
    assert rules(f"def {'test_a' * 17}(): ...\n", "tests/x.py") == ["T1"]
    assert rules("def test_nobody_waits(): ...\n", "tests/x.py") == ["T1"]
    assert rules("def test_no_worker_waits(): ...\n", "tests/x.py") == []


@pytest.mark.parametrize(
    "subject", ["stores: end leases in one write", "_core: drop a name", "tests/house: add a rule", "Merge branch 'x'"]
)
def test_c1_passes_subjects_of_the_form(subject: str) -> None:
    assert check_language.check_subject(subject + "\n\nWhy.\n") is None


@pytest.mark.parametrize(
    "subject",
    ["End leases in one write", "stores: End leases", "stores: end leases.", "stores: end leases; drop", "stores: " + "x" * 65],
)
def test_c1_refuses_other_subjects(subject: str, tmp_path: Path) -> None:
    message = tmp_path / "message"
    message.write_text(subject + "\n")
    assert "C1" in (check_language.check_subject(subject) or "")
    assert check_language.main(["--commit-msg", str(message)]) == 1


# --- exceptions and the way in


def test_exception_needs_a_reason_and_holds_for_its_file() -> None:
    assert rules("# language: nobody – the account of Unix\n# nobody\n") == []
    assert rules("# language: nobody\n# nobody\n") == ["W1"]
    assert rules("# language: nobody – the account of Unix\n# whoever\n") == ["W1"]
    assert rules("<!-- language: S1 – a quotation -->\n\n" + "word " * 36, "docs/x.md") == []
