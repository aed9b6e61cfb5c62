"""The checks that all objects of the migrations exist, are valid and may be used by this user, and that no publication blocks them."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from holdfast._core.answers import Check
from holdfast.databases.postgres.errors import ROLES
from holdfast.stores.postgres.records import Row
from holdfast.stores.postgres.schema import MIGRATIONS

_WRITTEN: Final = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE"})
RIGHTS: Final[dict[str, frozenset[str]]] = {
    **dict.fromkeys(("pending", "active", "finished", "finished_other", "payloads", "attempts", "attempts_other"), _WRITTEN),
    **dict.fromkeys(
        ("receipts", "unique_keys", "queues", "limits", "rates", "schedules", "leases", "lease_starts", "beats"), _WRITTEN
    ),
    **dict.fromkeys(("steps", "signals", "flows", "members", "edges", "audits", "minutes"), _WRITTEN),
    **dict.fromkeys(("versions", "partition_days", "jobs"), frozenset({"SELECT"})),
    **dict.fromkeys(("claim_numbers", "signal_places"), frozenset({"USAGE"})),
}
"""The rights that a worker needs, as ``roles.sql`` grants them."""

_FULL: Final = "ALTER TABLE {schema}.{name} REPLICA IDENTITY FULL"
_RESTORE: Final = "restore what was dropped, or restore a backup"


class Made(Struct, frozen=True):
    """The objects that migrations create. ``others``: tables, views, sequences. ``indexes``: each with the statement that creates it."""

    others: frozenset[str]
    functions: frozenset[str]
    indexes: dict[str, str]


def made() -> Made:
    """Return the objects that the migrations create, read from their text, so that none is listed twice."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in MIGRATIONS)
    text = re.sub(r"--.*", "", text)
    indexes = {found[2]: _line(found[0]) for found in re.finditer(r"CREATE (UNIQUE )?INDEX (\w+) ON [^;]*", text)}
    for table, body in re.findall(r"CREATE TABLE holdfast\.(\w+) \((.*?)\n\)", text, re.DOTALL):
        if key := re.search(r"^\s*(\w+) .*\bPRIMARY KEY,?$|^\s*PRIMARY KEY \((.*)\)", body, re.MULTILINE):
            indexes[f"{table}_pkey"] = f"ALTER TABLE holdfast.{table} ADD PRIMARY KEY ({key[1] or key[2]})"
    others = re.findall(r"CREATE (?:TABLE|VIEW|SEQUENCE) holdfast\.(\w+)", text)
    return Made(frozenset(others), frozenset(re.findall(r"CREATE FUNCTION holdfast\.(\w+)", text)), indexes)


def judge(schema: str, relations: Sequence[Row], functions: Sequence[Row], *, user: str) -> list[Check]:
    """Return all findings about the objects of a schema; empty if nothing is wrong. ``user``: the connection's."""
    found = [*_missing(schema, relations, functions), *_of_indexes(schema, relations), *_of_identities(schema, relations)]
    return [*found, *_of_rights(schema, relations, functions, user)]


def _missing(schema: str, relations: Sequence[Row], functions: Sequence[Row]) -> Iterator[Check]:
    expected, names = made(), {row["name"] for row in relations}
    callable_names = {row["name"] for row in functions}
    for name in sorted(expected.others - names):
        yield Check("error", "schema", f"{schema}.{name} is missing", _RESTORE)
    for name in sorted(expected.functions - callable_names):
        yield Check("error", "schema", f"function {schema}.{name} is missing", _RESTORE)
    for name in sorted(expected.indexes.keys() - names):
        remedy = expected.indexes[name].replace("holdfast.", f"{schema}.")
        yield Check("error", "indexes", f"index {name} is missing: statements read whole tables without it", remedy)


def _of_indexes(schema: str, relations: Sequence[Row]) -> Iterator[Check]:
    for row in relations:
        if row["is_valid"] is False:
            message = f"index {row['name']} is not valid, so no statement uses it: its making was interrupted"
            yield Check("error", "indexes", message, f"REINDEX INDEX {schema}.{row['name']}")
    if collated := [row["name"] for row in relations if row["is_collated"] and row["parent"] is None]:
        message = (
            f"these indexes follow the database's collation: {', '.join(collated)}: an upgrade of the C library can hide jobs"
        )
        remedy = "REINDEX them after each upgrade of the C library or ICU, or move to a schema made by this release"
        yield Check("warning", "collation", message, remedy)


def _of_identities(schema: str, relations: Sequence[Row]) -> Iterator[Check]:
    published = {row["name"]: row["publications"] for row in relations}
    lacking = [row for row in relations if row["kind"] == "r" and not row["has_identity"]]
    if not lacking:
        return
    named = {name for row in lacking for name in (*row["publications"], *published.get(row["parent"], ()))}
    tables, remedy = ", ".join(row["name"] for row in lacking), "; ".join(_FULL.format(schema=schema, **row) for row in lacking)
    if named:
        message = f"publication {', '.join(sorted(named))} covers tables without a replica identity, so no job can move: {tables}"
        yield Check("error", "publication", message, remedy)
    else:
        message = f"these tables have no replica identity: {tables}: a publication of all tables would stop every job"
        yield Check("warning", "publication", message, remedy)


def _of_rights(schema: str, relations: Sequence[Row], functions: Sequence[Row], user: str) -> Iterator[Check]:
    rights = {row["name"]: frozenset(row["rights"]) for row in relations if row["name"] in RIGHTS}
    lacking = [
        f"{', '.join(sorted(RIGHTS[name] - rights[name]))} ON {schema}.{name}"
        for name in sorted(rights)
        if RIGHTS[name] - rights[name]
    ]
    lacking += [f"EXECUTE ON FUNCTION {schema}.{row['name']}" for row in functions if not row["is_ours"]]
    if not lacking:
        return
    if may_only_read(relations):
        message = "this user may only read, so whether workers can move a job was not tried"
        yield Check("warning", "rights", message, "run the check as the user of the workers")
        return
    remedy = f"as the owner of the schema: {ROLES}, and `GRANT {schema}_work TO {user}`, or: "
    grants = "; ".join(f"GRANT {each} TO {user}" for each in lacking)
    yield Check("error", "rights", f"this user may not work: it lacks {'; '.join(lacking)}", remedy + grants)


def may_only_read(relations: Sequence[Row]) -> bool:
    """Return whether this user has no right to write to any table."""
    return not any({"INSERT", "UPDATE", "DELETE"} & set(row["rights"]) for row in relations if row["name"] in RIGHTS)


def _line(statement: str) -> str:
    return " ".join(statement.split())
