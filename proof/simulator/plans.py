"""The draws of one seed: the size of its world and its own mix of faults (swarm: each run leaves most kinds of fault out)."""

import random
from enum import StrEnum
from typing import assert_never

from msgspec import Struct, structs

from holdfast._core.policy import RETENTION_FLOOR
from holdfast.settings import Settings
from proof.checker.verdicts import Rules
from proof.search.decisions import Decision
from proof.simulator import bounds
from proof.simulator.ahead_plan import draw_ahead
from proof.simulator.bounds import CALLS, OPERATION, fail_over
from proof.simulator.broker_plan import BrokersPlan
from proof.simulator.bucket_plan import fitted
from proof.simulator.call_outcomes import Fault, Mix
from proof.simulator.flow_plan import SHARE, FlowsPlan, draw_flows
from proof.simulator.growth_plan import draw_growth
from proof.simulator.lane_plan import MOST_BACKLOG, LanesPlan, draw_lanes
from proof.simulator.profiles import Brand, LeaseClock, Profile, draw_profile
from proof.simulator.programs import LIMITED, NAMES
from proof.simulator.schedule_plan import SchedulesPlan, draw_schedules
from proof.simulator.supervisor_settings import Outfit, draw_apps, draw_outfits, draw_settings
from proof.simulator.threads import PROCESSES, THREADED, draw_threads
from proof.simulator.watched_plan import RowsPlan, draw_rows

STRIKES = (
    "kill_worker", "kill_supervisor", "kill_together", "lose_power", "drain",
    "freeze_worker", "freeze_session", "freeze_supervisor", "freeze_together",
    "cut_worker", "cut_supervisor", "cut_together", "outage", "step_clock",
)  # fmt: skip
WORLDWIDE = ("outage", "step_clock")  # no core would stay healthy
GENTLE = ("quick", "long", "silent", "raising", "answering", "resuming", "parent", "steady")
MORTAL = (*GENTLE, "poison", "crashing")
FOCUS = ("", "", "enqueue", "exchange", "report", "beat", "end_lease", "held", "expired")
NEIGHBOURS = 8  # whose writes may come first
WAYS = 8  # there and back, of an exchange and what is asked between two of them
MIXED = 0.5  # of the worlds have supervisors that differ
BACKLOGS = (10, 10, 20, 50, 50, 100, 200, 500) * 6 + (10_000,)


class Mode(StrEnum):
    """The purpose of a world."""

    SAFETY = "safety"  # all processes suffer faults, then all faults end
    LIVENESS = "liveness"  # one supervisor stays healthy, the others break and stay broken
    OUTAGES = "outages"  # the only fault is a store that is unreachable for all at once: no job may be charged
    BRINK = "brink"  # supervisors come back at the very moment at which their leases are judged
    FORGETFUL = "forgetful"  # the store fails over again and again, and its stand-in has not received the newest writes
    BEYOND = "beyond"  # clocks leave their assumptions: only the promises that hold even then are checked
    LULLS = "lulls"  # the only faults are silences shorter than a lease: no job may be lost
    DRAINS = "drains"  # the only events are requests to workers to end: no job may be charged
    CROWD = "crowd"  # jobs that no worker can run are before others: the others start promptly


