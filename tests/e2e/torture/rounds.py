"""One round: a new fleet on new grounds, all faults beside each other in a random order, and a verdict."""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import Struct, field

from holdfast._core.job import PLACE_OF, Place, State
from holdfast._system import guard
from proof.checker.checker import check
from proof.checker.history import History
from proof.checker.verdicts import Report
from tests.e2e.death_log import Watch, log_deaths
from tests.e2e.fleet import Fleet, living_in
from tests.e2e.random_operators import Operator
from tests.e2e.records import PROCESS_LOG, REFUSED
from tests.e2e.torture.databases import Store, grounds
from tests.e2e.torture.grounds import Grounds
from tests.e2e.torture.kept import Kept
from tests.e2e.torture.lanes import Lanes
from tests.e2e.torture.load import UNKNOWN, Feeder
from tests.e2e.torture.restarts import waits
from tests.e2e.torture.runner import MANY, SETTINGS, TIME_LIMIT, Torturer
from tests.e2e.torture.table import WatchedTable
from tests.e2e.waiting import until

TARGET = "tests.e2e.torture.jobs:app"
EVENTS = "events.txt"
LOOK = 0.25
GOING = 15.0
"""Seconds in which the last child of an ended worker ends, too."""
BACKLOGS = (2, 50)
"""Jobs that wait for each worker process: very few, or enough that the last of them runs a minute later."""
BUSY = 4.0
"""Seconds in which one of N workers has a free slot for the next job, under all kills."""
ROWS = 100
JUDGED = ("S1", "S2", "S3", "S5", "S6", "S8", "S9", "S10", "L1", "L2")
"""Properties that a round must have checked, or it proves nothing."""


class Plan(Struct, frozen=True, kw_only=True):
    """A round ends after ``seconds``, and when all that is ``wanted`` has been done."""

    store: Store
    seed: int
    seconds: float = 75.0
    wanted: Mapping[str, int] = {}
    crews: int = 4
    processes: int = 3

    def is_over(self, counts: Counter[str], elapsed: float) -> bool:
        """Return whether the round may end."""
        return elapsed >= self.seconds and all(counts[what] >= many for what, many in self.wanted.items())


class Verdict(Struct):
    """The verdict of a round. ``wrong``: problems that the history does not show."""

    report: Report
    history: History
    counts: Counter[str]
    seconds: float
    bound: float
    jobs: int
    refused: int
    rows: int = 0
    restarts: list[float] = field(default_factory=list)
    failovers: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return not (self.report.violations or self.wrong)

    def explain(self) -> str:
        """Return what is wrong, with the story of a job."""
        stories = [self.report.explain(self.history)] if self.report.violations else []
        return "\n".join([*self.wrong, *stories])

    def keep(self, folder: Path) -> None:
        """Write the raw events of each job of which a promise was broken: not every server outlives its round."""
        jobs = dict.fromkeys(each.job for each in self.report.violations if each.job is not None)
        (folder / EVENTS).write_text("\n\n".join(self.history.story(job) for job in jobs))


def play(plan: Plan, folder: Path, show: Callable[[float, Counter[str]], None] = lambda elapsed, counts: None) -> Verdict:
    """Play the whole round in that folder, and show its counts. No process runs afterwards; a broken round is kept."""
    with grounds(plan.store, folder) as setting:
        try:
            verdict = _play(plan, setting, folder, show)
        except BaseException:
            setting.keep(folder)
            raise
        if not verdict.is_clean:
            verdict.keep(folder)
            setting.keep(folder)
        return verdict


def _play(plan: Plan, setting: Grounds, folder: Path, show: Callable[[float, Counter[str]], None]) -> Verdict:
    chance = random.Random(plan.seed)
    settings = {**SETTINGS, "ttl": f"{setting.ttl}s", "poll": chance.choice(["0.2s", "1s"])}
    with ExitStack() as stack:
        ships = Fleet(folder, setting.url, setting.transport, **settings)
        stack.callback(ships.stop)
        ships.target = TARGET
        ships.app.migrate()
        stack.enter_context(setting.watched(ships.app))
        table = WatchedTable(setting.say, setting.stamp)
        watching = stack.enter_context(log_deaths(folder / PROCESS_LOG))
        torturer = Torturer(ships, chance, setting.machines(plan.crews), watching, processes=plan.processes)
        torturer.make_machine, torturer.wanted, torturer.ttl = setting.machine, plan.wanted, setting.ttl
        game = _Game(plan, setting, ships, torturer, watching, table)
        game.torment(show)
        return game.end()


