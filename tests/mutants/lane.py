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

SILENCE_LIMIT = 300.0
"""Seconds without a message after which a child counts as hung. It is long because a correct test may be slow on a busy machine;
``MOST_WORK`` finds endless loops much sooner."""
MOST_WORK = 3.0
"""Seconds of the processor for one test that declares no longer time limit, so that an endless loop ends soon."""
MOST_MEMORY = 4 << 30
"""Bytes of address space, which end a mutant that collects rows without end."""
WORK = "HOLDFAST_MUTANTS"
CONTROL = "nothing mutated"

Send = Callable[[object], None]


class Mutant(msgspec.Struct):
    """A change of one file. ``text``: the whole changed file. ``first``: the tests to try first. ``is_only``: try no others."""

    name: str
    file: str
    text: str
    first: list[str]
    is_only: bool = False


class Work(msgspec.Struct):
    """What a lane has to do. ``queries``: the folder of the copy. ``answers``: a file that gets a line for each verdict. ``uses``: a file
    that keeps which test uses which file. ``is_quick``: skip long tests. ``most``: the largest number of tests for one mutant."""

    store: str
    queries: str
    answers: str
    uses: str
    mutants: list[Mutant]
    is_quick: bool = False
    most: int | None = None


class Verdict(msgspec.Struct):
    """``killer``: the test that failed, empty if none did. ``where``: in its setup, its call, or ``hung``. ``tests``: how many ran."""

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
    """Register the fixture of the server before pytest binds fixtures to tests."""
    if _work().store.endswith("postgres"):
        session.config.pluginmanager.register(import_module("tests.mutants.databases").SERVER_PLUGIN)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Try every mutant, in place of pytest's loop over tests."""
    work = _work()
    killers = dict[str, None]()
    with Path(work.answers).open("ab", buffering=0) as answers, shared_databases(session, work.store) as clean_up:
        lane = Lane(session, work, clean_up)
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
    """Set no timer: elapsed time depends on the machine, so ``MOST_WORK`` limits the time of the processor."""
    return True


def _work() -> Work:
    return msgspec.json.decode(Path(os.environ[WORK]).read_bytes(), type=Work)


