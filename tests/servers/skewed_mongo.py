"""Replica sets whose members' wall clocks differ."""

import importlib.util
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pymongo.errors import OperationFailure

from holdfast.testing.servers import MongoServer, MongoSet
from tests.e2e.waiting import until


class SkewedServer(MongoServer):
    """A member whose wall clock is wrong by as many seconds."""

    def __init__(self, skew: int, replica_set: str) -> None:
        super().__init__(replica_set=replica_set)
        self._skew = skew

    def _words(self) -> Sequence[str | Path]:
        if not self._skew:
            return super()._words()
        package = importlib.util.find_spec("libfaketime")
        assert package is not None
        assert package.origin is not None
        library = Path(package.origin).parent / "vendor" / "libfaketime" / "src" / "libfaketime.so.1"
        return ("env", f"LD_PRELOAD={os.fspath(library)}", f"FAKETIME={self._skew:+d}", *super()._words())


class SkewedSet(MongoSet):
    """A member for each clock, wrong by as many seconds."""

    def __init__(self, *skews: int) -> None:
        super().__init__(0)
        self.members = tuple(SkewedServer(each, "rs0") for each in skews)

    def elect(self, member: MongoServer, *, within: float) -> None:
        """Make this member the primary."""
        until(lambda: self._is_elected(member), within=within)

    def _is_elected(self, member: MongoServer) -> bool:
        with suppress(OperationFailure):  # while it is behind the others
            member.command("replSetStepUp")
        return self.primary() is member
