"""The GRANT that ends a refusal of the server, as its owner pastes it into psql. Pure functions."""

import re
from typing import Final

from holdfast.rows.sql import quoted

_DENIED: Final = re.compile(r"permission denied for (schema|function|table|view|sequence) (.+)")
_RIGHTS: Final = {"schema": "USAGE ON SCHEMA", "function": "EXECUTE ON FUNCTION", "sequence": "USAGE ON SEQUENCE"}


def granting(refusal: str, user: str, *, on_tables: str) -> str:
    """Return what gives a user the right that a message of the server names. ``on_tables``: that which a table is read or written with.

    >>> granting("permission denied for schema shop", '"jobs"', on_tables="SELECT")
    '`GRANT USAGE ON SCHEMA "shop" TO "jobs"`'
    """
    found = _DENIED.match(refusal)
    if found is None:
        return f"GRANT it to {user}"
    right = _RIGHTS.get(found[1], f"{on_tables} ON")
    return f"`GRANT {right} {quoted(found[2])} TO {user}`"
