"""Whether the CHECK constraints of a table allow each state of a row. SQLite knows them only as text."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

from holdfast._core.table_spec import TableSpec
from holdfast.rows import messages as wording
from holdfast.rows.sql import quoted
from holdfast.rows.sqlite.catalog import TOKEN, TableFacts
from holdfast.rows.sqlite.forms import Stamp, form_of

REBUILDING = "https://www.sqlite.org/lang_altertable.html"
"""How a column or a constraint is changed: by a new table."""
_SOME_TIME = 1.5e9


def findings(watch: TableSpec, facts: TableFacts) -> tuple[list[str], list[str]]:
    """Check which values the table refuses; return problems and warnings.

    A value of Holdfast's that it refuses is a problem. A constraint that depends on other columns too is a warning.
    """
    problems, unread = [], []
    ours = [watch.status, watch.claimed_at, *filter(None, (watch.owner, watch.resets, watch.reason))]
    with closing(sqlite3.connect(":memory:")) as scratch:
        columns = [f"{quoted(name)} {facts.columns[name].type}" for name in ours]
        strict = "STRICT" if facts.is_strict else ""
        scratch.execute(f'CREATE TABLE scratch ("holdfast state" TEXT, {", ".join(columns)}) {strict}')
        for what, value in wording.values_of(watch).items():
            cells = [_cell(watch, facts, what, name) for name in ours[1:]]
            places = ", ".join("?" * (len(cells) + 2))
            try:
                scratch.execute(f"INSERT INTO scratch VALUES ({places})", [f"{what}={value!r}", value, *cells])  # noqa: S608 - only places
            except sqlite3.IntegrityError as error:
                problems.append(wording.not_stored(watch, what, str(error).replace("scratch.", "")))
        for expression, names in checks_in(facts.sql):
            folded = {name.casefold() for name in names}
            if not folded & {name.casefold() for name in ours}:
                continue
            others = {name.casefold() for name in facts.columns} - {name.casefold() for name in ours}
            failing = None if folded & others else _failing(scratch, expression)
            label = f"the CHECK constraint ({expression})"
            if failing:
                remedy = f"rebuild the table with another ({REBUILDING})"
                problems.append(wording.forbidden(watch, label, failing, "see there", remedy))
            elif failing is None and watch.status.casefold() in folded:
                unread.append(wording.unread_constraint(watch, label, "see there"))
    return problems, unread


def checks_in(sql: str) -> Iterator[tuple[str, set[str]]]:
    """Yield the condition of each CHECK constraint in a CREATE TABLE statement, and the names that it mentions.

    >>> [(text, sorted(names)) for text, names in checks_in("CREATE TABLE t (a CHECK (a IN ('b)')), c /* CHECK (x) */)")]
    [("a IN ('b)')", ['IN', 'a'])]
    """
    tokens = [match for match in TOKEN.finditer(sql) if not match[0].isspace() and not match["comment"]]
    for place, token in enumerate(tokens[:-1]):
        if (token["word"] or "").upper() != "CHECK" or tokens[place + 1][0] != "(":
            continue
        depth, names, start = 0, set[str](), tokens[place + 1].end()
        for each in tokens[place + 1 :]:
            depth += (each["sign"] == "(") - (each["sign"] == ")")
            if depth == 0:
                yield sql[start : each.start()], names
                break
            if each["word"] or each["name"]:
                names.add(each["word"] or each["name"][1:-1].replace('""', '"'))


def _failing(scratch: sqlite3.Connection, expression: str) -> list[str] | None:
    try:
        question = f'SELECT "holdfast state" FROM scratch WHERE NOT ({expression})'  # noqa: S608 - the table's own condition
        return [state for (state,) in scratch.execute(question)]
    except sqlite3.Error:
        return None  # it uses a function that only the user's program has


def _cell(watch: TableSpec, facts: TableFacts, what: str, name: str) -> Stamp | None:
    is_pending = what == "pending"
    if name == watch.claimed_at:
        if is_pending and not facts.columns[name].is_required:
            return None
        return form_of(watch, facts.columns).stamp(_SOME_TIME)
    if name == watch.owner:
        return ("" if facts.columns[name].is_required else None) if is_pending else "owner"
    if name == watch.resets:
        return 0
    return "reason" if what == "failed" else None
