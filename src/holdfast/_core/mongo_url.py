"""The URL of a MongoDB database: checked, and never shown with its password.

It is read without any driver, so that a wrong URL is reported as a problem of the settings.
"""

import re
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct

from holdfast._core.postgres_url import public_url
from holdfast._core.schemes import MONGO, MONGO_BY_NAME_SERVER

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

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that the URL names; none if a name server knows them.

        >>> MongoUrl.of("mongodb://jobs:secret@db1,db2:27018/shop").hosts
        ('db1', 'db2:27018')
        """
        parts = urlsplit(self.url)
        return () if parts.scheme == MONGO_BY_NAME_SERVER else tuple(parts.netloc.rpartition("@")[2].split(","))

    @property
    def replica_set(self) -> str | None:
        """The name of the set that the hosts must belong to, if the URL has one.

        >>> MongoUrl.of("mongodb://db1,db2/shop?w=1&replicaSet=rs0").replica_set
        'rs0'
        """
        options = {name.lower(): value for name, value in parse_qsl(urlsplit(self.url).query)}
        return options.get("replicaset")

    def of_member(self, host: str) -> str:
        """Return the URL of this very member, of any set or of none, for a question that needs no user.

        >>> MongoUrl.of("mongodb://jobs:secret@db1,db2/shop?replicaSet=rs0&tls=true").of_member("db2:27017")
        'mongodb://db2:27017/?directConnection=true&tls=true'
        """
        parts = urlsplit(self.url)
        options = [each for each in parts.query.split("&") if each.lower().startswith(("tls", "ssl"))]
        if parts.scheme == MONGO_BY_NAME_SERVER and not options:
            options = ["tls=true"]
        return f"mongodb://{host}/?{'&'.join(('directConnection=true', *options))}"


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
    if scheme not in MONGO or "#" in rest or not before.rpartition("@")[2].partition("/")[0]:
        return [f"{public!r}: write {_LOOKS}"]
    if not (database := _database(url)):
        return [f"{public!r}: name a database behind the hosts, such as {public.partition('?')[0].rstrip('/')}/holdfast"]
    if not _DATABASE.fullmatch(database) or database in ("admin", "local", "config"):
        return [f"{public!r}: the database {database!r} cannot hold jobs; use a name such as 'holdfast'"]
    return []


def _database(url: str) -> str:
    return unquote(urlsplit(url).path.removeprefix("/"))