WEIGHTS = {
    Mode.SAFETY: 38, Mode.LIVENESS: 15, Mode.OUTAGES: 8, Mode.BRINK: 11, Mode.FORGETFUL: 6, Mode.BEYOND: 8, Mode.LULLS: 4, Mode.DRAINS: 3,
    Mode.CROWD: 7,
}  # fmt: skip
WATCHED = (Mode.SAFETY, Mode.LIVENESS, Mode.BRINK, Mode.FORGETFUL, Mode.BEYOND)  # they may have a watched table
PILED = (Mode.SAFETY, Mode.LIVENESS, Mode.DRAINS)  # they may have a backlog
TICKING = (*WATCHED, Mode.OUTAGES, Mode.DRAINS)  # they may have schedules
UNHURT = (Mode.OUTAGES, Mode.LULLS)  # nothing happens for which a job may be charged
QUIET = (Mode.OUTAGES, Mode.LULLS, Mode.DRAINS, Mode.CROWD)  # the store's calls meet no fault but an outage
DEPLOYED = (Mode.SAFETY, Mode.LIVENESS, Mode.BEYOND, Mode.DRAINS)
STRIKES_OF = {Profile.MONGODB: ("lose_quorum",) * 5, Profile.SQLITE: ("freeze_writer",)}
UNFIT = {Profile.MONGODB: (Mode.FORGETFUL,), Profile.OBJECTS: (Mode.FORGETFUL, Mode.CROWD)}
"""Neither a confirmed primary nor objects lose a write; and a write that is repeated until it meets no conflict is not prompt."""
CONNECTIONS = (0, 0, 1, 2, 4)
QUEUES = ("default", "slow")
OPERATIONS = ("cancel", "cancel", "retry", "retry", "reschedule", "delete", "purge", "pause", "resume", "prune")
HARMLESS = ("reschedule", "purge", "pause", "resume", "prune")


