"""Whether the kernel killed a process here because memory ran out: only the control group shows that; to others it is a SIGKILL."""

from collections.abc import Callable
from pathlib import Path

from holdfast._system.clock import SystemClock

RECENT = 10.0
"""Seconds after a memory kill in which a death is taken for it: the count does not name the killed process."""
OWN_GROUPS = Path("/proc/self/cgroup")
MOUNTED = Path("/sys/fs/cgroup")


class MemoryKills:
    """Counts the memory kills in this process' control group, of version 1 or 2; none are ever seen where it has none."""

    def __init__(self, groups: Path = OWN_GROUPS, mounted: Path = MOUNTED, *, now: Callable[[], float] | None = None) -> None:
        self._groups, self._mounted, self._now = groups, mounted, now or SystemClock().monotonic
        self._seen, self._grown = self._count(), float("-inf")

    def poll(self) -> None:
        """Notice when the count grows. The more often this is called, the better a kill can be matched with a death."""
        count = self._count()
        if count > self._seen:
            self._grown = self._now()
        self._seen = count

    def had_recent_kill(self) -> bool:
        """Return whether there was one within the last ``RECENT`` seconds."""
        self.poll()
        return self._now() - self._grown < RECENT

    def _count(self) -> int:
        for file in self._files():
            try:
                lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            except OSError:
                continue
            found = [line.partition(" ")[2] for line in lines if line.startswith("oom_kill ")]
            if found:
                return int(found[0])
        return 0

    def _files(self) -> list[Path]:
        """List where the count may be: under this group's path or, in a container that shows its group as the root, at the top."""
        try:
            lines = self._groups.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        found = []
        for line in lines:
            number, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if "memory" in controllers.split(","):
                root, name = self._mounted / "memory", "memory.oom_control"
            elif number == "0":
                root, name = self._mounted, "memory.events"
            else:
                continue
            found += [root / path.lstrip("/") / name, root / name]
        return found
