"""What started this process and waits for its word: systemd, for a unit of ``Type=notify``. Without it nothing is sent."""

import os
import socket
from collections.abc import Mapping, MutableMapping
from typing import Final, Self

from msgspec import Struct

LONGEST: Final = 0.1
"""Seconds that a message may wait for a manager that does not read."""
BEATS: Final = 3
"""Messages within the time after which the manager kills a silent process."""


class ServiceManager(Struct, frozen=True):
    """The socket of the manager, empty if there is none. ``pause``: seconds between signs of life; ``None``: it expects none."""

    address: str = ""
    pause: float | None = None

    @classmethod
    def of(cls, environ: MutableMapping[str, str], pid: int) -> Self:
        """Take the manager's words out of the environment, so that no child process answers in this one's place."""
        words = {name: environ.pop(name, "") for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")}
        return cls(words["NOTIFY_SOCKET"], pause_of(words, pid) if words["NOTIFY_SOCKET"] else None)

    def notify(self, *states: str) -> bool:
        """Send states such as ``READY=1``; return whether they were sent. A manager that does not answer changes nothing here."""
        if not self.address:
            return False
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(LONGEST)
                sender.sendto("\n".join(states).encode(), socket_name(self.address))
        except (AttributeError, OSError):  # no such sockets, as on Windows, or no manager at the other end
            return False
        return True


def this_service() -> ServiceManager:
    """Return what started this process, and remove its words from the environment."""
    return ServiceManager.of(os.environ, os.getpid())


def pause_of(words: Mapping[str, str], pid: int) -> float | None:
    """Return the seconds between signs of life that the manager expects of this process.

    >>> pause_of({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "7"}, 7), pause_of({"WATCHDOG_USEC": "60000000"}, 7)
    (20.0, 20.0)
    >>> pause_of({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"}, 7), pause_of({"WATCHDOG_USEC": "soon"}, 7)
    (None, None)
    """
    within, of = words.get("WATCHDOG_USEC", ""), words.get("WATCHDOG_PID", "")
    if not within.isdecimal() or int(within) == 0 or of not in {"", str(pid)}:
        return None
    return int(within) / 1_000_000 / BEATS


def socket_name(address: str) -> str:
    """Return the name of a socket that systemd writes with ``@`` where the kernel has a zero.

    >>> socket_name("@org/notify"), socket_name("/run/systemd/notify")
    ('\\x00org/notify', '/run/systemd/notify')
    """
    return "\0" + address[1:] if address.startswith("@") else address
