"""A record of what handlers did, in a file that only grows."""

import json
import os
import time
from pathlib import Path
from typing import Any
from uuid import UUID

from holdfast import Job, SyncJob


class Journal:
    """A file of one line per entry; each is written at once, so that it outlives its process."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "journal"

    def write(self, job: Job | SyncJob, what: str, **more: object) -> None:
        """Write an entry about a job, by its handler."""
        entry = {"what": what, "job": str(job.id), "attempt": job.attempt, "crashes": job.crashes, "token": str(job.token)}
        # On a separate line, even if the writer of the line before was killed in the middle of it.
        line = "\n" + json.dumps({**entry, "pid": os.getpid(), "time": time.monotonic(), **more}) + "\n"
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def read(self, job: UUID | None = None, what: str | None = None) -> list[dict[str, Any]]:
        """Read the entries, oldest first."""
        if not self._path.exists():
            return []
        entries = [json.loads(line) for line in self._path.read_text().splitlines() if line.endswith("}")]
        return [
            entry for entry in entries if (job is None or entry["job"] == str(job)) and (what is None or entry["what"] == what)
        ]
