"""Which repositories visitors may name: https at a public address, and nothing that leads into the network of this machine."""

import ipaddress
import os
import re
import socket
from pathlib import Path
from typing import NamedTuple

from holdfast.demo.analysis import BadRepository

FILES = "EVOLUTION_FILES"  # the environment variable with a folder below which file:// is allowed: the sample, and tests
WANTED = "paste an https address without a name, password, port, query or special sign, such as https://github.com/pallets/flask"
_HTTPS = re.compile(r"https://([a-z0-9][a-z0-9.-]*\.[a-z0-9-]*[a-z0-9])((?:/[\w~+-][\w.~+-]*)+)", re.ASCII | re.IGNORECASE)
_WRAPPERS = [ipaddress.ip_network(each) for each in ("2002::/16", "64:ff9b::/96", "64:ff9b:1::/48")]


class Address(NamedTuple):
    """A repository that may be cloned. ``key``: the same for all spellings of it. No ``host``: a folder of this machine."""

    url: str
    key: str
    host: str = ""


def read(text: str) -> Address:
    """Read what a visitor typed. Raises ``BadRepository`` for anything that is not plainly https, and asks no server."""
    text = text.strip().removesuffix("/")
    if text.startswith("file://"):
        allowed, folder = os.environ.get(FILES), Path(text.removeprefix("file://")).resolve()
        if not allowed or not folder.is_relative_to(Path(allowed).resolve()) or not folder.is_dir():
            raise BadRepository(f"folders of this machine are not analyzed: {WANTED}")
        return Address(f"file://{folder}", f"file://{folder}")
    found = _HTTPS.fullmatch(text)
    if found is None or len(text) > 300:
        raise BadRepository(f"{text[:80]!r} is not the address of a repository: {WANTED}")
    return Address(
        f"https://{found[1].lower()}{found[2]}", f"{found[1]}{found[2]}".lower().removesuffix(".git"), found[1].lower()
    )


def public_addresses(host: str) -> list[str]:
    """Resolve a host to its addresses. Raises ``BadRepository`` if one of them is not public, ``OSError`` if the name has none."""
    found = sorted({str(entry[4][0]) for entry in socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)})
    if not all(map(is_public, found)):
        raise BadRepository(f"{host} is not on the internet only: paste the address of a public repository")
    return found


def is_public(text: str) -> bool:
    """Return whether an IP address is one of the internet; one that wraps an address of the older protocol is not."""
    address = ipaddress.ip_address(text.partition("%")[0])
    return address.is_global and not address.is_multicast and not any(address in network for network in _WRAPPERS)