class Plan(Struct, frozen=True, kw_only=True):
    """The plan of a world; times in seconds. ``interval``: between two faults around processes. ``step``: of the store's clock.

    ``keys``: how many unique keys there are; ``operations``: the actions of an operator at random; ``has_strangers``: some jobs are of a
    task that no worker knows; ``hint_loss``: how many hints get lost. ``longest_write``: how long a write takes, while others wait.
    ``connections``: how many each process may have, beside one for beats; 0: any number. ``has_releases``: some workers and clients are
    of the release before. ``outfits``: the setup of each supervisor. Without any, all have ``settings``, and every second one has the
    release before. ``has_hooks``: all tasks have an ``on_rescue``; ``has_queue``: a queue delivers jobs, and has faults too. ``backlog``:
    how many slow jobs wait from the start; the rest is deleted in the end. ``rows``: a watched table of the users. ``schedules``: jobs of
    ticks. ``lanes``: queues and keys of the jobs, and limits. ``flows``: workflows, steps and signals. ``locks``: how often another program
    locks the row of a job. ``ahead``: how many jobs each worker claims ahead. ``full``: the bytes of changes that a process with a bucket
    flushes. ``brokers``: of a bucket. ``brand``: whose statements the store runs. ``apps``: how many processes of the users run a worker
    in their event loop. ``script``: all faults and operations; nothing else is drawn but times.
    """

    mode: Mode
    lease_clock: LeaseClock
    settings: Settings
    supervisors: int
    processes: int
    concurrency: int
    jobs: int
    clients: int
    tasks: tuple[str, ...]
    operations: tuple[str, ...]
    chaos: float
    patience: float  # language: patience – a key of the kept worlds
    interval: float
    strikes: tuple[str, ...]
    mix: Mix
    rate_error: float
    step: float
    keys: int = 0
    expires: bool = False
    has_strangers: bool = False
    hint_loss: float = 0.3
    floor: float = RETENTION_FLOOR
    script: tuple[Decision, ...] | None = None
    has_hooks: bool = False
    has_queue: bool = False
    has_releases: bool = False
    profile: Profile = Profile.PLAIN
    longest_write: float = 0.0
    connections: int = 0
    brand: Brand = Brand.MEMORY
    outfits: tuple[Outfit, ...] = ()
    backlog: int = 0
    rows: RowsPlan | None = None
    schedules: SchedulesPlan | None = None
    lanes: LanesPlan | None = None
    locks: int = 0
    apps: int = 0
    ahead: int = 0
    flows: FlowsPlan | None = None
    full: int = 0
    brokers: BrokersPlan | None = None

    def settings_of(self, slot: int) -> Settings:
        """Return the settings of the supervisor in that slot."""
        return self.outfits[slot].settings if slot < len(self.outfits) else self.settings

    def is_new(self, slot: int) -> bool:
        """Return whether the supervisor in that slot starts with the newest release."""
        return not self.has_releases or (self.outfits[slot].is_new if slot < len(self.outfits) else slot % 2 == 0)

    @property
    def all_settings(self) -> tuple[Settings, ...]:
        """The settings of all supervisors."""
        return tuple(self.settings_of(slot) for slot in range(self.supervisors))

    @property
    def longest_ttl(self) -> float:
        """The longest ttl of all leases."""
        return max(each.timing.ttl for each in self.all_settings)

    @property
    def is_live(self) -> bool:
        """Whether a core stays healthy all the time."""
        return self.mode is Mode.LIVENESS

    @property
    def is_timed(self) -> bool:
        """Whether all clocks stay within their assumptions."""
        return self.mode not in (Mode.BEYOND, Mode.FORGETFUL)

    @property
    def rules(self) -> Rules:
        """The promises that the history of this world must keep."""
        recovery = max(each.recovery_interval for each in self.all_settings)  # any supervisor may judge
        bound, ttls = bounds.recovery(self, recovery)
        bound += fail_over(self) + (0.0 if self.is_live else recovery + 1.0)  # amnesty, and the pause of a failing service
        # A write waits for the writes of other processes, or is composed again after them.
        latency, is_crowd = self.mix.latency + NEIGHBOURS * self.longest_write, self.mode is Mode.CROWD
        return Rules(
            step=self.step,
            has_lease_clock=self.lease_clock != "none",
            rate_error=self.rate_error,
            early=bounds.early(self),
            is_timed=self.is_timed,
            is_always_calm=self.is_live,
            bound=bound if self.is_timed else None,
            lease_ttls=ttls,
            # A supervisor with rarer beats watches as often as the lease is renewed, for that long, before it judges.
            lease_amnesties=(0.0 if self.is_live else 1.0) + (2.0 if self.outfits else 0.0),
            local_bound=bounds.local_bound(self, latency),
            prompt=self.settings.poll_interval + WAYS * latency + 0.1 if is_crowd else None,
            zombie_bound=OPERATION + fail_over(self) if self.is_timed and not self.is_live else None,
            zombie_amnesties=2.0,
            calls=bounds.outage_calls(self),
            floor=self.floor,
            has_hints=self.hint_loss < 1.0,
            has_crashes=self.mode not in (*UNHURT, Mode.DRAINS),
            has_kills=self._has_kills(),
            has_long_silence=self.mode is not Mode.LULLS,
            has_stalls=self.mode not in UNHURT,
            keeps_results=self.mode in UNHURT,
            returns_tokens=True,
            isolates=True,
            keeps_order=self._keeps_order,
            restart=self.settings.poll_interval + WAYS * latency + 0.1 if self._restarts_soon else None,
            tick_bound=bounds.tick_bound(self, recovery, latency),
            void_bound=bounds.void_bound(self, recovery, latency),
            has_lanes=self.lanes is not None,
            claims_once=self.brand is Brand.MEMORY and self.mode is not Mode.FORGETFUL and self.profile is not Profile.MONGODB,
            table=self.rows.rules(recovery + OPERATION + CALLS * latency + fail_over(self), self) if self.rows else None,
        )

    @property
    def _keeps_order(self) -> bool:
        """Return whether each claim sees all due jobs: no queue names jobs to it, and no store forgets or composes writes."""
        is_whole = self.mode is not Mode.FORGETFUL and self.profile in (Profile.PLAIN, Profile.SQLITE)
        # A runner that could not be started is not asked for again at once: other jobs are claimed in the meantime.
        is_whole = is_whole and not (self.lanes and self.lanes.counts_tasks)  # jobs of one lane may wait for different limits
        has_graphs = self.flows is not None and self.flows.growth is not None  # which are built in threads
        is_threaded = has_graphs or not {*THREADED}.isdisjoint(self.tasks)
        is_whole = is_whole and not (is_threaded and self.ahead)  # claims ahead leave threads out
        return is_whole and not self.has_queue and self.brand is Brand.MEMORY and {*PROCESSES}.isdisjoint(self.tasks)

    @property
    def _restarts_soon(self) -> bool:
        """Return whether a healthy core claims returned jobs: nothing blocks its event loop."""
        is_blocked = self.rows is not None or self.lanes is not None or {"blocking", "stuck"} & set(self.tasks)
        return self.is_live and self._keeps_order and not is_blocked

    def _has_kills(self) -> bool:
        """Return whether a healthy supervisor may have a reason to kill its worker: code that does not stop when cancelled."""
        tasks = set(self.tasks)
        is_cancelled = "cancel" in self.operations or not tasks.isdisjoint((*LIMITED, "thread_creeping"))
        return not tasks.isdisjoint(("stuck", "numb")) or (is_cancelled and not tasks.isdisjoint(("deaf", "blocking", *THREADED)))


