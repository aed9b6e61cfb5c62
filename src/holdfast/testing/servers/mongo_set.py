"""A replica set of MongoDB servers."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from holdfast.testing.servers.mongo import MongoServer, drop_database, fresh_database
from holdfast.testing.servers.process import pauses

_NAME = "rs0"
_ELECTIONS = {"electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 200}
# Without these, members of a new set wait a second for the first, and another for the second. Off again once the set is complete.
_QUICK_SYNC: dict[str, Mapping[str, object]] = {
    "forceSyncSourceRetryWaitForInitialSync": {"retryMS": 25},
    "forceBgSyncSyncSourceRetryWaitMS": {"sleepMS": 25},
}


def _run_again(member: MongoServer) -> None:
    member.kill()  # what is left of one that has ended by itself
    member.start()


class MongoSet:
    """A replica set on this machine: one member, or three of which one may be lost. A new primary is elected in about two seconds.

    ``settings`` and ``parameters``: those of each member.

    >>> with MongoSet(3) as servers:  # doctest: +SKIP
    ...     app = App(servers.create_database())
    ...     servers.primary().kill()
    """

    name = "mongo"

    def __init__(
        self, size: int = 1, *, settings: Mapping[str, object] | None = None, parameters: Mapping[str, str] | None = None
    ) -> None:
        self.members = tuple(MongoServer(replica_set=_NAME, settings=settings, parameters=parameters) for _ in range(size))
        self._is_initiated = False

    @property
    def url(self) -> str:
        """The address of the set; a client finds the primary."""
        return f"mongodb://{','.join(member.address for member in self.members)}/?replicaSet={_NAME}"

    def create_database(self) -> str:
        """Return the address of a fresh database."""
        return fresh_database(self.url)

    def drop_database(self, url: str) -> None:
        """Drop a database, if it exists."""
        drop_database(url)

    def primary(self, *, within: float = 60.0) -> MongoServer:
        """Return the member that takes writes, of two the one elected last; wait for it at most ``within`` seconds."""
        elected: list[tuple[Any, MongoServer]] = []
        for _ in pauses("no member is primary", self.tail, within=within):
            answers = [(member.hello(), member) for member in self.members]
            elected = [(answer["electionId"], member) for answer, member in answers if answer.get("isWritablePrimary")]
            if elected:
                break
        return max(elected, key=lambda found: found[0])[1]

    def secondaries(self) -> list[MongoServer]:
        """Return the members that follow the primary."""
        return [member for member in self.members if member.hello().get("secondary")]

    def step_down(self) -> MongoServer:
        """Make the primary step down, and return the next one: another for ten seconds, or the only one after a second."""
        is_single = len(self.members) == 1
        period = 1 if is_single else 10
        # By force, the next one would wait for the election timeout.
        self.primary().command("replSetStepDown", period, secondaryCatchUpPeriodSecs=period - 1, force=is_single)
        return self.primary()

    def start(self) -> Self:
        """Run the members that do not run; return once one is primary and all have its writes. A ``RuntimeError`` has their logs' ends."""
        try:
            self._each(_run_again, [member for member in self.members if not member.is_running])
            if self._is_initiated:
                self._wait_until_all_follow()
            else:
                self._initiate()
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """End the members as their operators do."""
        self._each(MongoServer.stop)

    def kill(self) -> None:
        """``kill -9`` the members."""
        self._each(MongoServer.kill)

    def restart(self) -> None:
        """Stop the members, then start them."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Kill the members and delete all they wrote."""
        self._each(MongoServer.close)

    def tail(self, lines: int = 30) -> str:
        """Return the ends of the members' logs."""
        return "\n".join(f"{member.address}:\n{member.tail(lines)}" for member in self.members)

    def _initiate(self) -> None:
        first, *others = self.members
        points = [(member, name, data) for member in others for name, data in _QUICK_SYNC.items()]
        for member, name, data in points:
            member.set_fail_point(name, data=data)
        members = [{"_id": number, "host": member.address} for number, member in enumerate(self.members)]
        first.command("replSetInitiate", {"_id": _NAME, "members": members, "settings": _ELECTIONS})
        self._elect(first)
        self._wait_until_all_follow()
        self._is_initiated = True
        for member, name, _ in points:
            member.set_fail_point(name, "off")

    def _elect(self, member: MongoServer) -> None:
        """Make a member the primary as soon as others vote for it, instead of after the election timeout."""
        from pymongo.errors import PyMongoError

        for _ in pauses("the replica set elects no primary", self.tail):
            if member.hello().get("isWritablePrimary"):
                break
            with contextlib.suppress(PyMongoError):  # such as that others do not know the set yet
                member.command("replSetStepUp")

    def _wait_until_all_follow(self) -> None:
        from pymongo.errors import PyMongoError

        for _ in pauses("not every member follows the primary", self.tail):
            with contextlib.suppress(PyMongoError):  # such as of one that has stepped down
                self.primary().command("appendOplogNote", data={"all": "follow"}, writeConcern={"w": len(self.members)})
                break

    def _each(self, act: Callable[[MongoServer], object], members: Sequence[MongoServer] | None = None) -> None:
        with ThreadPoolExecutor(len(self.members)) as threads:
            list(threads.map(act, self.members if members is None else members))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
