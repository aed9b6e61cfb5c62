"""A broker in a separate process, as users start it."""

import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from holdfast.testing.servers.process import Server

HOLDFAST = (sys.executable, "-c", "from holdfast.cli import main; main()")


class BrokerProcess(Server):
    """``holdfast broker`` with these words; it can be killed and started again on the same port."""

    name = "broker"

    def __init__(self, *words: str) -> None:
        super().__init__()
        self._given = words

    @property
    def url(self) -> str:
        """Return the address at which it listens."""
        return f"http://127.0.0.1:{self.port}"

    def leads(self) -> bool:
        """Return whether it leads the brokers of its bucket."""
        try:
            with urllib.request.urlopen(f"{self.url}/leader", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _words(self) -> Sequence[str | Path]:
        return [*HOLDFAST, "broker", *self._given, "--listen", f"127.0.0.1:{self.port}"]

    def _is_ready(self) -> bool:
        return f"//127.0.0.1:{self.port}" in self.log.read_text()
