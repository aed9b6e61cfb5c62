"""Addresses to listen on, and whether other machines can reach them."""

from ipaddress import ip_address


def host_of(address: str) -> str:
    """Return the host of ``host:port``, or of an address without a port.

    >>> host_of("[::1]:9464"), host_of("127.0.0.1")
    ('::1', '127.0.0.1')
    """
    host = address.rpartition(":")[0] if ":" in address.rpartition("]")[2] else address
    return host.removeprefix("[").removesuffix("]")


def port_of(address: str) -> int | None:
    """Return the port of ``host:port``; None if it has none, or one that cannot be.

    >>> port_of("127.0.0.1:9464"), port_of("127.0.0.1"), port_of("localhost:http")
    (9464, None, None)
    """
    port = address.rpartition(":")[2] if ":" in address.rpartition("]")[2] else ""
    return int(port) if port.isdecimal() and int(port) <= 65535 else None


def is_loopback(host: str) -> bool:
    """Return whether only programs of this machine reach the host.

    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
