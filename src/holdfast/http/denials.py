"""What was refused to whom: recorded beside what operators do, once a minute for each sender and action, with a count."""

import asyncio
import logging
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from msgspec import structs
from starlette.requests import Request

from holdfast._core.audit import AuditNote
from holdfast._core.text import json_text, printable
from holdfast._engine.environment import Environment
from holdfast._engine.error_text import described
from holdfast._engine.store_defaults import auditing, has_audit
from holdfast._system.clock import compose_uuid7
from holdfast.http.access import SENDER, Access, target_of
from holdfast.http.permissions import Action
from holdfast.http.problems import Problem

ACTION: Final = "denied"
"""How denials are listed: ``/audit?action=denied``."""
UNKNOWN: Final = "unknown sender"
NO_ACTION: Final = "unknown action"
"""What a path names as an action may be of any length, and another one in each request."""
OTHERS: Final = "other senders"
MOST_ROWS: Final = 60
"""The most rows that one process adds in a minute: a flood of denials under many names must not fill the table."""
FLUSH: Final = 5.0
"""Seconds between two writes of one row: a flood of denials must not become a flood of writes."""
LONGEST_WRITE: Final = 2.0
MOST_CHARACTERS: Final = 500
_REFUSED: Final = (401, 403)
_READS: Final = ("GET", "HEAD", "OPTIONS")

logger = logging.getLogger("holdfast")


class _Tally:
    """One row of a minute, with the denials that it does not count yet."""

    def __init__(self, note: AuditNote) -> None:
        self.note, self.more = note, 0
        self.task: asyncio.Task[None] | None = None


class Denials:
    """Records refused changes, and reads that a known sender may not make.

    A mount that only reads writes nothing, and a browser that does not know yet that it must show who it is has done nothing wrong.
    ``via``: the dashboard, or the API.
    """

    def __init__(self, environment: Callable[[], Environment], access: Access, via: str) -> None:
        self._environment, self._access, self._via = environment, access, via
        self._minute, self._tallies = 0, dict[tuple[Any, ...], _Tally]()

    async def note(self, request: Request, problem: Problem, action: str) -> None:
        """Record a refusal, if it is one. A store that is away costs its record, and is logged."""
        is_meant = request.method not in _READS or problem.code == "forbidden"
        if problem.status not in _REFUSED or self._access.is_read_only or not is_meant:
            return
        environment = self._environment()
        if not has_audit(environment.store):
            return
        action = action if action in set(Action) else NO_ACTION
        minute = int(environment.clock.wall() // 60)
        if minute != self._minute:
            self._minute, self._tallies = minute, {}
        who, loop = str(request.scope.get(SENDER, UNKNOWN))[:MOST_CHARACTERS], asyncio.get_running_loop()
        if (loop, who, action) not in self._tallies and len(self._tallies) >= MOST_ROWS:
            who = OTHERS
        tally = self._tallies.get((loop, who, action))
        if tally is not None:
            tally.more += 1
            tally.task = tally.task or loop.create_task(self._flush(tally))
            return
        tally = self._tallies[loop, who, action] = _Tally(self._first(environment, request, problem, action, who))
        await self._write(tally, 1)

    def _first(self, environment: Environment, request: Request, problem: Problem, action: str, who: str) -> AuditNote:
        """Return the row of a minute: every process gives it the same id, so that all add to one."""
        digest = sha256(json_text([self._minute, who, action]).encode()).digest()
        peer = "an unknown address" if request.client is None else request.client.host
        asked = {"action": action, "method": request.method, "path": target_of(request)[:MOST_CHARACTERS], "code": problem.code}
        return AuditNote(
            id=compose_uuid7(self._minute * 60_000, int.from_bytes(digest) % 2**74),
            write=environment.chance.uuid4(),
            who=who,
            origin=f"{self._via}:{peer}",
            action=ACTION,
            selector=json_text(asked),
            reason=problem.detail[:MOST_CHARACTERS],
        )

    async def _flush(self, tally: _Tally) -> None:
        while tally.more:
            await self._environment().clock.sleep(FLUSH)
            more, tally.more = tally.more, 0
            await self._write(tally, more)
        tally.task = None

    async def _write(self, tally: _Tally, count: int) -> None:
        environment = self._environment()
        by = structs.replace(tally.note, write=environment.chance.uuid4())
        try:
            async with asyncio.timeout(LONGEST_WRITE):
                await auditing(environment.store).record_action(by, count)
        except Exception as error:
            logger.warning("a denial was not recorded: %s", printable(described(error)))
