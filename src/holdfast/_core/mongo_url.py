"""The URL of a MongoDB database: checked, and never shown with its password.

It is read without any driver, so that a wrong URL is reported as a problem of the settings.
"""

import re
from typing import Self
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from holdfast._core.postgres_url import public_url

SCHEMES = ("mongodb", "mongodb+srv")

_LOOKS = "mongodb://user:password@host:27017/database?replicaSet=rs0, more hosts after commas"
_DATABASE = re.compile(r"[^\0/\\ .\"$*<>:|?]{1,63}")


class MongoUrl(Struct, frozen=True):
    """A checked URL. ``url``: for the driver. ``public``: for people. ``database``: the one in which the collections are."""

    url: str
    public: str
    database: str

    @classmethod
    def of(cls, url: str) -> Self:
        """Parse a URL in which ``problems_of_mongo_url`` finds no problem.

        >>> MongoUrl.of("mongodb://jobs:secret@db1,db2/shop?replicaSet=rs0").database
        'shop'
        """
        return cls(url, public_url(url), _database(url))


def problems_of_mongo_url(url: str) -> list[str]:
    """Return what is wrong with a URL, naming the remedy and no password.

    >>> problems_of_mongo_url("mongodb://db1,db2")
    ["'mongodb://db1,db2': name a database behind the hosts, such as mongodb://db1,db2/holdfast"]
    """
    scheme, _, rest = url.partition("://")
    before = rest.partition("?")[0]
    if before.count("@") > 1:
        return ["the store's URL: in a user or password write @ as %40, / as %2F, ? as %3F and # as %23"]
    public = public_url(url)
    if scheme not in SCHEMES or "#" in rest or not before.rpartition("@")[2].partition("/")[0]:
        return [f"{public!r}: write {_LOOKS}"]
    if not (database := _database(url)):
        return [f"{public!r}: name a database behind the hosts, such as {public.partition('?')[0].rstrip('/')}/holdfast"]
    if not _DATABASE.fullmatch(database) or database in ("admin", "local", "config"):
        return [f"{public!r}: the database {database!r} cannot hold jobs; use a name such as 'holdfast'"]
    return []


def _database(url: str) -> str:
    return unquote(urlsplit(url).path.removeprefix("/"))
