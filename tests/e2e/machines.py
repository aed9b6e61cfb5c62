"""A machine of its own, as far as ownership can tell: another host name, and its own way to the servers.

Nobody there can prove the death of a process here, although all run on one kernel: only leases say who is dead.
"""

import os
from collections.abc import Sequence

from msgspec import Struct

_RENAME = 'hostname "$0" && exec "$@"'


class Machine(Struct, frozen=True):
    """Its host name and how its processes reach store and transport; what is empty is as for the test itself."""

    name: str = ""
    url: str = ""
    transport: str = ""

    def command(self, arguments: Sequence[str]) -> list[str]:
        """What starts that command there, under the pid of whoever is started."""
        if not self.name:
            return list(arguments)
        allow = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        return ["unshare", *allow, "--uts", "--", "sh", "-c", _RENAME, self.name, *arguments]

    def environment(self) -> dict[str, str]:
        """What its processes are told."""
        told = {"E2E_URL": self.url, "E2E_TRANSPORT": self.transport}
        return {name: value for name, value in told.items() if value}


HERE = Machine()
"""The machine on which the tests run."""
