"""The memory that processes occupy."""

import os


def resident(pid: int | str = "self") -> int | None:
    """Return the bytes of memory that a process occupies; ``None`` where the system does not show it."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