class _Game:
    def __init__(
        self, plan: Plan, setting: Grounds, ships: Fleet, torturer: Torturer, watching: Watch, table: WatchedTable
    ) -> None:
        self._table = table
        self._plan, self._grounds, self._ships, self._torturer, self._watching = plan, setting, ships, torturer, watching
        self._began, self._is_paused = time.monotonic(), False
        self._chance = random.Random(plan.seed)
        self._feeder = Feeder(torturer, ships, self._chance, enough=self._chance.choice(BACKLOGS) * plan.crews * plan.processes)
        self._operator = Operator(ships.app, self._chance)

    def torment(self, show: Callable[[float, Counter[str]], None]) -> None:
        """Run all faults beside each other; feed jobs until the last fault, because most faults wait for busy workers."""
        feeding, lanes = (Lanes(self._grounds.tolerated) for _ in range(2))
        counts = self._torturer.counts
        steps = (self._torturer.kill_a_worker, self._torturer.hurt_a_crew, self._operate, self._spoil)
        with ExitStack() as ending:
            ending.callback(self._remember)
            ending.callback(feeding.close)
            ending.callback(lanes.close)
            feeding.open(self._feeder.feed)
            for step in (*steps, *self._grounds.lanes(self._torturer, self._chance)):
                lanes.open(step)
            while not self._plan.is_over(counts, elapsed := time.monotonic() - self._began) and not feeding.wait(0.0):
                if lanes.wait(LOOK):
                    break
                show(elapsed, counts)

    def _operate(self) -> float:
        self._resume()
        self._operator.meddle(self._feeder.kept, self._feeder.deletable, many=2)
        if self._chance.random() < 0.1:
            self._is_paused = True
            self._ships.app.queues.pause("default")
            self._torturer.pause(0.5)
            self._resume()
        self._torturer.counts["operations"] += 4
        return self._chance.uniform(0.0, 1.0)

    def _resume(self) -> None:
        if self._is_paused:
            self._ships.app.queues.resume("default")
            self._is_paused = False

    def _spoil(self) -> float:
        with self._torturer.calm:
            self._feeder.spoil(self._grounds)
            self._table.fill(ROWS)
        return self._chance.uniform(5.0, 20.0)

    def end(self) -> Verdict:
        """Let every job end, end every crew, and judge what happened."""
        self._resume()
        waiting = self._ships.app.jobs.list(state="available", limit=MANY)
        doomed = [*self._chance.sample(waiting, len(waiting) * 4 // 5), *(view for view in waiting if view.task == UNKNOWN)]
        self._ships.app.jobs.cancel([*{view.id for view in doomed}])
        with suppress(AssertionError):  # the checker finds jobs that do not end
            until(lambda: self._table.is_done() and not self._is_busy(), within=TIME_LIMIT + self._feeder.jobs / 10)
        wrong = [*self._feeder.misfits(), *self._table.wrong(), *self._send_home(), *self._grounds.wrong()]
        self._watching.up()  # reads the file to its end
        kept = self._remember()
        history = kept.history(self._ships.folder, kept.url)
        report = check(history, kept.rules)
        restarts = list(waits(history, set(self._feeder.kept)))
        late = [job for job, took in restarts if took > self._grounds.bound + BUSY]
        wrong += [f"{len(late)} returned jobs waited for longer than the bound until their code ran: {late[:3]}"] if late else []
        return Verdict(
            report,
            history,
            self._torturer.counts,
            seconds=time.monotonic() - self._began,
            bound=self._grounds.bound,
            jobs=self._feeder.jobs,
            refused=self._watching.counts[REFUSED],
            rows=self._table.rows,
            restarts=[took for _, took in restarts],
            failovers=self._torturer.failovers,
            wrong=[*wrong, *(f"{name} was not checked" for name in JUDGED if not report.checked[name])],
        )

    def _is_busy(self) -> bool:
        counts = self._ships.app.jobs.counts()
        return any(many for state, many in counts.items() if PLACE_OF[State(state)] is not Place.FINISHED)

    def _send_home(self) -> list[str]:
        """End all crews; return the processes they leave behind, and the crews that do not end as they should."""
        for crew in self._torturer.crews:
            until(lambda crew=crew: crew.workers() or crew.has_ended(), within=TIME_LIMIT)  # a process that starts has no handler
            crew.send(signal.SIGTERM)
        codes = [crew.wait(TIME_LIMIT) for crew in self._torturer.crews]
        with suppress(AssertionError):
            until(lambda: not living_in(self._ships.folder), within=GOING)
        left = [f"process {pid} still runs, {_words(pid)}" for pid in living_in(self._ships.folder)]
        return [*left, *(f"a supervisor ended with {code}" for code in codes if code)]

    def _remember(self) -> Kept:
        """Save what the database does not record, in the same folder."""
        plan, operator = self._plan, self._operator
        kept = Kept(plan.store, plan.seed, self._grounds.url, self._grounds.bound, operator.retried, operator.deleted)
        kept.save(self._ships.folder)
        return kept


def _words(pid: int) -> str:
    """Return the command line of a process, and its parent."""
    stat = guard.read_stat(pid)
    words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return f"{words} of session {stat.session}, child of {stat.parent}" if stat is not None else words
