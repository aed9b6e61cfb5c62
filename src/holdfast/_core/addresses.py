"""The servers in a store's URL, as addresses that a program may connect to."""

import re
from typing import Final

_PORTS: Final = {"postgresql": 5432, "postgres": 5432, "mongodb": 27017, "http": 7700, "https": 7700}
_PLACE: Final = re.compile(r"(\[[^\]]+\]|[^:\[\]]+)(?::(\d{1,5}))?")


def addresses_of(url: str) -> tuple[tuple[str, int], ...]:
    """Return host and port of each server; nothing if the URL names a file, a bucket, a local socket or a name to be looked up.

    >>> addresses_of("postgresql://me:secret@db-1,db-2:5433/jobs"), addresses_of("sqlite:///jobs.db")
    ((('db-1', 5432), ('db-2', 5433)), ())
    """
    scheme, _, rest = url.partition("://")
    places = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    found = [_PLACE.fullmatch(place) for place in places.split(",")] if scheme in _PORTS else []
    return tuple((each[1].strip("[]"), int(each[2] or _PORTS[scheme])) for each in found if each is not None)
