"""Hints inside one process reach the loops that listen, from any thread."""

import asyncio
import threading

from holdfast._ports.transport import Hint
from holdfast.transports.inprocess import InProcessTransport, Listener
from tests.engine.support import until
from tests.event_loops import run


def test_a_hint_reaches_every_listener_in_its_own_loop() -> None:
    listeners: list[Listener] = []
    one, other = InProcessTransport(listeners), InProcessTransport(listeners)
    received: list[tuple[str, int]] = []

    async def main() -> None:
        await one.subscribe(lambda hint: received.append((hint.queue, threading.get_ident())))
        await other.subscribe(lambda hint: received.append((hint.queue, threading.get_ident())))
        await asyncio.to_thread(asyncio.run, one.publish([Hint("mail")]))
        await until(lambda: len(received) == 2)
        assert set(received) == {("mail", threading.get_ident())}
        await one.close()
        await other.publish([Hint("again")])
        await until(lambda: len(received) == 3)
        await other.close()

    run(main())
    assert listeners == []


def test_a_loop_that_was_closed_is_not_a_listener() -> None:
    listeners: list[Listener] = []
    transport = InProcessTransport(listeners)
    asyncio.run(transport.subscribe(lambda hint: None))
    asyncio.run(transport.publish([Hint("mail")]))
    asyncio.run(transport.close())
    assert listeners == []
