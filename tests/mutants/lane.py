"""A pytest plugin that runs no test by itself: for each mutant it forks, and the child runs tests until one fails.

Everything is imported and collected once, so that a mutant costs what its tests cost. The mutated file lies in a copy of
the package that comes first in PYTHONPATH: processes that tests start find it there too. ``scripts/mutate_sql.py`` makes the copy.
"""

import os
import re
import resource
import select
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module, reload
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import msgspec
import pytest
from hypothesis import Phase, settings

from holdfast._system.clock import SystemClock
from holdfast.databases import queries

settings.register_profile(
    "mutants", deadline=None, derandomize=True, database=None, phases=[Phase.explicit, Phase.generate], print_blob=False
)
settings.load_profile("mutants")

PATIENCE = 300.0
"""Seconds for which nothing is heard of a child before it hangs. Whoever loops for ever is found by ``MOST_WORK``; on a busy machine
a test may be slow without being guilty of anything."""
MOST_WORK = 3.0
"""Seconds of the processor for one test that does not say that it is long: whatever loops for ever need not be waited for."""
MOST_MEMORY = 4 << 30
"""Bytes of address space: it may also never stop collecting rows."""
WORK = "HOLDFAST_MUTANTS"
CONTROL = "nothing mutated"

Say = Callable[[object], None]


class Mutant(msgspec.Struct):
    """``text``: of the whole file. ``first``: the tests to try first, ``is_only``: and no others."""

    name: str
    file: str
    text: str
    first: list[str]
    is_only: bool = False


class Work(msgspec.Struct):
    """``queries``: the folder of the copy. ``answers``: a file that gets a line for each verdict. ``uses``: one that remembers which test
    uses which file. ``is_quick``: without tests that say that they are long. ``most``: tests for one mutant."""

    store: str
    queries: str
    answers: str
    uses: str
    mutants: list[Mutant]
    is_quick: bool = False
    most: int | None = None


class Verdict(msgspec.Struct):
    """``killer``: the test that failed, empty when none did. ``where``: in its setup, its call, or ``hung``. ``tests``: how many ran."""

    name: str
    killer: str = ""
    where: str = ""
    tests: int = 0
    seconds: float = 0.0


class Failures:
    """The first test that failed in this process."""

    def __init__(self) -> None:
        self.first: pytest.TestReport | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.first is None:
            self.first = report


def pytest_sessionstart(session: pytest.Session) -> None:
    """Before fixtures are bound to tests."""
    if _work().store.endswith("postgres"):
        session.config.pluginmanager.register(import_module("tests.mutants.databases").GROUND)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Instead of pytest's own."""
    work = _work()
    killers = dict[str, None]()
    with Path(work.answers).open("ab", buffering=0) as answers, grounds(session, work.store) as tidy:
        lane = Lane(session, work, tidy)
        try:
            for mutant in work.mutants:
                verdict = lane.try_one(mutant)
                answers.write(msgspec.json.encode(verdict) + b"\n")
                killers[verdict.killer] = None
            answers.write(msgspec.json.encode(lane.try_none(list(filter(None, killers)))) + b"\n")
        finally:
            lane.close()
    return True


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_set_timer() -> bool:
    """None: how long a test takes is the machine's affair, how much it works is its own."""
    return True


def _work() -> Work:
    return msgspec.json.decode(Path(os.environ[WORK]).read_bytes(), type=Work)


