"""A broker under torture: it writes down each beat that it answers from memory, because the bucket has nothing of it."""

import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Self
from uuid import UUID

from holdfast._core.answers import BeatAnswer
from holdfast.cli import main
from holdfast.stores.objects.electing_committer import ElectingCommitter
from proof.checker.history_objects import tell_beats
from tests.broker.processes import BrokerProcess
from tests.e2e.records import COMMITS
from tests.e2e.torture.runner import TIME_LIMIT

UNAVAILABLE = "ended with status 75:"
ROOT = Path(__file__).parents[3]
CODE = "import sys; sys.path.insert(0, sys.argv.pop(1)); from tests.e2e.torture.broker import run; run()"


class TorturedBroker(BrokerProcess):
    """A broker of a bucket, which starts again if the bucket is away when it starts. ``folder``: for its log, and the file of commits."""

    def __init__(self, url: str, folder: Path, name: str) -> None:
        super().__init__("--url", url)
        self._commits, self.log = folder / COMMITS, folder / name

    def start(self) -> Self:
        by = time.monotonic() + TIME_LIMIT
        while True:
            try:
                return super().start()
            except RuntimeError as error:
                if UNAVAILABLE not in str(error) or time.monotonic() > by:
                    raise

    def _words(self) -> Sequence[str | Path]:
        words = super()._words()
        return [sys.executable, "-c", CODE, ROOT, self._commits, *words[words.index("broker") :]]

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=1):
                return True
        except OSError:
            return False


class TalkingCommitter(ElectingCommitter):
    """Writes each beat to a file before it answers it from memory, while it may do so."""

    commits: Path

    def _beat(self, leases: Sequence[UUID], *, first: int) -> BeatAnswer:
        if self._election.may_answer(self._clock.boottime()):
            tell_beats(self.commits, time.time(), leases)
        return super()._beat(leases, first=first)


def run() -> None:
    """Run ``holdfast broker`` with the words of this process; the first one names the file."""
    from holdfast.stores.objects import store

    TalkingCommitter.commits = Path(sys.argv.pop(1))
    store.ElectingCommitter = TalkingCommitter  # type: ignore[misc]
    main()
