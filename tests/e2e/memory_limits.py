"""Limits on memory: a control group of the kernel if this process may make one, else files that look like one."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from tests.e2e.scripted_workers import end
from tests.e2e.waiting import until

MOUNTED = Path("/sys/fs/cgroup")
ENOUGH = 512 << 20
"""Enough for a supervisor, some workers and a small handler. With less, the kernel kills the largest process and then a neighbour
too: the memory of the first is released a moment later."""
EXEMPT = "import pathlib; pathlib.Path('/proc/self/oom_score_adj').write_text('-1000')"
"""Exempts a process from being killed. The memory of a killed process is released a moment later, and until then the kernel may kill
a neighbour, such as the supervisor. It takes ``CAP_SYS_RESOURCE``, which root in a container often lacks."""


class MemoryLimit(Struct, frozen=True):
    """``main``: how a supervisor starts inside the limit. ``counter``: a dying process counts itself here if no kernel does it."""

    main: tuple[str, ...]
    counter: Path | None = None


@contextmanager
def limited_memory(folder: Path, version: int, *, protects_supervisor: bool = False) -> Iterator[MemoryLimit]:
    """Make a control group of that version, a real one if this process may; end its processes and remove it afterwards.

    ``protects_supervisor``: a test that fills the group several times needs that, or the kernel sometimes kills the supervisor too.
    """
    group = _own_group(version) if not protects_supervisor or _may_exempt_itself() else None
    made = None if group is None else _made(group / f"holdfast-{os.getpid()}-{folder.name}", version)
    if made is None:
        yield _pretended(folder, version)
        return
    enter = f"open({str(made / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))" + (f"; {EXEMPT}" if protects_supervisor else "")
    try:
        yield MemoryLimit(("-c", f"import os; {enter}; from holdfast.cli import main; main()"))
    finally:
        for pid in (made / "cgroup.procs").read_text().split():
            end(int(pid))
        until(lambda: not (made / "cgroup.procs").read_text(), within=15.0)
        made.rmdir()


def _may_exempt_itself() -> bool:
    return subprocess.run([sys.executable, "-c", EXEMPT], capture_output=True, check=False).returncode == 0


def _own_group(version: int) -> Path | None:
    """Return the folder of this process's control group; None if that version does not count memory here."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if version == 1 and "memory" in controllers.split(","):
            return MOUNTED / "memory" / path.lstrip("/")
        if version == 2 and number == "0" and "memory" in _text(MOUNTED / "cgroup.controllers").split():
            return MOUNTED / path.lstrip("/")
    return None


def _made(group: Path, version: int) -> Path | None:
    try:
        if version == 2:
            (group.parent / "cgroup.subtree_control").write_text("+memory")
        group.mkdir()
    except OSError:
        return None
    try:
        (group / ("memory.limit_in_bytes" if version == 1 else "memory.max")).write_text(str(ENOUGH))
    except OSError:
        group.rmdir()
        return None
    return group


def _pretended(folder: Path, version: int) -> MemoryLimit:
    """Write the files that the kernel would show, and return a supervisor that looks for them there."""
    groups, mounted = folder / "groups", folder / "cgroup"
    groups.write_text("3:cpu,memory:/caged\n" if version == 1 else "0::/caged\n")
    counter = mounted / ("memory/caged/memory.oom_control" if version == 1 else "caged/memory.events")
    counter.parent.mkdir(parents=True)
    counter.write_text("oom_kill 0\n")
    look = f"kills.__defaults__ = (pathlib.Path({str(groups)!r}), pathlib.Path({str(mounted)!r}))"
    kills = "import pathlib; from holdfast._system.memory_kills import MemoryKills; kills = MemoryKills.__init__"
    return MemoryLimit(("-c", f"{kills}; {look}; from holdfast.cli import main; main()"), counter)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
