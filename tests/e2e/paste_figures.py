"""Figures of a run of the paste shop: its speed, its longest pause, and how soon rows of killed workers were back."""

import importlib.util
import json
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from tests.e2e.fleet import ROOT, Crew

EXAMPLE = ROOT / "examples" / "paste_cleanup"
PAUSE = 0.5
"""Seconds between two reads of the tables: a read of a large table is not free."""
STANDING = """
SELECT (SELECT sum(uses) FROM contents), (SELECT count(*) FROM contents WHERE status = 'GONE'),
    (SELECT count(*) FROM pastes WHERE status = 'DELETING')
"""
Ask = Callable[[str], list[tuple[Any, ...]]]


class Figures:
    """Figures of a run in progress: ``look`` is called repeatedly, ``killed`` right after each kill."""

    def __init__(self, ask: Ask, crews: Iterable[Crew], *, expired: int, live: int) -> None:
        self._ask, self._crews, self._expired, self._live = ask, list(crews), expired, live
        self._began = self._looked = self._moved = time.monotonic()
        self._deleted = self._gone = 0
        self._dead: list[tuple[float, frozenset[str]]] = []
        self._is_kill_shown = True
        self._memory = {"supervisor": 0, "worker": 0}
        self.recoveries: list[float] = []
        self.kills, self.freezes, self.gap, self.seconds = 0, 1, 0.0, 0.0
        self.moments: list[Any] = []
        self.chart = _module(EXAMPLE / "chart.py")
        self._see(self._began)

    @property
    def left(self) -> int:
        """The number of expired pastes at the last look."""
        return self._expired - self._deleted

    def killed(self, owners: Iterable[str]) -> None:
        """Record that a worker was killed just now, and under which owners it held rows."""
        self.kills += 1
        self._is_kill_shown = False
        if had := frozenset(owners):
            self._dead.append((time.monotonic(), had))

    def look(self, held: Callable[[], Iterable[str]]) -> None:
        """Look at the rows of killed workers, and from time to time at all rows."""
        now = time.monotonic()
        if self._dead:
            owners = frozenset(held())
            self.recoveries += [now - at for at, had in self._dead if had.isdisjoint(owners)]
            self._dead = [each for each in self._dead if not each[1].isdisjoint(owners)]
        if now - self._looked >= PAUSE:
            self._looked = now
            self._see(now)

    def end(self) -> None:
        """Record the end of the run."""
        self._see(time.monotonic())
        self.seconds = time.monotonic() - self._began

    def all_figures(self) -> dict[str, Any]:
        """Return all figures; the crews' logs are complete now."""
        lost, reset = self._counts("rows.lost"), self._counts("rows.reset")
        log_text = self._logs()
        return {
            "seconds": round(self.seconds, 1),
            "pastes a second": round(self._expired / self.seconds),
            "kills": self.kills,
            "freezes": self.freezes,
            "longest without progress": round(self.gap, 2),
            "killed with rows": len(self.recoveries) + len(self._dead),
            "recovery p50": round(median(self.recoveries), 2) if self.recoveries else None,
            "recovery max": round(max(self.recoveries), 2) if self.recoveries else None,
            "batches lost": len(lost),
            "rows lost": sum(lost),
            "rows reset": sum(reset),
            "runs out of crashes": len(re.findall(r" job\.rescued .*task=rows\..* to=failed ", log_text)),
            "batches that took too long": log_text.count(" rows.batch_slow "),
            "MiB of a worker": self._memory["worker"] // 1024,
            "MiB of a supervisor": self._memory["supervisor"] // 1024,
        }

    def draw(self, path: Path) -> None:
        """Draw the chart of all moments."""
        path.write_text(self.chart.written(self.moments))

    def write(self, folder: Path, **more: object) -> str:
        """Write the chart and all figures; return the figures as text."""
        self.draw(folder / "states.svg")
        text = json.dumps({**more, **self.all_figures(), "chart": str(folder / "states.svg")}, indent=1)
        (folder / "figures.json").write_text(text)
        return text

    def _see(self, now: float) -> None:
        ((uses, gone, deleting),) = self._ask(STANDING)
        kept = self._live + self.kills  # each kill adds a paste
        deleted = self._expired + kept - int(uses)
        self.gap = max(self.gap, now - self._moved)
        if (deleted, gone) != (self._deleted, self._gone):
            self._deleted, self._gone, self._moved = deleted, gone, now
        killed, self._is_kill_shown = not self._is_kill_shown, True
        due = max(self._expired - deleted - deleting, 0)
        self.moments.append(self.chart.Moment(now - self._began, kept, due, deleting, deleted, gone, killed))
        for crew in self._crews:
            self._weigh("supervisor", crew.pid)
            for worker in crew.workers():
                self._weigh("worker", worker)

    def _weigh(self, kind: str, pid: int) -> None:
        try:
            found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        except OSError:
            return
        self._memory[kind] = max(self._memory[kind], int(found[1]) if found else 0)

    def _counts(self, event: str) -> list[int]:
        return [int(each) for each in re.findall(rf" {event} .*?count=(\d+)", self._logs())]

    def _logs(self) -> str:
        return "\n".join(crew.log_text() for crew in self._crews)


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
