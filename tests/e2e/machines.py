"""A separate machine, as ownership sees it: another host name, and another way to the servers.

No process there can prove the death of a process here, although all run on one kernel: only leases show which is dead.
"""

import os
from collections.abc import Sequence

from msgspec import Struct

_RENAME = 'hostname "$0" && exec "$@"'


class Machine(Struct, frozen=True):
    """Its host name, and how its processes reach store and transport; an empty field means: as for the test itself."""

    name: str = ""
    url: str = ""
    transport: str = ""

    def command(self, arguments: Sequence[str]) -> list[str]:
        """Return what starts that command there, under the pid of the process that is started."""
        if not self.name:
            return list(arguments)
        allow = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        return ["unshare", *allow, "--uts", "--", "sh", "-c", _RENAME, self.name, *arguments]

    def environment(self) -> dict[str, str]:
        """Return the environment of its processes."""
        given = {"E2E_URL": self.url, "E2E_TRANSPORT": self.transport}
        return {name: value for name, value in given.items() if value}


HERE = Machine()
"""The machine on which the tests run."""
