"""The committer of a process that stands for election, or that deposes a broker which has fallen silent."""

import asyncio
import logging

from msgspec import structs

from holdfast._core.text import printable
from holdfast._ports.bucket import BucketUnavailable
from holdfast._ports.leading import Misdirected, Standing
from holdfast.errors import HoldfastError
from holdfast.stores.objects.committer import LONGEST_WAIT, Committer, Made, Outcome, Request, tell
from holdfast.stores.objects.election import HEARTBEAT, LOOK, Election, Phase
from holdfast.stores.objects.head import Head, Leader

TRIES = 3
"""How often a leader that ends tries to hand over; without it a standby waits for its silence."""
RETRY = 0.5
"""The seconds until a leader tries again to make a commit, while the bucket gives no answer."""

logger = logging.getLogger("holdfast")


class ElectingCommitter(Committer):
    """Takes the leadership when it may, keeps it by a heartbeat, and hands it over at its end."""

    _candidacy: asyncio.Task[None] | None = None
    _is_closed = False
    _asked = _looked = 0

    @property
    def standing(self) -> Standing:
        """What is known of the leadership."""
        head = self._replica.known
        leader = None if head is None or head.broker is None else head.broker.url
        version = "0.0" if head is None else f"{head.epoch}.{head.version}"
        return Standing(self._election.leads and not self._is_closed, leader, version)

    def add(self, request: Request) -> None:
        if self._is_closed:
            tell(request, Outcome(error=Misdirected(f"{self._name}: the broker is stopping: try again", None)))
        else:
            super().add(request)

    async def stand(self, me: Leader) -> None:
        """Stand for election from now on."""
        self._me, self._election = me, Election(me.id)
        await self._attend(self._clock.monotonic() + LONGEST_WAIT)
        self._candidacy = asyncio.get_running_loop().create_task(self._stand())

    async def resign(self) -> None:
        """Answer what has begun, refuse what waits, and write that no broker leads."""
        self._is_closed = True
        if self._candidacy is not None:
            self._candidacy.cancel()
        async with self._turn:
            for _ in range(TRIES):
                if self._election.leads and await self._take(None, self._replica.head.epoch):
                    break
                await self._look(self._clock.monotonic())
            self._election.lose()

    async def leader(self, *, deposes: bool) -> Leader | None:
        """Look which broker leads. ``deposes``: end the leadership of one that has made no commit for so long that it has lapsed."""
        self._asked += 1
        asked = self._asked
        async with self._turn:
            if self._looked >= asked:  # all that have asked before a look share it
                return self._replica.head.broker
            asked = self._asked
            await self._look(self._clock.monotonic() + LONGEST_WAIT)
            self._looked, head = asked, self._replica.head
            if deposes and head.broker is not None and self._election.phase is Phase.CHALLENGE:
                await self._take(None, head.epoch + 1)
            return self._replica.head.broker

    async def close(self) -> None:
        """Stop to stand for election, and return when all requests are answered."""
        if self._candidacy is not None:
            self._candidacy.cancel()
        self._tidying.is_ending = True
        await self.finish()
        self._tidying.is_ending = False  # a call after the end opens the store again

    async def _stand(self) -> None:
        while True:
            await self._clock.sleep(self._pause_of_standing())
            try:
                await self._attend(self._clock.monotonic())
            except BucketUnavailable:
                continue
            except HoldfastError as error:
                logger.error("the broker cannot stand for election: %s", printable(str(error)))

    def _pause_of_standing(self) -> float:
        if not self._election.leads:
            return LOOK
        return max(RETRY, self._pauses.wrote_at + HEARTBEAT - self._clock.monotonic())

    async def _attend(self, deadline: float) -> None:
        """Look and perhaps take over, or make a commit if there was none for long."""
        async with self._turn:
            if self._election.leads and not self._must_look:
                if self._clock.monotonic() - self._pauses.wrote_at >= HEARTBEAT - RETRY:
                    await self._take(self._me, self._replica.head.epoch)
                return
            await self._look(deadline)
            if self._election.leads:
                await self._take(self._me, self._replica.head.epoch)
            elif self._election.phase is Phase.CHALLENGE and await self._take(self._me, self._replica.head.epoch + 1):
                self._pauses.forget_others()
                logger.info("this broker leads %s from now on", self._name)

    async def _take(self, broker: Leader | None, epoch: int) -> bool:
        """Write a head without other changes; return whether it is known to have landed. If not, only a look may be followed by another
        try: who takes over again on the head of the winner deposes it while it answers from memory."""
        base: Head = structs.replace(self._replica.head, broker=broker, epoch=epoch)
        try:
            await self._write(base, Made(), self._new_nonce())
        except BucketUnavailable as error:
            self._pauses.after_failure(error)
            if not self._election.leads:
                self._election.lose()
            return False
        return True