class Lane:
    """The mutants that one process tries, one after the other."""

    def __init__(self, session: pytest.Session, work: Work, clean_up: Callable[[str], None]) -> None:
        self._session, self._work, self._clean_up, self._clock = session, work, clean_up, SystemClock()
        items = sorted((item for item in session.items if _is_of(item, work.store)), key=_length)
        self._items = {item.nodeid: item for item in items if not (work.is_quick and _length(item))}
        self._uses: dict[str, set[str]] | None = None
        self._child: Child | None = None

    def close(self) -> None:
        """End the child, if one still runs."""
        child, self._child = self._child, None
        if child is not None:
            child.end()

    def try_one(self, mutant: Mutant) -> Verdict:
        """Write the mutant, let a child run tests, and restore the file."""
        path, began = Path(self._work.queries, mutant.file), self._clock.monotonic()
        whole = path.read_text(encoding="utf-8")
        path.write_text(mutant.text, encoding="utf-8")
        verdict = Verdict(mutant.name, where="never")
        try:
            verdict = self._judge(mutant)
        finally:
            path.write_text(whole, encoding="utf-8")
            self._clean_up_after(verdict.where)
        verdict.seconds = round(self._clock.monotonic() - began, 2)
        return verdict

    def try_none(self, killers: list[str]) -> Verdict:
        """Run all killers against the unchanged code, which must pass them."""
        file = min(Path(self._work.queries).glob("*.sql"))
        return self.try_one(Mutant(CONTROL, file.name, file.read_text(encoding="utf-8"), killers, is_only=True))

    def _judge(self, mutant: Mutant) -> Verdict:
        known = self._run(mutant, [self._items[name] for name in mutant.first if name in self._items])
        if known.killer or mutant.is_only or self._work.most == 0:
            return known
        others = [item for name, item in self._items.items() if name not in mutant.first and self._may_notice(name, mutant.file)]
        words = set(re.findall(r"[a-z]{4,}", mutant.name))
        # Tests whose names share words with the mutant come first.
        others.sort(key=lambda item: (_length(item), _is_late(item), -sum(word in item.name for word in words)))
        verdict = self._run(mutant, others[: self._work.most])
        verdict.tests += known.tests
        return verdict

    def _may_notice(self, test: str, file: str) -> bool:
        """Return whether a test may notice a change of the file.

        A test that is recorded to use other files only does not. A test without a record may start processes that use the file.
        """
        if self._uses is None:
            self._uses = self._learn_uses()
        names, known = set(_users(self._work, file.removesuffix(".sql"))), set[str]().union(*self._uses.values())
        return names.isdisjoint(known) or bool(names & self._uses.get(test, names))

    def _learn_uses(self) -> dict[str, set[str]]:
        """Return which files each test uses; a child runs all short tests that are not known from the last time."""
        path = Path(self._work.uses)
        known = msgspec.json.decode(path.read_bytes(), type=dict[str, set[str]]) if path.exists() else {}
        items = [item for name, item in self._items.items() if name not in known and not _length(item)]

        def child(_: BinaryIO, send: Send) -> None:
            used = _recorded(self._work.store)
            for item, after in _with_next(items):
                used.clear()
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after or self._session)
                send([item.nodeid, sorted(used)])

        if items:
            learner = Child(child)
            known |= {test: set(names) for test, names in learner.messages()}
            learner.end()
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(msgspec.json.encode(known))
        return {test: names for test, names in known.items() if names}

    def _clean_up_after(self, where: str) -> None:
        """End the child, except on PostgreSQL after a clean run: connecting is slow there, so the child goes on."""
        if self._work.store != "postgres" or where not in ("", "call"):
            self.close()
        self._clean_up(where)

    def _run(self, mutant: Mutant, items: Sequence[pytest.Item]) -> Verdict:
        verdict = self._ask(mutant, items)
        if verdict.where != "setup":
            return verdict
        self._clean_up_after(verdict.where)  # the test before may have caused the failure, so this one runs again in a new child
        second = self._ask(mutant, items[verdict.tests - 1 :])
        second.tests += verdict.tests
        return second

    def _ask(self, mutant: Mutant, items: Sequence[pytest.Item]) -> Verdict:
        verdict = Verdict(mutant.name)
        if items:
            self._child = self._child or Child(self._serve)
            self._child.send([mutant.file.removesuffix(".sql"), [item.nodeid for item in items]])
            for test, where in self._child.messages():
                verdict.killer, verdict.where = (test, where) if where else ("", "")
                verdict.tests += where == "hung"
        return verdict

    def _serve(self, orders: BinaryIO, send: Send) -> None:
        failures = Failures()
        self._session.config.pluginmanager.register(failures)
        for order in orders:
            query, names = msgspec.json.decode(order)
            failures.first = None
            _reread(self._work, query)
            self._try(failures, [self._items[name] for name in names], send)
            send(None)

    def _try(self, failures: Failures, items: Sequence[pytest.Item], send: Send) -> None:
        for item, after in _with_next(items):
            send([item.nodeid, "hung"])
            _bound_work(item)
            # The session as the next item keeps its fixtures.
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after or self._session)
            if failures.first is not None:
                self._session._setupstate.teardown_exact(self._session)  # type: ignore[arg-type] # only the fixtures of the session stay
                return send([item.nodeid, failures.first.when])
            send([item.nodeid, ""])
        return None


def _is_of(item: pytest.Item, store: str) -> bool:
    return not store.startswith("rows-") or bool(import_module("tests.mutants.rows").runs_on(item, store))


def _is_late(item: pytest.Item) -> bool:
    """Return whether a test comes at the end: tests of costs and of failing servers follow tests of results."""
    return any(word in item.nodeid for word in ("plans", "looks", "network", "server", "pressure", "pool", "connect", "beats"))


def _length(item: pytest.Item) -> float:
    """Return the time limit that a test declares, 0 for a short test."""
    return max((float(mark.args[0]) for mark in item.iter_markers("timeout") if mark.args), default=0.0)


