"""One end of the pipe between a supervisor and a worker: a stream socket carrying whole messages."""

import asyncio
import socket

LENGTH_BYTES = 4
MOST_UNSENT = 64 * 2**20
READ_SIZE = 2**18


class SystemChannel:
    """Messages in order, each after its length. Used from the thread of the event loop only."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._unsent = bytearray()
        self._received = bytearray()
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._reading: asyncio.AbstractEventLoop | None = None
        self._writing: asyncio.AbstractEventLoop | None = None

    def send(self, message: bytes) -> None:
        """Write at once what the socket takes, so that a loop that is busy right after delays nothing; the loop sends the rest."""
        if self._end.fileno() < 0:
            return
        self._unsent += len(message).to_bytes(LENGTH_BYTES, "little") + message
        if self._writing is None:
            self._write()
        if len(self._unsent) > MOST_UNSENT:
            self.close()  # the reading process is gone; both sides see the end of the pipe

    async def receive(self) -> bytes | None:
        """Return the next message. Once an end is closed and every earlier message was received, return ``None`` at each call."""
        if self._reading is None and self._end.fileno() >= 0:
            self._reading = asyncio.get_running_loop()
            self._reading.add_reader(self._end, self._read)
        message = await self._messages.get()
        if message is None:
            self._messages.put_nowait(None)
        return message

    def finish(self) -> None:
        """Take what the ended process sent, and close, even if another process still holds its end of the pipe."""
        if self._end.fileno() >= 0:
            while self._take():
                pass
            self._stop_reading()

    def close(self) -> None:
        """Close this end; received messages can still be read."""
        if self._end.fileno() < 0:
            return
        self._stop_reading()
        self._stop_writing()
        self._end.close()

    def _write(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._end.send(self._unsent)]
        except BlockingIOError:
            if self._writing is None:
                self._writing = asyncio.get_running_loop()
                self._writing.add_writer(self._end, self._write)
            return
        except OSError:
            self._unsent.clear()  # the other end is closed; the next read finds that out
        self._stop_writing()

    def _read(self) -> None:
        if self._take() is None:
            self._stop_reading()

    def _take(self) -> bool | None:
        """Read once, and return whether there was anything; ``None`` at the end of the pipe."""
        try:
            data = self._end.recv(READ_SIZE)
        except BlockingIOError:
            return False
        except OSError:
            return None
        self._received += data
        return True if data and self._split() else None

    def _split(self) -> bool:
        """Queue every complete message; return whether the next length is a valid one."""
        while len(self._received) >= LENGTH_BYTES:
            length = int.from_bytes(self._received[:LENGTH_BYTES], "little")
            end = LENGTH_BYTES + length
            if len(self._received) < end:
                return length <= MOST_UNSENT
            self._messages.put_nowait(bytes(self._received[LENGTH_BYTES:end]))
            del self._received[:end]
        return True

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.remove_reader(self._end)
        self._messages.put_nowait(None)

    def _stop_writing(self) -> None:
        if self._writing is not None:
            self._writing.remove_writer(self._end)
            self._writing = None