def draw(numbers: random.Random, *, flow_share: float = SHARE) -> Plan:
    """Draw a plan from the seed's first numbers. Later additions have separate numbers, so that the rest stays the same.

    ``flow_share``: of the worlds that may have workflows, those that have them.
    """
    plan = _draw(numbers)
    varied, ttl = _vary(plan, random.Random(plan.chaos)), plan.settings.timing.ttl
    rows = draw_rows(random.Random(f"rows {plan.chaos}"), ttl) if plan.mode in WATCHED else None
    tasks = plan.tasks + (draw_threads(random.Random(f"threads {plan.chaos}")) if plan.mode in WATCHED else ())
    schedules = draw_schedules(random.Random(f"schedules {plan.chaos}"), ttl) if plan.mode in TICKING else None
    locks, apps = _draw_locks(random.Random(f"locks {plan.chaos}"), plan), draw_apps(random.Random(f"apps {plan.chaos}"))
    # Runs over rows must not wait for a limit.
    has_lanes = plan.mode in TICKING and rows is None and varied.backlog <= MOST_BACKLOG
    lanes = draw_lanes(random.Random(f"lanes {plan.chaos}"), tasks, ttl) if has_lanes else None
    is_prompt = plan.mode is Mode.CROWD or (plan.mode is Mode.LIVENESS and {"blocking", "stuck"}.isdisjoint(tasks))
    ahead = 0 if is_prompt else draw_ahead(random.Random(f"ahead {plan.chaos}"))
    # A store that forgets writes, and rows that other programs lock, are not judged together with workflows.
    has_flows = plan.mode in TICKING and plan.mode is not Mode.FORGETFUL and not locks
    flows = draw_flows(random.Random(f"flows {plan.chaos}"), share=flow_share) if has_flows else None
    if flows is not None:
        flows = structs.replace(flows, growth=draw_growth(random.Random(f"growth {plan.chaos}")))
    varied = structs.replace(varied, schedules=schedules, lanes=lanes, ahead=ahead, flows=flows)
    return fitted(structs.replace(varied, rows=rows, locks=locks, tasks=tasks, apps=apps))


def _draw_locks(numbers: random.Random, plan: Plan) -> int:
    has_locks = plan.profile is Profile.PLAIN and plan.mode in LOCKS[Brand.POSTGRES][1] and numbers.random() < 0.25
    return numbers.choice([1, 3, 10, 30]) if has_locks else 0  # only a server has locks for rows


