"""The name of the schema, or of the collections, that a store keeps its rows in."""

import re

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def problems_of_schema(schema: object) -> list[str]:
    """Return what is wrong with the name of a schema. Only Holdfast may use the schema: it drops old partitions by their names.

    >>> problems_of_schema("public")
    ["schema='public': others keep tables there; use one of its own, such as 'holdfast'"]
    """
    if not isinstance(schema, str) or not _SCHEMA.fullmatch(schema):
        return [f"schema={schema!r}: use 1 to 63 of a-z, 0-9 and _, and no digit first"]
    if schema in ("public", "information_schema") or schema.startswith("pg_"):
        return [f"schema={schema!r}: others keep tables there; use one of its own, such as 'holdfast'"]
    return []