def _with_next(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    return zip(items, [*items[1:], None], strict=True)


class Child:
    """A fork of this process, so that nothing that it does stays here."""

    def __init__(self, serve: Callable[[BinaryIO, Send], None]) -> None:
        orders_read, orders_write = os.pipe()
        answers_read, answers_write = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(orders_write)
            os.close(answers_read)
            _run_child(serve, orders_read, answers_write)
        os.close(orders_read)
        os.close(answers_write)
        self._orders, self._answers = os.fdopen(orders_write, "wb", buffering=0), os.fdopen(answers_read, "rb", buffering=0)

    def send(self, order: object) -> None:
        """Send the child its next order."""
        self._orders.write(msgspec.json.encode(order) + b"\n")

    def messages(self) -> Iterator[Any]:
        """Yield the messages of the child until it has finished, has died, or has been silent for too long."""
        while select.select([self._answers], [], [], SILENCE_LIMIT)[0] and (line := self._answers.readline()):
            message = msgspec.json.decode(line)
            if message is None:
                return
            yield message

    def end(self) -> None:
        """Kill the child and every process that it started."""
        try:
            os.killpg(self._pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(self._pid, signal.SIGKILL)  # it had no time to lead a group; until it is reaped, no other process has its pid
        os.waitpid(self._pid, 0)
        self._orders.close()
        self._answers.close()


def _run_child(serve: Callable[[BinaryIO, Send], None], orders_read: int, answers: int) -> NoReturn:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    silence = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(silence, descriptor)
    try:
        with os.fdopen(orders_read, "rb") as orders:
            serve(orders, lambda message: void(os.write(answers, msgspec.json.encode(message) + b"\n")))
    finally:
        os._exit(0)  # pytest must not run its exit handlers twice


def _bound_work(item: pytest.Item) -> None:
    """Let SIGPROF end the process after too much work in this test."""
    signal.setitimer(signal.ITIMER_PROF, max(MOST_WORK, _length(item)))


def void(_: object) -> None:
    return


def _users(work: Work, name: str) -> list[str]:
    """Return the files that a mutant of this one changes: itself, or those that include it, if it is a part."""
    folder, part = Path(work.queries), name.removeprefix("parts/")
    return [name] if part == name else [path.stem for path in sorted(folder.glob("*.sql")) if part in queries.parts_of(path)]


def _reread(work: Work, query: str) -> None:
    """Read the changed statements of SQLite again: they are read at import, PostgreSQL's at first use, those of rows at every use."""
    if work.store == "sqlite":
        database = import_module("holdfast.stores.sqlite.database")
        for name in _users(work, query):
            database.QUERIES[name] = database.Query(name)
            if name == "enqueue":
                reload(import_module("holdfast.stores.sqlite.caller_transactions"))


def _recorded(store: str) -> set[str]:
    """Return a set that receives the name of every file that this process uses from now on."""
    used: set[str] = set()
    if store == "postgres":
        _record(
            import_module("holdfast.stores.postgres.database").StoreDatabase,
            "_sql",
            lambda _, query: used.update(_files_of(query)),
        )
        return used
    if store.startswith("rows-"):
        _record(import_module("holdfast.rows.sql").Queries, "of", lambda _, name: used.add(name))
        return used
    database, within = (
        import_module("holdfast.stores.sqlite.database"),
        import_module("holdfast.stores.sqlite.caller_transactions"),
    )
    _record(within, "enqueue", lambda *_: used.add("enqueue"))

    class Recorded:
        def __init__(self, query: Any) -> None:
            self.programs, self._query = query.programs, query

        @property
        def statement(self) -> str:
            if self._query.statement.strip() != "SELECT 1;":  # the file with SELECT 1 is a part of all others
                used.add(self._query.name)
            return str(self._query.statement)

    database.QUERIES.update({name: Recorded(query) for name, query in database.QUERIES.items()})
    return used


def _files_of(query: str) -> set[str]:
    """Return the files of a statement of PostgreSQL's: ``exchange due_range`` and ``claim due_range`` are made of several each."""
    verb, _, part = query.partition(" ")
    if not part:
        return {verb}
    settling = "settling" if verb == "exchange" else "nothing_settled"
    if part == "lanes":
        return {"exchange_lanes", "walk", "due_lanes", settling}
    others = {"due_range": {"due_range", "others"}, "due_range_wanted": {"due_range", "others_wanted"}}
    return {"exchange", settling} | others.get(part, {part})


def _record(owner: Any, name: str, note: Callable[..., None]) -> None:
    whole = getattr(owner, name)

    def noted(*given: Any, **named: Any) -> Any:
        note(*given)
        return whole(*given, **named)

    setattr(owner, name, noted)


@contextmanager
def shared_databases(session: pytest.Session, store: str) -> Iterator[Callable[[str], None]]:
    """Open what all children of a lane share; yield the clean-up after each child."""
    if store == "postgres":
        with import_module("tests.mutants.databases").postgres(session) as clean_up:
            yield clean_up
    elif store == "rows-postgres":
        with import_module("tests.mutants.rows").postgres():
            yield void
    else:
        yield void
