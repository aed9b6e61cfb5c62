"""Clones of URLs, kept and shared: what came over the network once does not come again.

A folder per URL holds `lock` and `clone-<n>`, complete and never changed. The owner of the lock makes `clone-<n+1>` from it in a
draft – a copy by hard links, plus what is new – and renames that; a killed one leaves a draft, which is rubbish to all others. Each
analysis then works on a separate copy (hard links again), so no lock is held while it counts, and eviction disturbs no analysis.
"""

import fcntl
import os
import re
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Self

from analyzer.clones import clone, update
from analyzer.errors import AnalysisError
from analyzer.git import GitFailed, repository_name
from analyzer.processes import Children

MOST_BYTES = 10 * 2**30
LONGEST_UNUSED = 30 * 86_400.0  # seconds
MOST_PACKS = 20  # each update adds one, and git gets slower with each
_ENTRY = re.compile(r"[\w.-]+-[0-9a-f]{16}", re.ASCII)
_GLANCE = 0.2  # seconds between two looks at a lock


def cache_root(work: Path) -> Path:
    """Return where clones are kept: $XDG_CACHE_HOME/holdfast/clones, or `work`/clones where this user has no such folder.

    >>> cache_root(Path("evolution/.work"))   # doctest: +SKIP
    PosixPath('/home/me/.cache/holdfast/clones')
    """
    with suppress(OSError, RuntimeError):  # no home, or one that cannot be written to
        asked = Path(os.environ.get("XDG_CACHE_HOME", ""))
        root = (asked if asked.is_absolute() else Path.home() / ".cache") / "holdfast" / "clones"
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(root, os.W_OK | os.X_OK):
            return root
    root = work / "clones"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    return root


@dataclass(frozen=True, slots=True)
class Step:
    """How far a clone is: the fraction done, in 0-1, and words for observers.

    >>> Step(0.5, "cloning flask: 50%").part
    0.5
    """

    part: float
    text: str


