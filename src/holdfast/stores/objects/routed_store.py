"""The store whose jobs are in a bucket, for a process that calls the broker if the head names one, and writes itself if not."""

from collections.abc import Callable
from typing import Any, cast

from holdfast._core.book.book import Book
from holdfast._core.bucket_url import BucketUrl
from holdfast._core.flow_changes import FlowChange
from holdfast._ports import wire
from holdfast._ports.bucket import Bucket
from holdfast._ports.clock import Clock, Randomness
from holdfast._ports.leading import Misdirected, Refused
from holdfast._ports.store import Store
from holdfast._ports.workflows import FlowReports
from holdfast.errors import StoreUnavailable
from holdfast.stores.objects.committer import LONGEST_WAIT
from holdfast.stores.objects.store import ObjectStore
from holdfast.stores.objects.tidying import SIZES, Sizes

SHORTEST, LONGEST = 0.05, 1.0
"""The seconds before a call is sent again, doubled each time."""


class RoutedStore(ObjectStore):
    """Jobs in one bucket. ``connect``: returns the store behind the broker of a URL.

    A broker that gives no answer is ``StoreUnavailable``; one that has made no commit for long is deposed, unless the URL has
    ``broker=require``.
    """

    def __init__(
        self,
        url: str,
        *,
        connect: Callable[[str], Store],
        clock: Clock,
        chance: Randomness,
        bucket: Bucket | None = None,
        sizes: Sizes = SIZES,
        new_book: Callable[[], Book] = Book,
    ) -> None:
        super().__init__(url, clock=clock, chance=chance, bucket=bucket, sizes=sizes, new_book=new_book)
        self._connect, self._brokers = connect, dict[str, Store]()
        self._is_required = BucketUrl.of(url).broker == "require"
        self._leader: str | None = None
        self._is_broker = False

    async def stand(self, url: str) -> None:
        await super().stand(url)
        self._is_broker = True

    def take_flow_changes(self) -> tuple[FlowChange, ...]:
        found = super().take_flow_changes()
        for broker in self._brokers.values():
            found += cast(FlowReports, broker).take_flow_changes()
        return found

    async def close(self) -> None:
        await super().close()
        for broker in self._brokers.values():
            await broker.close()

    async def _ask(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call the verb where it may be called now, and again elsewhere if a second copy changes nothing."""
        deadline, pause = self._clock.monotonic() + LONGEST_WAIT, SHORTEST
        while True:
            try:
                return await self._call(verb, arguments, keywords)
            except Misdirected as error:
                if self._is_broker:
                    raise
                if error.leader is not None:
                    self._leader = error.leader
                    continue
                failure: StoreUnavailable = error
            except StoreUnavailable as error:
                failure = error
            if not await self._may_repeat(failure, verb, arguments, keywords) or self._clock.monotonic() + pause > deadline:
                raise failure
            await self._clock.sleep(pause * (1.0 + 0.5 * self._chance.jitter()))
            pause = min(LONGEST, 2 * pause)

    async def _call(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if self._leader is not None:
            return await getattr(self._broker(self._leader), verb)(*arguments, **keywords)
        if self._is_required and not self._is_broker:
            await self._find()
            if self._leader is None:
                raise Refused(
                    "no broker leads, and the URL has broker=require: start one with the URL of this bucket: `holdfast broker`"
                )
            return await self._call(verb, arguments, keywords)
        return await super()._ask(verb, arguments, keywords)

    async def _may_repeat(
        self, failure: StoreUnavailable, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> bool:
        """Look which broker leads now; return whether the call may be sent again."""
        if self._leader is None:
            return isinstance(failure, Refused)
        await self._find()
        known = wire.VERBS[verb]
        return isinstance(failure, Refused) or known.is_repeatable(known.bind(*arguments, **keywords))

    async def _find(self) -> None:
        leader = await self._thread.run(self._committer.leader(deposes=not self._is_required))
        self._leader = None if leader is None else leader.url

    def _broker(self, url: str) -> Store:
        if url not in self._brokers:
            self._brokers[url] = self._connect(url)
        return self._brokers[url]