def _vary(plan: Plan, numbers: random.Random) -> Plan:
    """Draw the settings of a world with supervisors that differ; most worlds have equal ones."""
    is_mixed, is_gentle = numbers.random() < MIXED and plan.supervisors > 1, plan.mode is Mode.LULLS
    outfits = draw_outfits(numbers, plan.settings, plan.supervisors, is_gentle=is_gentle) if is_mixed else ()
    strikes = plan.strikes
    if plan.mode in (Mode.OUTAGES, Mode.SAFETY):
        strikes += ("stand_still",) * (numbers.random() < 0.3) + ("brief_outage",) * (is_mixed and numbers.random() < 0.5)
    plan = structs.replace(plan, outfits=outfits, strikes=strikes)
    backlog = numbers.choice(BACKLOGS) if plan.mode in PILED and numbers.random() < 0.25 else 0
    return structs.replace(plan, patience=20 * plan.longest_ttl, backlog=backlog)


def _draw(numbers: random.Random) -> Plan:
    mode = numbers.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    ttl = numbers.choice([6.0, 10.0, 30.0])
    settings = draw_settings(numbers, ttl, poll=ttl / 20 if mode is Mode.CROWD else ttl / 5)
    crowds = mode is Mode.CROWD
    tasks = _tasks(numbers, mode)
    has_hints = not crowds or numbers.random() < 0.6
    profile, lease_clock = _draw_profile(numbers, mode)
    has_releases = numbers.random() < 0.25 and mode is not Mode.CROWD  # where a free worker takes any waiting job
    return Plan(
        mode=mode,
        profile=profile,
        lease_clock=lease_clock,
        longest_write=0.0 if profile is Profile.PLAIN else 0.004 * ttl * numbers.random() ** 3,
        settings=settings,
        supervisors=numbers.choice([2, 3] if mode in (Mode.LIVENESS, Mode.BRINK, Mode.CROWD) else [1, 2, 2, 3]),
        processes=numbers.choice([1, 1, 2]),
        # Several that block one after the other would exceed every time limit together.
        concurrency=numbers.choice([1, 3] if "blocking" in tasks else [1, 3, 10]),
        jobs=numbers.randint(4, 24),
        clients=numbers.randint(1, 2),
        tasks=tasks,
        operations=_operations(numbers, mode) if has_hints else (),
        chaos=ttl * numbers.uniform(2.5, 5.0),
        patience=20 * ttl,
        interval=ttl * (0.15 if mode is Mode.FORGETFUL else numbers.choice([0.25, 0.5, 1.0])),
        strikes=_strikes(numbers, mode, profile, has_releases=has_releases),
        mix=_mix(numbers, ttl, mode),
        rate_error=0.1 if mode is Mode.BEYOND else 0.001,
        step=5 * ttl if mode is Mode.BEYOND else 0.4 * settings.timing.margin,
        keys=numbers.choice([0, 0, 1, 3]),
        expires=numbers.random() < 0.3,
        has_strangers=has_hints and numbers.random() < (0.7 if crowds else 0.1),
        hint_loss=0.3 if has_hints else 1.0,
        floor=_floor(numbers, mode, ttl),
        has_hooks=numbers.random() < 0.15,
        has_queue=numbers.random() < 0.25,
        has_releases=has_releases,
        connections=numbers.choice(CONNECTIONS) if profile is Profile.PLAIN and mode is not Mode.CROWD else 0,
    )


FIT = {Brand.SQLITE: (Profile.SQLITE, "kernel"), Brand.POSTGRES: (Profile.PLAIN, "server")}
"""The drawn profiles that a real store has."""
LOCKS = {
    Brand.SQLITE: ("lock_file", (Mode.SAFETY, Mode.BEYOND, Mode.OUTAGES)),  # an outage for writers
    Brand.POSTGRES: ("lock_row", (Mode.SAFETY, Mode.LIVENESS, Mode.BRINK, Mode.BEYOND, Mode.OUTAGES, Mode.LULLS, Mode.DRAINS)),
}
"""The locks of another program there, in every other world of these modes."""


