"""A process that dies inside a write of a workflow, when all of it is written and nothing of it is committed.

Its arguments are those of ``holdfast``, or ``run`` and a width: store a wide workflow, and run its first node.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import asyncpg

from holdfast.databases.sqlite.database import Database

_armed = list[bool]()


def arm(*_: object) -> None:
    """Let this process die before it commits its next write of several statements."""
    _armed.append(True)


def die_if_armed() -> None:
    if _armed:
        os.kill(os.getpid(), signal.SIGKILL)


def run(width: int) -> None:
    """Store a wide workflow, and die in the settle of its first node."""
    from tests.e2e.wide_app import app, wide

    app.on("job.started")(arm)
    wide.enqueue(width=width)
    app.run_due(limit=1)


def main() -> None:
    """Take the place of the commits, and do what the arguments say."""
    transact, execute = Database._transact, asyncpg.Connection.execute

    def dying_transact(database: Database, name: str, begin: str, action: Callable[[], Any], end: str) -> Any:
        def act() -> Any:
            answer = action()
            if begin == "BEGIN IMMEDIATE":
                die_if_armed()
            return answer

        return transact(database, name, begin, act, end)

    async def dying_execute(connection: Any, query: str, *rest: Any, **more: Any) -> str:
        if query == "COMMIT":
            die_if_armed()
        return str(await execute(connection, query, *rest, **more))

    Database._transact = dying_transact  # type: ignore[method-assign,assignment]
    asyncpg.Connection.execute = dying_execute
    if sys.argv[1] == "run":
        run(int(sys.argv[2]))
        return
    from holdfast.cli import main as holdfast

    arm()
    holdfast()


if __name__ == "__main__":
    main()
