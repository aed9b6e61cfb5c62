"""The thread with the connections of a client."""

import asyncio
import threading

from holdfast.databases.http.loop_thread import LoopThread


def test_a_thread_in_which_its_unused_owner_is_collected_closes_its_connections_and_ends() -> None:
    closed = threading.Event()

    async def close() -> None:
        closed.set()

    async def collect(owner: LoopThread) -> threading.Thread:
        owner.at_end(close)
        owner._finalizer()  # the garbage collector runs in any thread
        return threading.current_thread()

    async def main() -> threading.Thread:
        owner = LoopThread("connections")
        return await owner.run(lambda: collect(owner))

    thread = asyncio.run(main())
    thread.join(2.0)
    assert closed.is_set()
    assert not thread.is_alive()