def draw_for(seed: int, brand: Brand, *, flow_share: float = SHARE, profile: Profile | None = None) -> Plan:
    """Return the first plan of a seed that fits: one of that profile, or one that a real store of that brand can have."""
    plan, tries = draw(random.Random(seed), flow_share=flow_share), 0
    while brand is Brand.MEMORY and profile not in (None, plan.profile):
        tries += 1
        plan = draw(random.Random(f"{seed}/{tries}"), flow_share=flow_share)
    if brand is Brand.MEMORY:
        return plan
    while plan.mode is Mode.FORGETFUL or (plan.profile, plan.lease_clock) != FIT[brand]:
        tries += 1
        plan = draw(random.Random(f"{seed}/{tries}"), flow_share=flow_share)
    lock, modes = LOCKS[brand]
    strikes = plan.strikes + ((lock,) if plan.mode in modes and seed % 2 else ())
    return structs.replace(
        plan, brand=brand, has_hooks=False, rows=None, lanes=None, locks=0, floor=RETENTION_FLOOR, strikes=strikes
    )


def _draw_profile(numbers: random.Random, mode: Mode) -> tuple[Profile, LeaseClock]:
    return draw_profile(numbers, [each for each in Profile if mode not in UNFIT.get(each, ())])


def _strikes(numbers: random.Random, mode: Mode, profile: Profile, *, has_releases: bool) -> tuple[str, ...]:
    strikes = _allowed(mode, profile) + (("deploy",) if has_releases and mode in DEPLOYED else ())
    return tuple(numbers.sample(strikes, min(len(strikes), numbers.randint(1, 4))))


def _floor(numbers: random.Random, mode: Mode, ttl: float) -> float:
    """Return a time longer than any call is under way."""
    return 4 * ttl + 30.0 if mode is Mode.SAFETY and numbers.random() < 0.1 else RETENTION_FLOOR


def _tasks(numbers: random.Random, mode: Mode) -> tuple[str, ...]:
    names = MORTAL if mode is Mode.CROWD else GENTLE if mode in QUIET else NAMES
    return tuple(numbers.sample(names, numbers.randint(2, 6)))


def _operations(numbers: random.Random, mode: Mode) -> tuple[str, ...]:
    if numbers.random() < 0.55:
        return ()
    return HARMLESS if mode in (Mode.CROWD, Mode.LULLS) else OPERATIONS


def _allowed(mode: Mode, profile: Profile) -> tuple[str, ...]:
    match mode:
        case Mode.OUTAGES:
            return ("outage", "lose_quorum") if profile is Profile.MONGODB else ("outage",)
        case Mode.BRINK:
            return ("freeze_supervisor", "freeze_together", "cut_supervisor", "cut_together")
        case Mode.FORGETFUL:
            return ("fail_over",)
        case Mode.LULLS:
            return ("lull",)
        case Mode.DRAINS:
            return ("drain",)
        case Mode.CROWD:
            return ()
        case Mode.LIVENESS:
            return tuple(each for each in STRIKES if each not in WORLDWIDE)
        case Mode.SAFETY | Mode.BEYOND:
            return STRIKES + STRIKES_OF.get(profile, ())
        case _:
            assert_never(mode)


def _mix(numbers: random.Random, ttl: float, mode: Mode) -> Mix:
    latency = 0.01 * ttl * numbers.random() ** 3
    times = Mix(latency=latency, timeout=ttl / 5, slowest=ttl / 3, latest=2 * ttl)
    if mode in QUIET:
        return structs.replace(times, timeout=ttl / 10)
    if mode is Mode.BRINK:  # a supervisor that judges takes its time between its check and its write
        return structs.replace(times, rates={Fault.SLOW: 0.1, Fault.IN_FLIGHT: 0.05}, focus="end_lease")
    shares: dict[Fault, float] = {}
    for fault in list(Fault)[1:]:
        is_crash = fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
        if numbers.random() < 0.5:
            shares[fault] = numbers.random() * (0.05 if is_crash else 1.0)
    heat = numbers.choice([0.03, 0.1, 0.3])
    rates = {fault: heat * share / sum(shares.values()) for fault, share in shares.items()}
    return structs.replace(times, rates=rates, focus=numbers.choice(FOCUS))