class Lane:
    """One after the other."""

    def __init__(self, session: pytest.Session, work: Work, tidy: Callable[[str], None]) -> None:
        self._session, self._work, self._tidy, self._clock = session, work, tidy, SystemClock()
        items = sorted((item for item in session.items if _is_of(item, work.store)), key=_length)
        self._items = {item.nodeid: item for item in items if not (work.is_quick and _length(item))}
        self._uses: dict[str, set[str]] | None = None
        self._child: Child | None = None

    def close(self) -> None:
        """End what is left of it."""
        child, self._child = self._child, None
        if child is not None:
            child.end()

    def try_one(self, mutant: Mutant) -> Verdict:
        """Put it in place, let a child run tests, and put the file back."""
        path, began = Path(self._work.queries, mutant.file), self._clock.monotonic()
        whole = path.read_text(encoding="utf-8")
        path.write_text(mutant.text, encoding="utf-8")
        verdict = Verdict(mutant.name, where="never")
        try:
            verdict = self._judge(mutant)
        finally:
            path.write_text(whole, encoding="utf-8")
            self._tidy_after(verdict.where)
        verdict.seconds = round(self._clock.monotonic() - began, 2)
        return verdict

    def try_none(self, killers: list[str]) -> Verdict:
        """What killed mutants must let the code itself live."""
        file = min(Path(self._work.queries).glob("*.sql"))
        return self.try_one(Mutant(CONTROL, file.name, file.read_text(encoding="utf-8"), killers, is_only=True))

    def _judge(self, mutant: Mutant) -> Verdict:
        known = self._run(mutant, [self._items[name] for name in mutant.first if name in self._items])
        if known.killer or mutant.is_only or self._work.most == 0:
            return known
        others = [item for name, item in self._items.items() if name not in mutant.first and self._may_notice(name, mutant.file)]
        words = set(re.findall(r"[a-z]{4,}", mutant.name))
        # Who speaks of it comes first.
        others.sort(key=lambda item: (_length(item), _is_late(item), -sum(word in item.name for word in words)))
        verdict = self._run(mutant, others[: self._work.most])
        verdict.tests += known.tests
        return verdict

    def _may_notice(self, test: str, file: str) -> bool:
        """Tests that never use a file in this process notice nothing, unless it is part of others or they start processes."""
        if self._uses is None:
            self._uses = self._learn_uses()
        names, known = set(_users(self._work, file.removesuffix(".sql"))), set[str]().union(*self._uses.values())
        return names.isdisjoint(known) or bool(names & self._uses.get(test, names))

    def _learn_uses(self) -> dict[str, set[str]]:
        """Which files each test uses, learnt by a child that runs all that are short and not known from last time."""
        path = Path(self._work.uses)
        known = msgspec.json.decode(path.read_bytes(), type=dict[str, set[str]]) if path.exists() else {}
        items = [item for name, item in self._items.items() if name not in known and not _length(item)]

        def child(_: BinaryIO, say: Say) -> None:
            asked = _recorded(self._work.store)
            for item, after in _with_next(items):
                asked.clear()
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after or self._session)
                say([item.nodeid, sorted(asked)])

        if items:
            learning = Child(child)
            known |= {test: set(names) for test, names in learning.heard()}
            learning.end()
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(msgspec.json.encode(known))
        return {test: names for test, names in known.items() if names}

    def _tidy_after(self, where: str) -> None:
        """Where tests are dear to begin with, because they connect, a child goes on as long as it is known to be sound."""
        if self._work.store != "postgres" or where not in ("", "call"):
            self.close()
        self._tidy(where)

    def _run(self, mutant: Mutant, items: Sequence[pytest.Item]) -> Verdict:
        verdict = self._ask(mutant, items)
        if verdict.where != "setup":
            return verdict
        self._tidy_after(verdict.where)  # it may be the test before that failed, and not this one
        again = self._ask(mutant, items[verdict.tests - 1 :])
        again.tests += verdict.tests
        return again

    def _ask(self, mutant: Mutant, items: Sequence[pytest.Item]) -> Verdict:
        verdict = Verdict(mutant.name)
        if items:
            self._child = self._child or Child(self._live)
            self._child.tell([mutant.file.removesuffix(".sql"), [item.nodeid for item in items]])
            for test, where in self._child.heard():
                verdict.killer, verdict.where = (test, where) if where else ("", "")
                verdict.tests += where == "hung"
        return verdict

    def _live(self, orders: BinaryIO, say: Say) -> None:
        failures = Failures()
        self._session.config.pluginmanager.register(failures)
        for order in orders:
            query, names = msgspec.json.decode(order)
            failures.first = None
            _reread(self._work, query)
            self._try(failures, [self._items[name] for name in names], say)
            say(None)

    def _try(self, failures: Failures, items: Sequence[pytest.Item], say: Say) -> None:
        for item, after in _with_next(items):
            say([item.nodeid, "hung"])
            _bound_work(item)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after or self._session)  # whose fixtures stay
            if failures.first is not None:
                self._session._setupstate.teardown_exact(self._session)  # type: ignore[arg-type] # what comes next is no more
                return say([item.nodeid, failures.first.when])
            say([item.nodeid, ""])
        return None


def _is_of(item: pytest.Item, store: str) -> bool:
    return not store.startswith("rows-") or bool(import_module("tests.mutants.rows").is_played_on(item, store))


def _is_late(item: pytest.Item) -> bool:
    """What a statement costs, and what becomes of it when servers fail, is asked when all that it does is right."""
    return any(word in item.nodeid for word in ("plans", "looks", "network", "server", "pressure", "pool", "connect", "beats"))


def _length(item: pytest.Item) -> float:
    """What a test says of itself, if it is no short one."""
    return max((float(mark.args[0]) for mark in item.iter_markers("timeout") if mark.args), default=0.0)


