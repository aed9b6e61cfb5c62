"""Whether a table of SQLite fits its watch: reports everything that does not, at once, and changes nothing."""

from collections.abc import Iterator

from holdfast._core.table_spec import TableSpec
from holdfast._ports.table import Findings
from holdfast.errors import ConfigurationError
from holdfast.rows import messages as wording
from holdfast.rows.indexes import Wanted, serves
from holdfast.rows.sql import nearest, quoted
from holdfast.rows.sqlite import checks
from holdfast.rows.sqlite.catalog import TableFacts, facts_of
from holdfast.rows.sqlite.database import RowsFile, StatementRefused
from holdfast.rows.sqlite.forms import form_of, forms_of
from holdfast.rows.sqlite.statements import Statements, literal

_REQUIRED = f"rebuild the table with NOT NULL there ({checks.REBUILDING})"
SAMPLED = 10_000
"""Rows whose stamps are read, of those in progress and of the newest."""


def inspect(file: RowsFile, watch: TableSpec) -> Findings:
    """Inspect the table and return all findings."""
    try:
        facts = facts_of(file, watch)
    except ConfigurationError as error:
        return Findings(problems=tuple(error.problems))
    if isinstance(facts, str):
        return Findings(problems=(facts,))
    if facts.kind != "table":
        return Findings(problems=(wording.not_a_table(watch, f"a {facts.kind}"),))
    if missing := [*wording.missing_columns(watch, facts.columns)]:
        return Findings(problems=tuple(missing))
    statements = Statements(watch, facts)
    problems = [*_of_types(watch, facts), *_of_key(file, watch, facts, statements), *_of_sql(file, watch, facts, statements)]
    forbidden, unread = checks.findings(watch, facts)
    foreign, unreadable = _of_stamps(file, watch, statements)
    warnings = [*unread, *unreadable, *_of_nulls(watch, facts), *_of_triggers(watch, facts)]
    indexes = [statements.create_index(want) for want in missing_indexes(statements, watch, facts)]
    return Findings((*problems, *forbidden, *foreign), tuple(warnings), tuple(indexes))


def missing_indexes(statements: Statements, watch: TableSpec, facts: TableFacts) -> list[Wanted]:
    """List the wanted indexes that no existing index replaces."""
    return [want for want in statements.wanted if not any(serves(index, want, watch) for index in facts.indexes)]


def _of_types(watch: TableSpec, facts: TableFacts) -> Iterator[str]:
    written = [watch.status, watch.claimed_at, *filter(None, (watch.owner, watch.resets, watch.reason))]
    for column in (facts.columns[name] for name in written):
        if column.is_generated:
            yield wording.misfit("columns", column.name, "generated", "name one that can be written")
    stamp = facts.columns[watch.claimed_at]
    if form_of(watch, facts.columns).is_whole and watch.owner is None:
        what = "milliseconds" if watch.stamps == "epoch_ms" else "seconds"
        yield wording.too_coarse(watch, quoted(watch.table[-1]), f"{stamp.type}, whole {what}")
    for what, name in (("owner", watch.owner), ("reason", watch.reason)):
        if name is not None and facts.columns[name].affinity in ("INTEGER", "REAL", "NUMERIC"):
            yield wording.misfit(what, name, facts.columns[name].type, "name one of type TEXT")
    if watch.resets is not None and facts.columns[watch.resets].affinity == "TEXT":
        yield wording.misfit("resets", watch.resets, facts.columns[watch.resets].type, "name one of type INTEGER")


def _of_key(file: RowsFile, watch: TableSpec, facts: TableFacts, statements: Statements) -> Iterator[str]:
    if not any(set(columns) <= set(watch.key) for columns in facts.unique):
        yield wording.not_unique(watch, quoted(watch.table[-1]), facts.unique)
    for name in watch.key:
        if not facts.columns[name].is_required:
            ((found,),) = file.ask("inspect", statements.texts.of("null_key", column=quoted(name)))
            if found:
                yield wording.null_keys(watch, name, _REQUIRED)


def _of_sql(file: RowsFile, watch: TableSpec, facts: TableFacts, statements: Statements) -> Iterator[str]:
    try:
        for name in ("condition", "trial"):
            file.ask("inspect", statements.texts.of(name))
    except StatementRefused as error:
        text = str(error.__cause__)
        remedy = "correct the SQL"
        if "no such function: now" in text:
            remedy = "SQLite writes CURRENT_TIMESTAMP, or datetime('now')"
        elif "no such column: " in text:
            remedy = f"correct the SQL; {nearest(text.rpartition(': ')[2], facts.columns)}"
        yield wording.wrong_sql(watch, text, remedy)
        return
    try:
        file.ask("inspect", f"EXPLAIN {statements.claim}", {"limit": 0, "now": "", "owner": ""})
    except (
        StatementRefused
    ) as error:  # other SQL that the statement runs: constraints, indexes and triggers with functions of another program
        yield wording.not_writable(watch, str(error.__cause__))


def _of_stamps(file: RowsFile, watch: TableSpec, statements: Statements) -> tuple[list[str], list[str]]:
    """Check the form of the stamps; return problems and warnings.

    Stamps of another form are a problem if no stamp has the expected one, else a warning: no statement changes their rows.
    """
    ours = statements.form
    cases = " ".join(
        f"WHEN {form.readable} THEN {literal(form.name)}" for form in sorted(forms_of(ours), key=lambda each: each != ours)
    )
    newest = ", ".join(f"{quoted(name)} DESC" for name in watch.key)
    sql = statements.texts.of("forms", cases=cases, newest=newest)
    found = {form: (number, sample) for form, number, sample in file.ask("inspect", sql, {"limit": SAMPLED})}
    has_ours = found.pop(ours.name, None) is not None
    messages = [wording.foreign_stamps(watch, ours.name, form, *about) for form, about in found.items()]
    return ([], messages) if has_ours else (messages, [])


def _of_nulls(watch: TableSpec, facts: TableFacts) -> Iterator[str]:
    columns = (facts.columns[name] for name in watch.key)
    yield from (wording.may_be_null(column.name, _REQUIRED) for column in columns if not column.is_required and not column.is_key)


def _of_triggers(watch: TableSpec, facts: TableFacts) -> Iterator[str]:
    ours = {"UPDATE", "DELETE"} if watch.deletes or watch.retention is not None else {"UPDATE"}
    return (wording.surprising_trigger(watch, quoted(name)) for name, event in facts.triggers if event in ours)
