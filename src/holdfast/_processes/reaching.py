"""A line for the person at a terminal while the server of a store cannot be reached: the store itself is tried for much longer."""

import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from holdfast._core.addresses import addresses_of
from holdfast._engine.retry import GIVE_UP
from holdfast.settings import public_url

ANSWERS_WITHIN = 1.5
"""Seconds for which a server may not answer."""


@contextmanager
def announcing_outage(url: str) -> Iterator[None]:
    """Write a line to a terminal's stderr if none of the URL's servers accepts a connection while the block runs."""
    addresses, ended = addresses_of(url), threading.Event()
    if addresses and sys.stderr is not None and sys.stderr.isatty():
        threading.Thread(target=_try, args=(addresses, public_url(url), ended), daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _try(addresses: Sequence[tuple[str, int]], name: str, ended: threading.Event) -> None:
    for address in addresses:
        try:
            socket.create_connection(address, ANSWERS_WITHIN / len(addresses)).close()
        except (OSError, ValueError):
            continue
        return
    if not ended.is_set():
        sys.stderr.write(f"{name} cannot be reached, trying for {GIVE_UP:.0f} s\n")
        sys.stderr.flush()
