"""Hints between the processes of one machine: a datagram socket per listener in a folder beside the SQLite file."""

import asyncio
import errno
import hashlib
import logging
import os
import socket
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import structs

from holdfast._core.identity import ProcessIdentity
from holdfast._ports.transport import Hint

logger = logging.getLogger("holdfast")

OPEN_FILES = Path("/proc/self/fd")
LONGEST_FOLDER = 60
"""Bytes that leave space for a name: systems take socket addresses of about 100 bytes, and no longer ones."""
MOST_IDS = 64
MOST_LISTENERS = 100
"""Bytes of the buffer of one process."""
MOST_AT_ONCE = 100
LARGEST = 8192

_decoder = msgspec.json.Decoder(Hint)


class LocalTransport:
    """Wakes the idle workers of this machine. All failures here are silent: polling runs underneath.

    Every listener owns a socket in ``<database>-wake/``; a publisher sends to each one it finds there and
    removes those whose owner is gone. Processes of another user cannot enter the folder and poll.
    """

    deliveries = None

    def __init__(self, database: str | os.PathLike[str], process: ProcessIdentity) -> None:
        self._folder = _folder_beside(Path(os.path.realpath(database)))
        self._process = process
        self._wakes: list[Callable[[Hint], None]] = []
        self._listener: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._name = ""

    async def publish(self, hints: Sequence[Hint]) -> None:
        """Send each hint to every listener, without waiting for any of them."""
        try:
            folder = os.open(self._folder, os.O_RDONLY)
        except OSError:
            return  # no process listens
        data = [msgspec.json.encode(structs.replace(hint, ids=hint.ids[:MOST_IDS])) for hint in hints]
        try:
            with _new_socket() as sender:
                for name in os.listdir(folder):
                    self._send(sender, data, folder, name)
        except OSError as error:
            logger.debug("a hint was not sent: %s", error)
        finally:
            os.close(folder)

    def _send(self, sender: socket.socket, hints: Sequence[bytes], folder: int, name: str) -> None:
        try:
            for data in hints:
                sender.sendto(data, self._address(folder, name))
        except ConnectionRefusedError:
            _remove(folder, name)  # its owner was killed
        except OSError:
            pass  # its buffer is full, so it is about to wake anyway; or it just left

    async def subscribe(self, wake: Callable[[Hint], None]) -> None:
        """Call ``wake`` in the running loop from now on, for each hint that arrives."""
        self._wakes.append(wake)
        if self._listener is not None:
            return
        try:
            self._listener = self._listen()
        except OSError as error:
            logger.info("no hints from other processes, polling instead: %s", error)
            return
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._listener, self._receive)

    def _listen(self) -> socket.socket:
        listener = _new_socket()
        try:
            for number in range(MOST_LISTENERS):
                self._name = f"{self._process.pid}-{self._process.start}-{number}"
                if self._bind(listener):
                    return listener
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), str(self._folder / self._name))
        except OSError:
            listener.close()
            raise

    def _bind(self, listener: socket.socket) -> bool:
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                listener.bind(self._address(folder, self._name))
            finally:
                os.close(folder)
        except OSError as error:
            # Taken by another listener of this process; or the folder was removed with its last listener just now.
            if error.errno in (errno.EADDRINUSE, errno.ENOENT):
                return False
            raise
        return True

    def _address(self, folder: int, name: str) -> str:
        """Return a short name for a socket, at any depth of its folder."""
        return str((OPEN_FILES / str(folder) if OPEN_FILES.exists() else self._folder) / name)

    def _receive(self) -> None:
        for _ in range(MOST_AT_ONCE):
            try:
                data = b"" if self._listener is None else self._listener.recv(LARGEST)
                hint = _decoder.decode(data)
            except OSError:
                return
            except msgspec.MsgspecError:
                continue  # any process may send rubbish
            for wake in tuple(self._wakes):
                wake(hint)

    async def close(self) -> None:
        """Stop listening and leave nothing behind."""
        self._wakes.clear()
        if self._listener is not None and self._loop is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None
            try:
                (self._folder / self._name).unlink(missing_ok=True)
                self._folder.rmdir()
            except OSError:
                pass  # others listen there


def _folder_beside(database: Path) -> Path:
    folder = database.with_name(database.name + "-wake")
    if OPEN_FILES.exists() or len(os.fsencode(folder)) <= LONGEST_FOLDER:
        return folder
    import tempfile

    return Path(tempfile.gettempdir(), f"holdfast-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}")


def _new_socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made


def _remove(folder: int, name: str) -> None:
    try:
        if stat.S_ISSOCK(
            os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        ):  # a file that is not a socket refuses connections too
            os.unlink(name, dir_fd=folder)
    except OSError:
        pass  # another process did
