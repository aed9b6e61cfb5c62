"""The URL of a broker, or of several: checked, and without secrets, which come from the environment."""

import re
from typing import Self
from urllib.parse import urlsplit

from msgspec import Struct

from holdfast._core.schemes import BROKERS

PORT = 7700
TOKEN = "HOLDFAST_TOKEN"
"""The environment variable that has the token."""

_LOOKS = "http://broker:7700 or https://broker-1:7700,broker-2:7700"
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]")


class BrokerUrl(Struct, frozen=True):
    """The brokers that a client may call, each as a URL without a path."""

    servers: tuple[str, ...]

    @classmethod
    def of(cls, url: str) -> Self:
        """Parse a URL in which ``problems_of_broker_url`` finds no problem.

        >>> BrokerUrl.of("http://a,b:7701").servers
        ('http://a:7700', 'http://b:7701')
        """
        scheme, _, places = url.partition("://")
        return cls(tuple(f"{scheme}://{_with_port(place)}" for place in places.rstrip("/").split(",")))


def problems_of_broker_url(url: str) -> list[str]:
    """Return what is wrong with the URL of a broker, naming the remedy and no secret.

    >>> problems_of_broker_url("http://broker:7700/jobs")
    ["the broker's URL: nothing follows its port; write http://broker:7700 or https://broker-1:7700,broker-2:7700"]
    """
    scheme, _, rest = url.partition("://")
    if scheme not in BROKERS:
        return [f"the broker's URL: its scheme is not http or https; write {_LOOKS}"]
    if "@" in rest:
        return [f"the broker's URL: it must not hold a user or a token; set {TOKEN} in the environment"]
    places = rest.rstrip("/")
    if any(each in places for each in "/?#"):
        return [f"the broker's URL: nothing follows its port; write {_LOOKS}"]
    if not all(_is_place(place) for place in places.split(",")):
        return [f"the broker's URL: a broker is host:port, with commas between several; write {_LOOKS}"]
    return []


def _is_place(place: str) -> bool:
    try:
        parts = urlsplit(f"//{place}")
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    host = place if parts.port is None else place.rpartition(":")[0]
    return has_port and bool(_HOST.fullmatch(host))


def _with_port(place: str) -> str:
    return place if urlsplit(f"//{place}").port is not None else f"{place}:{PORT}"
