#!/bin/sh
# Checks all that is read rather than run. The types take as long as all the rest, so they are checked beside it.
status=0

check() {
    echo "$1"
    shift
    "$@" || status=1
}

.venv/bin/mypy --strict --no-error-summary src proof tests/typing bench &
types=$!
check "lint (ruff)" .venv/bin/ruff check -q .
check "format (ruff)" .venv/bin/ruff format -q --check .
check "import direction (import-linter)" .venv/bin/lint-imports --no-logo
check "sizes of files and functions" .venv/bin/python scripts/check_sizes.py
check "paths and links in the documents" .venv/bin/python scripts/check_docs.py
check "claims of the documents" .venv/bin/python scripts/check_claims.py
check "plain English" .venv/bin/python scripts/check_language.py
check "types (mypy --strict)" wait "$types"
exit "$status"
