"""Users' tables: rows are claimed, fenced, finished and reset where they are; `app.rows` works on them.

`assignments` turns a spec into SQL, `messages` words every refusal; `postgres` and `sqlite` have the verbs of `_ports/table`.
Change freely: inspections and messages. Do not change: nothing is created in a user's database, and every write names its fence.
A mistake fails `tests/rows`.
"""

from holdfast.rows.open_table import open_table

__all__ = ["open_table"]
