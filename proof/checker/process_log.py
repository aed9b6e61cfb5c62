"""What no database can record: which processes were killed, frozen or woken, and what handlers did while their store was away.

The process that does it, or to which it happens, writes it down with the time of the machine's wall clock. A database server
on the same machine reads that clock too: so deeds and rows have one order.
"""

import os
from pathlib import Path
from uuid import UUID

import msgspec
from msgspec import Struct

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import Token
from proof.checker.history import Event, Phase, label

CALLS = ("enqueue", "request_cancel")
"""Deeds that record an acknowledgement: it was done."""


class ProcessEvent(Struct, frozen=True, omit_defaults=True):
    """Something that happened to a process, or that it did. ``what`` names it.

    A test does ``process.end``, ``process.freeze`` and ``process.thaw`` to it. The process does ``handler.start``, ``handler.end``
    and ``CALLS``; ``write.refused``: it tried to write to a job that it had lost. ``time``: seconds since the epoch. For an end or a
    freeze it is after the last instruction of the process, for a thaw before the next one.
    """

    time: float
    what: str
    process: ProcessIdentity
    job: UUID | None = None
    token: Token | None = None

    def event(self, began: float) -> Event:
        """Make the event in a history that began then."""
        phase = Phase.OK if self.what in CALLS else Phase.LIFE
        time = self.time - began
        return Event(time=time, process=label(self.process), what=self.what, phase=phase, job=self.job, token=self.token)


def tell(path: Path, deed: ProcessEvent) -> None:
    """Append the event, in one write, to a file that many processes share."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, b"\n" + msgspec.json.encode(deed) + b"\n")
    finally:
        os.close(file)


def read_from(path: Path, start: int = 0) -> tuple[list[ProcessEvent], int]:
    """Read all that was written behind that offset of the file, and return the new offset."""
    if not path.exists():
        return [], start
    with path.open("rb") as file:
        file.seek(start)
        text = file.read()
    whole = text[: text.rfind(b"\n") + 1]
    return [deed for line in whole.splitlines() if (deed := _deed(line)) is not None], start + len(whole)


def _deed(line: bytes) -> ProcessEvent | None:
    """Decode a line; ``None`` for one in the middle of which its writer was killed: that counts as never written."""
    try:
        return msgspec.json.decode(line, type=ProcessEvent)
    except msgspec.DecodeError:
        return None
