"""Brokers, and their clients, with one missing guard, each in the real code of a process."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast._ports import wire
from holdfast._ports.bucket import BucketUnavailable
from holdfast._ports.leading import Misdirected
from holdfast.stores.objects.committer import Committer, Made, Request
from holdfast.stores.objects.electing_committer import ElectingCommitter
from holdfast.stores.objects.election import Election, Silence
from holdfast.stores.objects.head import Head, Leader
from holdfast.stores.objects.pauses import Pauses
from tests.simulation.patching import patched


@contextmanager
def reigns_without_end() -> Iterator[None]:
    """A leader that the bucket does not answer goes on to answer from memory, although another one may lead."""
    write = Committer._write

    async def unshaken(self: Committer, base: Head, made: Made, nonce: str) -> None:
        try:
            await write(self, base, made, nonce)
        except BucketUnavailable:
            self._must_look = not self._election.leads
            raise

    memory = {"has_lapsed": lambda self, now: False, "doubt": lambda self: None, "may_answer": lambda self, now: self.leads}
    with patched(Election, **memory), patched(Pauses, is_failing=False), patched(Committer, _write=unshaken):
        yield


@contextmanager
def leaders_deposed_at_once() -> Iterator[None]:
    """A broker takes over without waiting for the silence of the one that leads."""
    with patched(Silence, observe=lambda self, version, *, asked, received: True):
        yield


@contextmanager
def registered_again_after_a_lost_race() -> Iterator[None]:
    """A broker that has lost its registration makes it again, on the head of the winner."""
    take = ElectingCommitter._take

    async def insisting(self: ElectingCommitter, broker: Leader | None, epoch: int) -> bool:
        if await take(self, broker, epoch):
            return True
        if broker is None:
            return False
        await self._look(self._clock.monotonic())
        return await take(self, broker, self._replica.head.epoch + 1)

    with patched(ElectingCommitter, _take=insisting):
        yield


@contextmanager
def every_call_repeated() -> Iterator[None]:
    """A client sends a claim again after a lost answer."""
    with patched(wire.Verb, is_repeatable=lambda self, request: True):
        yield


@contextmanager
def misdirected_after_the_write() -> Iterator[None]:
    """A broker that reads that another one leads sends away a call of which it does not know whether it has landed."""
    answer = Committer._answer

    async def answered(self: Committer, batch: list[Request]) -> None:
        write = self._write

        async def sent_away(*arguments: Any) -> None:
            try:
                await write(*arguments)
            except Exception:
                if self._me is not None:
                    raise Misdirected("another broker may lead", None) from None
                raise

        self._write = sent_away  # type: ignore[method-assign]
        try:
            await answer(self, batch)
        finally:
            del self._write

    with patched(Committer, _answer=answered):
        yield