class Lock:
    """One entry of the cache, held by one process; released when closed, and by the kernel when its process dies.

    >>> import tempfile
    >>> with Lock.of(Path(tempfile.mkdtemp())) as lock:
    ...     Lock.of(lock.entry) is None
    True
    """

    def __init__(self, entry: Path, descriptor: int) -> None:
        self.entry = entry
        self._descriptor: int | None = descriptor

    @classmethod
    def of(cls, entry: Path) -> Self | None:
        """Take the lock; None while another process has it. Raises OSError where files cannot be locked."""
        entry.mkdir(exist_ok=True)
        path = entry / "lock"
        try:
            lock = cls(entry, os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except FileNotFoundError:  # evicted since the line above
            return None
        try:
            fcntl.flock(lock._held(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(lock._held()), path.stat()):
                return lock
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            lock.close()
            raise
        lock.close()
        return None

    def _held(self) -> int:
        assert self._descriptor is not None
        return self._descriptor

    def touch(self) -> None:
        """Note that the entry was used now."""
        os.utime(self._held())

    def close(self) -> None:
        """Releases it; may be called twice."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class CloneCache:
    """The cache under one folder, as one analysis uses it; any number of processes may use it at once.

    >>> CloneCache(Path("/tmp/clones"), Children()).entry("https://example.org/team/tool.git").name
    'tool-d229636c4cd366c1'
    """

    def __init__(
        self, root: Path, children: Children, *, most_bytes: int = MOST_BYTES, longest_unused: float = LONGEST_UNUSED
    ) -> None:
        self.root = root
        self._children = children
        self._most_bytes = most_bytes
        self._longest_unused = longest_unused

    def entry(self, url: str) -> Path:
        """Return the folder of one URL, user name and password included: they decide what may be read."""
        return self.root / f"{repository_name(url)}-{sha256(url.encode()).hexdigest()[:16]}"

    def clone(self, url: str, target: Path, held: ExitStack) -> Iterator[Step]:
        """Make `target` a clone of what is at the URL by now; on every way out `held` releases the lock.

        Raises AnalysisError.
        """
        name = repository_name(url)
        try:
            lock = yield from self._locked(self.entry(url), f"waiting for another analysis, which is cloning {name}")
        except OSError as error:  # a file system without locks, a folder which became read-only
            text = f"cloning {name}, not kept: {self.root} cannot be used ({error.strerror})"
            yield from (Step(part, f"{text}: {part:.0%}") for part in clone(self._children, url, target))
            return
        held.enter_context(lock)
        lock.touch()
        try:
            fresh = yield from self._fresh(url, lock.entry)
        except (AnalysisError, GitFailed):
            if (old := newest(lock.entry)) is None:
                self._throw_away(lock.entry)
            else:
                self._sweep(lock.entry, old)
            raise
        yield Step(1.0, f"cloned {name}")
        self._sweep(lock.entry, fresh)
        yield from (Step(1.0, f"cloned {name}") for _ in clone(self._children, str(fresh), target))
        self.tidy()
        lock.close()

    def _fresh(self, url: str, entry: Path) -> Generator[Step, None, Path]:
        text = f"cloning {repository_name(url)}, kept in {self.root}"
        old = newest(entry)
        self._sweep(entry, old)
        draft = Path(tempfile.mkdtemp(prefix="draft-", dir=entry)) / "git"
        yield Step(0.0, text)
        if old is None or not (yield from self._renew(url, old, draft)):
            for part in clone(self._children, url, draft):
                yield Step(part, f"{text}: {part:.0%}")
        fresh = entry / f"clone-{_number(old) + 1}"
        draft.rename(fresh)
        return fresh

    def _locked(self, entry: Path, text: str) -> Generator[Step, None, Lock]:
        while (lock := Lock.of(entry)) is None:
            yield Step(0.0, text)
            self._children.pause(_GLANCE)
        return lock

    def _renew(self, url: str, old: Path, draft: Path) -> Generator[Step, None, bool]:
        """Make the draft from the existing clone; return False when that cannot be used and a new one is due."""
        # a shallow one would stay shallow, although its origin may be whole by now
        if (old / "shallow").exists() or len(list(old.glob("objects/pack/*.pack"))) >= MOST_PACKS:
            return False
        try:
            for _ in clone(self._children, str(old), draft):
                pass
            for part in update(self._children, url, draft):
                yield Step(part, f"updating the clone of {repository_name(url)} in {self.root}: {part:.0%}")
        except (AnalysisError, GitFailed):  # damage in the cache and trouble at the origin look alike; the origin is asked again
            self._children.remove(draft.parent)
            draft.parent.mkdir()
            return False
        return True

    def discard(self, url: str) -> None:
        """Delete a clone which turned out to be damaged, unless another process uses it."""
        if (entry := self.entry(url)).exists():
            self._evict(entry)

    def tidy(self) -> None:
        """Evicts what was not used for long, then what was used least recently until the rest fits; nothing that is locked."""
        for trash in self.root.glob(".trash-*"):
            self._children.remove(trash)
        entries = [(_used(entry), _size(entry), entry) for entry in self.root.iterdir() if _ENTRY.fullmatch(entry.name)]
        now = max((used for used, _, _ in entries), default=0.0)
        total = sum(size for _, size, _ in entries)
        for used, size, entry in sorted(entries):
            if (now - used > self._longest_unused or total > self._most_bytes) and self._evict(entry):
                total -= size

    def _evict(self, entry: Path) -> bool:
        lock = Lock.of(entry)
        if lock is None:
            return False
        with lock:
            self._throw_away(entry)
        return True

    def _throw_away(self, entry: Path) -> None:
        trash = Path(tempfile.mkdtemp(prefix=".trash-", dir=self.root))
        entry.rename(trash / "entry")  # so that no process that comes now finds half of it
        self._children.remove(trash)

    def _sweep(self, entry: Path, keep: Path | None) -> None:
        for path in entry.iterdir():
            if path.name != "lock" and path != keep:
                self._children.remove(path)


def newest(entry: Path) -> Path | None:
    """Return the complete clone of an entry, if there is one.

    >>> newest(Path("/nowhere")) is None
    True
    """
    complete = (path for path in entry.glob("clone-*") if path.name.partition("-")[2].isdecimal())
    return max(complete, key=_number, default=None)


def _number(path: Path | None) -> int:
    return int(path.name.partition("-")[2]) if path is not None else 0


def _used(entry: Path) -> float:
    with suppress(OSError):
        return (entry / "lock").stat().st_mtime
    return 0.0


def _size(entry: Path) -> int:
    total = 0
    for folder, _, files in os.walk(entry):
        for name in files:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total