def _with_next(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    return zip(items, [*items[1:], None], strict=True)


class Child:
    """A fork of this process: nothing of what it does is left here."""

    def __init__(self, life: Callable[[BinaryIO, Say], None]) -> None:
        told, telling = os.pipe()
        hearing, saying = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(telling)
            os.close(hearing)
            _live(life, told, saying)
        os.close(told)
        os.close(saying)
        self._orders, self._said = os.fdopen(telling, "wb", buffering=0), os.fdopen(hearing, "rb", buffering=0)

    def tell(self, order: object) -> None:
        """What to do next."""
        self._orders.write(msgspec.json.encode(order) + b"\n")

    def heard(self) -> Iterator[Any]:
        """What it says until it has done it, or has died, or has been silent for too long."""
        while select.select([self._said], [], [], PATIENCE)[0] and (line := self._said.readline()):
            said = msgspec.json.decode(line)
            if said is None:
                return
            yield said

    def end(self) -> None:
        """Kill it with all that it started."""
        try:
            os.killpg(self._pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(self._pid, signal.SIGKILL)  # it had no time to become a leader; until it is reaped the pid is its own
        os.waitpid(self._pid, 0)
        self._orders.close()
        self._said.close()


def _live(life: Callable[[BinaryIO, Say], None], told: int, saying: int) -> NoReturn:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    silence = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(silence, descriptor)
    try:
        with os.fdopen(told, "rb") as orders:
            life(orders, lambda said: void(os.write(saying, msgspec.json.encode(said) + b"\n")))
    finally:
        os._exit(0)  # nothing of pytest's own may run twice


def _bound_work(item: pytest.Item) -> None:
    """SIGPROF ends it."""
    signal.setitimer(signal.ITIMER_PROF, max(MOST_WORK, _length(item)))


def void(_: object) -> None:
    """Nothing of interest."""


def _users(work: Work, name: str) -> list[str]:
    """Return the files that a mutant of this one changes: itself, or those that include it, if it is a part."""
    folder, part = Path(work.queries), name.removeprefix("parts/")
    return [name] if part == name else [path.stem for path in sorted(folder.glob("*.sql")) if part in queries.parts_of(path)]


def _reread(work: Work, query: str) -> None:
    """SQLite's statements are read when the module is imported, PostgreSQL's when they are first used, those of rows again and again."""
    if work.store == "sqlite":
        database = import_module("holdfast.stores.sqlite.database")
        for name in _users(work, query):
            database.QUERIES[name] = database.Query(name)
            if name == "enqueue":
                reload(import_module("holdfast.stores.sqlite.caller_transactions"))


def _recorded(store: str) -> set[str]:
    """From now on the names of all files that this process uses are put there."""
    asked: set[str] = set()
    if store == "postgres":
        _record(
            import_module("holdfast.stores.postgres.database").StoreDatabase,
            "_sql",
            lambda _, query: asked.update(_files_of(query)),
        )
        return asked
    if store.startswith("rows-"):
        _record(import_module("holdfast.rows.sql").Texts, "of", lambda _, name: asked.add(name))
        return asked
    database, within = (
        import_module("holdfast.stores.sqlite.database"),
        import_module("holdfast.stores.sqlite.caller_transactions"),
    )
    _record(within, "enqueue", lambda *_: asked.add("enqueue"))

    class Recorded:
        def __init__(self, query: Any) -> None:
            self.programs, self._query = query.programs, query

        @property
        def statement(self) -> str:
            if self._query.statement.strip() != "SELECT 1;":  # else it is a part of all others
                asked.add(self._query.name)
            return str(self._query.statement)

    database.QUERIES.update({name: Recorded(query) for name, query in database.QUERIES.items()})
    return asked


def _files_of(query: str) -> set[str]:
    """Return the files of a statement of PostgreSQL's: ``exchange due_range`` and ``claim due_range`` are made of three each."""
    verb, _, part = query.partition(" ")
    return {"exchange", "settling" if verb == "exchange" else "nothing_settled", part} if part else {verb}


def _record(owner: Any, name: str, note: Callable[..., None]) -> None:
    whole = getattr(owner, name)

    def noted(*given: Any, **named: Any) -> Any:
        note(*given)
        return whole(*given, **named)

    setattr(owner, name, noted)


@contextmanager
def grounds(session: pytest.Session, store: str) -> Iterator[Callable[[str], None]]:
    """What all children of a lane share; what to do after one that failed there."""
    if store == "postgres":
        with import_module("tests.mutants.databases").postgres(session) as tidy:
            yield tidy
    elif store == "rows-postgres":
        with import_module("tests.mutants.rows").postgres():
            yield void
    else:
        yield void
