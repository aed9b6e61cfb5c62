"""Protocols with one missing guard. The simulation must notice each of them: tests of the tests."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from msgspec import Struct, structs

from holdfast._core.book.book import Book
from holdfast._core.timing import LeaseTiming
from proof.simulator.broker_plan import BrokersPlan
from proof.simulator.call_outcomes import Mix
from proof.simulator.faults import Fault
from proof.simulator.flow_plan import FlowsPlan
from proof.simulator.growth_plan import GrowthPlan
from proof.simulator.plans import OPERATIONS, Mode, Plan
from proof.simulator.profiles import Brand, Profile
from proof.simulator.supervisor_settings import Outfit
from proof.simulator.threads import PROCESSES, THREADED
from tests.simulation import broken_brokers as brokers
from tests.simulation import broken_buckets as buckets
from tests.simulation import broken_flows as flows
from tests.simulation import broken_growth as growth
from tests.simulation import broken_keeping as keeping
from tests.simulation import broken_lanes as lanes
from tests.simulation import broken_real_statements as statements
from tests.simulation import broken_rows as rows
from tests.simulation import broken_schedules as schedules
from tests.simulation import broken_stores as stores
from tests.simulation import broken_supervisors as supervisors
from tests.simulation import broken_workers as workers

Where = Callable[[Plan], bool]
Aim = Callable[[Plan], Plan]


def anywhere(plan: Plan) -> bool:
    """Any world may show it."""
    return True


def only(*modes: Mode) -> Where:
    """Worlds of these modes show it soonest."""
    return lambda plan: plan.mode in modes


def hooked(plan: Plan) -> bool:
    """Worlds whose tasks have an ``on_rescue``."""
    return plan.has_hooks


def queued(plan: Plan) -> bool:
    """Worlds in which a queue delivers the jobs."""
    return plan.has_queue


def piled(plan: Plan) -> bool:
    """Worlds with a backlog of some length, in which each claim sees all due jobs."""
    return 20 <= plan.backlog <= 500 and plan.rules.keeps_order


def lockable(plan: Plan) -> bool:
    """Worlds with a healthy core whose store has locks for rows."""
    return plan.mode is Mode.LIVENESS and plan.profile is Profile.PLAIN


def in_bucket(plan: Plan) -> bool:
    """Worlds whose processes write to a bucket under any faults."""
    return plan.profile is Profile.OBJECTS and plan.mode is Mode.SAFETY and plan.brokers is None


def led(plan: Plan) -> bool:
    """Worlds whose processes call brokers under any faults."""
    return plan.brokers is not None and plan.mode is Mode.SAFETY


def led_idly(plan: Plan) -> Plan:
    """A world of few writes, in which nothing but brokers fails."""
    idle = structs.replace(plan, chaos=200.0, jobs=3, clients=1, backlog=0, mix=Mix(), strikes=(), operations=())
    return structs.replace(idle, schedules=None, rows=None, lanes=None, brokers=BrokersPlan(3))


def embedded(plan: Plan) -> bool:
    """Worlds with a worker in a user's own process that comes back when its lease is judged."""
    return plan.apps > 0 and plan.mode is Mode.BRINK and plan.rules.is_timed


def threaded(plan: Plan) -> bool:
    """Worlds with handlers in threads, whose jobs an operator cancels."""
    return "cancel" in plan.operations and not {*THREADED}.isdisjoint(plan.tasks)


def in_runners(plan: Plan) -> bool:
    """Worlds with handlers in runner processes, whose jobs an operator cancels."""
    return "cancel" in plan.operations and not {*PROCESSES}.isdisjoint(plan.tasks)


def restarting(plan: Plan) -> bool:
    """Worlds in which a healthy core has to start returned jobs."""
    return plan.rules.restart is not None and plan.concurrency > 1


def busy(plan: Plan) -> Plan:
    """A world of long work, whose unlucky workers are killed again and again."""
    return structs.replace(plan, tasks=("silent",), strikes=("kill_worker",), interval=plan.settings.timing.ttl / 4, jobs=40)


def watched(plan: Plan) -> bool:
    """Worlds with a watched table and more than one supervisor."""
    return plan.rows is not None and plan.supervisors > 1 and plan.mode is Mode.SAFETY


def raising(plan: Plan) -> bool:
    """Worlds with a watched table in which a row raises beside others."""
    return plan.rows is not None and plan.rows.rows > len(plan.rows.raising) > 0 and plan.rows.batch > 1 and not plan.backlog


def frozen_beside_rows(plan: Plan) -> Plan:
    """A world of frozen sessions that thaw when other workers have their rows."""
    assert plan.rows is not None
    rows = structs.replace(plan.rows, rows=40, concurrency=3, stale_after=plan.settings.timing.ttl / 2)
    return structs.replace(plan, rows=rows, strikes=("freeze_together", "cut_together"), tasks=HASTE)


def ticking(plan: Plan) -> bool:
    """Worlds with schedules and more than one supervisor."""
    return plan.schedules is not None and plan.supervisors > 1


def laned(plan: Plan) -> bool:
    """Worlds whose jobs have several lanes."""
    return plan.lanes is not None and len(plan.lanes.keys) > 1


def limited(plan: Plan) -> bool:
    """Worlds with a limit of active jobs."""
    limits = () if plan.lanes is None else plan.lanes.limits
    return any(limit.concurrency or limit.per_key for _, limit in limits)


def rated(plan: Plan) -> bool:
    """Worlds with a limit of starts."""
    limits = () if plan.lanes is None else plan.lanes.limits
    return any(limit.rate or limit.rate_per_key for _, limit in limits)


def flowing(plan: Plan) -> bool:
    """Worlds with workflows and any faults."""
    return plan.flows is not None and plan.mode is Mode.SAFETY


def woven(**changes: Any) -> Aim:
    """Worlds with more workflows, an operator who steers them, and few other jobs."""
    many = FlowsPlan(flows=5, most=8, waiting=4, has_operator=True)
    return lambda plan: structs.replace(plan, **{"flows": many, "jobs": 2, "clients": 1, "backlog": 0} | changes)


def late_takes(plan: Plan) -> Plan:
    """A world of workflows in which copies of calls that consume signals arrive late."""
    return woven()(under("take_signal", Fault.LATE, Fault.TWICE)(plan))


def late_joins(plan: Plan) -> Plan:
    """A world of growing workflows in which the calls that add members arrive late."""
    return GROWN(under("enqueue_member", Fault.LATE, strikes=("kill_worker", "cut_worker"))(plan))


def straight(plan: Plan) -> Plan:
    """The world as it was drawn."""
    return plan


def under(focus: str, *faults: Fault, **changes: Any) -> Aim:
    """Worlds in which these faults often meet that verb."""
    rates = dict.fromkeys(faults, 0.06 / len(faults))  # five times as often for calls of the verb in focus
    return lambda plan: structs.replace(plan, mix=structs.replace(plan.mix, rates=rates, focus=focus), **changes)


def bent(**changes: Any) -> Aim:
    """Worlds with these values instead of the drawn ones."""
    return lambda plan: structs.replace(plan, **changes)


def brief(plan: Plan) -> Plan:
    """A world that ends early if a job is stuck."""
    return structs.replace(plan, patience=6 * plan.longest_ttl)


def unlike(plan: Plan) -> Plan:
    """A supervisor with very long beats beside one with short ones, and outages that only the leases of the first survive."""
    short, ttl = plan.settings.timing.ttl, 10 * plan.settings.timing.ttl
    long = structs.replace(plan.settings, timing=LeaseTiming.of(ttl, 0.35 * ttl, ttl / 4), recovery_interval=1.2 * short)
    return structs.replace(
        plan,
        supervisors=2,
        outfits=(Outfit(plan.settings), Outfit(long)),
        strikes=("brief_outage",),
        interval=3 * short,
        chaos=25 * short,
        mix=structs.replace(plan.mix, timeout=short / 2),
        tasks=("silent",),
        jobs=150,
        clients=6,
        concurrency=5,
    )


class Mutant(Struct, frozen=True):
    """One missing guard. ``caught_by``: the property that breaks. ``within``: in how many worlds at most, counted from seed 0 on.

    ``where``: the worlds that are tried, because elsewhere the guard makes no difference. ``aim``: the changes to these worlds,
    which make rare events frequent; without any, ``simulate --seed`` plays the same world. ``prefetches``: workers may
    claim jobs ahead; else none does. ``has_flows``: there may be workflows; else there are none. ``brand``: whose statements
    its store runs.
    """

    name: str
    caught_by: str
    within: int
    kind: type[Book] = Book
    patch: Callable[[], Any] = nullcontext
    where: Where = anywhere
    aim: Aim = straight
    prefetches: bool = False
    has_flows: bool = False
    brand: Brand = Brand.MEMORY

    @property
    def breaks(self) -> str:
        """The effect of the missing guard, in one sentence."""
        text = self.kind.__doc__ if self.patch is nullcontext else self.patch.__doc__
        return (text or "").splitlines()[0]


LED_LONG = bent(chaos=120.0)
LOST_CLAIMS = under("exchange", Fault.ANSWER_LOST)
CUTS = ("cut_together",)
SILENCES = ("cut_supervisor", "freeze_supervisor")
WORK = ("long", "resuming", "steady")
HASTE = ("quick", "raising")
ZOMBIES = bent(strikes=("cut_supervisor", "freeze_supervisor"), tasks=("silent", "long"))
OPENINGS = under("open_lease", Fault.LATE, Fault.TWICE, strikes=("kill_worker",), operations=("prune",))


AGAIN = woven(flows=FlowsPlan(flows=5, most=8, waiting=0), strikes=("cut_worker",))

GROWN = woven(flows=FlowsPlan(flows=4, most=5, waiting=0, growth=GrowthPlan(share=0.8, maps=2, callers=2)))
AWAITED = woven(flows=FlowsPlan(flows=4, most=5, waiting=0, has_operator=True, growth=GrowthPlan(dependents=8)), jobs=8)
HELD_UP = bent(profile=Profile.PLAIN, lease_clock="server")
DELETED = woven(operations=("delete", "purge", "delete"))
PRUNED = woven(operations=("prune",), floor=20.0)
KEYED = bent(keys=3, tasks=HASTE, jobs=40, clients=2, backlog=0, strikes=("step_clock", "kill_worker"))


def booked(plan: Plan) -> Plan:
    """A world of handlers that write users' rows, and are frozen until other workers have their jobs."""
    ttl, many = plan.settings.timing.ttl, bent(supervisors=3, outfits=(), processes=1, concurrency=10, jobs=100, clients=4)
    plan = structs.replace(plan, tasks=("thread_booking",), strikes=("freeze_together",), interval=ttl / 2, chaos=8 * ttl)
    return many(structs.replace(plan, operations=(), backlog=0, has_releases=False))


def many_keys(plan: Plan) -> bool:
    """Worlds with any faults whose keys are held on different terms."""
    return plan.keys > 2 and plan.mode is Mode.SAFETY


def machines(plan: Plan) -> bool:
    """Worlds of several machines and a store with its own clock."""
    return plan.mode is Mode.SAFETY and plan.lease_clock == "server" and plan.supervisors > 1


def ahead(plan: Plan) -> bool:
    """Worlds whose workers claim jobs ahead, and may meet any fault."""
    return plan.ahead > 0 and plan.mode is Mode.SAFETY


def blocked_beside_others(plan: Plan) -> Plan:
    """A world whose event loops are blocked with jobs claimed ahead, and whose starts are slower than a void."""
    return structs.replace(
        plan,
        settings=structs.replace(plan.settings, claimed_within=0.3),
        mix=structs.replace(plan.mix, rates={Fault.SLOW: 0.5}, focus="start_through", timeout=6.0),
        tasks=("blocking", "quick"),
        strikes=("cut_supervisor",),
        outfits=(),
        has_releases=False,
        jobs=60,
        concurrency=1,
        supervisors=2,
        processes=1,
        ahead=10,
    )


def stuck_with_others(plan: Plan) -> Plan:
    """A world whose event loops are blocked for long, with jobs claimed ahead."""
    settings = structs.replace(plan.settings, claimed_within=0.3, max_block=1e9)
    many = bent(settings=settings, outfits=(), has_releases=False, tasks=("stuck", "quick"), jobs=40, concurrency=1, ahead=10)
    return many(plan)


def operated(plan: Plan) -> bool:
    """Worlds with an operator and all its actions."""
    return plan.operations == OPERATIONS


def patient(plan: Plan) -> Plan:
    """A world of long work in which no worker is killed for a blocked event loop."""
    return structs.replace(
        plan,
        settings=structs.replace(plan.settings, max_block=1e9),
        outfits=(),
        strikes=(),
        tasks=("silent",),
        concurrency=10,
        jobs=40,
        patience=6 * plan.settings.timing.ttl,
    )


MUTANTS = (
    # settling
    Mutant("settle by id only", "S4", 50, stores.SettleById),
    Mutant("settle by state only", "S3", 50, stores.SettleByState, where=only(Mode.BRINK), aim=bent(strikes=CUTS)),
    Mutant("settle by worker name", "S3", 100, stores.SettleByWorker, where=only(Mode.BRINK, Mode.FORGETFUL)),
    Mutant("released to the end of the queue", "S25", 50, stores.SettleToTheEnd),
    Mutant("the newest job first", "S25", 50, stores.NewestFirst, where=piled),
    Mutant("claimed in time and started late", "L10", 50, patch=workers.starts_in_turn, where=restarting, aim=busy),
    Mutant("a claim that never started counts", "S9", 50, patch=workers.counting_what_never_ran),
    Mutant("token without the claim id", "S3", 100, stores.SettleByNumber, where=only(Mode.FORGETFUL)),
    Mutant("settle not idempotent", "S10", 50, stores.SettleOnlyOnce),
    Mutant(
        "settle sent again with another outcome",
        "S10",
        50,
        stores.SettleConfirmed,
        where=only(Mode.BRINK),
        aim=bent(strikes=CUTS),
    ),
    Mutant("settle before the code has stopped", "S8", 50, patch=workers.settle_before_stop),
    Mutant("settle before a thread has ended", "S8", 50, patch=workers.threads_left_behind, where=threaded),
    Mutant("settle before a runner has ended", "S8", 50, patch=workers.runners_left_behind, where=in_runners),
    Mutant("result written apart from the state", "S13", 20, stores.ResultApart),
    Mutant("unanswered result is dropped", "L8", 50, patch=workers.dropped_results, where=only(Mode.OUTAGES)),
    Mutant("result during an exchange is dropped", "L8", 50, patch=workers.ended_in_exchange_dropped, where=only(Mode.OUTAGES)),
    Mutant(
        "result of a dead worker is not delivered",
        "L8",
        100,
        patch=supervisors.undelivered_dropped,
        where=only(Mode.OUTAGES),
        aim=bent(tasks=("deaf", "quick"), concurrency=10, jobs=40),
    ),
    Mutant(
        "drain does not wait for results",
        "L8",
        50,
        patch=workers.leaves_undelivered,
        where=only(Mode.OUTAGES),
        aim=bent(strikes=("drain",), tasks=HASTE, interval=1.0, jobs=40),
    ),
    Mutant("progress unfenced", "S3", 200, stores.ReportUnfenced, where=only(Mode.BRINK), aim=bent(strikes=CUTS, tasks=WORK)),
    # leases
    Mutant("beat unfenced", "S3", 50, stores.BeatRevives),
    Mutant("opening unfenced", "S3", 50, stores.OpenRevives, where=only(Mode.SAFETY), aim=OPENINGS),
    Mutant("lease forgotten before its late opening", "S3", 50, keeping.LeaseForgotten, where=only(Mode.SAFETY), aim=OPENINGS),
    Mutant("worker's wall clock sets the expiry", "S8", 50, stores.ExpiryByWallClock, supervisors.wall_clocks, where=machines),
    Mutant(
        "deadline counted from the answer",
        "S8",
        50,
        patch=supervisors.deadline_after_answer,
        where=only(Mode.SAFETY),
        aim=under("beat", Fault.SLOW, strikes=SILENCES, tasks=HASTE, jobs=40),
    ),
    Mutant("no self-stop", "S8", 50, patch=supervisors.no_self_stop, where=only(Mode.SAFETY), aim=bent(strikes=SILENCES)),
    Mutant(
        "no guard",
        "S8",
        50,
        patch=supervisors.no_guard,
        where=only(Mode.SAFETY),
        aim=bent(strikes=SILENCES, tasks=("deaf", "blocking")),
    ),
    Mutant(
        "code in a user's process outlives its deadline",
        "S8",
        50,
        patch=workers.late_code_goes_on,
        where=embedded,
        aim=bent(strikes=(), tasks=("silent",), concurrency=10, jobs=60),
    ),
    Mutant("a lost beat stops a worker", "L3", 50, patch=supervisors.fragile, where=only(Mode.LULLS)),
    Mutant("lease of a dead worker renewed", "L2", 20, patch=supervisors.beats_for_dead_workers, aim=brief),
    Mutant(
        "lease of a stopped worker renewed", "L2", 50, patch=supervisors.frozen_not_seen, where=only(Mode.LIVENESS), aim=patient
    ),
    Mutant(
        "lease of a cut-off worker renewed", "L2", 100, patch=supervisors.cut_off_not_seen, where=only(Mode.LIVENESS), aim=patient
    ),
    Mutant("a zombie gets no notice", "L5", 50, patch=supervisors.no_notice_of_the_end, where=only(Mode.SAFETY), aim=ZOMBIES),
    Mutant("a late beat is confirmed", "L5", 50, stores.BeatOfTheEnded, where=only(Mode.SAFETY), aim=ZOMBIES),
    # rescues
    Mutant("rescue without re-judging", "S5", 50, stores.EndWithoutJudging, where=only(Mode.BRINK)),
    Mutant(
        "rescue by id only",
        "S5",
        50,
        stores.RescueById,
        where=only(Mode.BRINK),
        aim=under("exchange", Fault.LATE, Fault.TWICE, tasks=("crashing", "poison")),
    ),
    Mutant("rescue by start age", "S5", 20, patch=supervisors.rescue_by_age),
    Mutant("rescue of a process that is not seen here", "S5", 20, patch=supervisors.unseen_is_dead),
    Mutant(
        "rescue with the rescuer's reason",
        "S9",
        50,
        patch=supervisors.own_reason,
        where=only(Mode.BRINK),
        aim=bent(strikes=("freeze_together",), tasks=("blocking", "deaf", "long"), jobs=40),
    ),
    Mutant("lease not ended before its claims move", "S5", 20, stores.MoveBeforeEnd),
    Mutant("no recovery of expired leases", "L2", 20, patch=supervisors.no_recovery, aim=brief),
    Mutant(
        "a dead worker's jobs wait for its ttl",
        "L1",
        50,
        patch=supervisors.no_recovery_after_exit,
        where=only(Mode.LIVENESS),
        aim=bent(tasks=("crashing", "poison")),
    ),
    Mutant("amnesty by the timing of the judge", "L8", 60, patch=supervisors.own_amnesty, where=only(Mode.OUTAGES), aim=unlike),
    Mutant("amnesty missing", "L8", 50, patch=supervisors.no_amnesty, where=only(Mode.OUTAGES)),
    Mutant(
        "a job is judged at the first sight of its free row",
        "L8",
        50,
        patch=supervisors.judged_at_first_sight,
        where=only(Mode.LULLS),
        aim=bent(locks=120, supervisors=3, processes=1, tasks=("steady",), strikes=("lull",)),
    ),
    Mutant(
        "a locked row counts as a lost contact",
        "L1",
        50,
        patch=supervisors.locks_are_lost_contact,
        where=lockable,
        aim=bent(locks=60, supervisors=6, processes=2, strikes=CUTS, tasks=("silent", "long"), jobs=60),
    ),
    Mutant("service ends with its first failure", "L2", 20, patch=workers.fails_once, aim=brief),
    Mutant(
        "a blocked event loop is killed early",
        "L3",
        50,
        patch=supervisors.impatient,
        where=only(Mode.LIVENESS),
        aim=bent(tasks=("blocking",), operations=()),
    ),
    Mutant("expired jobs wait indefinitely", "L2", 50, patch=supervisors.no_expiry, where=lambda plan: plan.expires, aim=brief),
    # charges
    Mutant("crash not counted", "S9", 20, stores.CrashNotCounted),
    Mutant("start not counted", "S9", 20, stores.StartNotCounted),
    Mutant("failure not counted", "S9", 20, patch=workers.failures_free),
    Mutant("failures without end", "S9", 50, patch=workers.failures_without_end, aim=bent(tasks=("raising", "stalling"))),
    Mutant(
        "crashes without end", "S9", 50, patch=workers.crashes_without_end, where=only(Mode.CROWD), aim=bent(tasks=("crashing",))
    ),
    Mutant("siblings charged for a culprit", "S9", 20, patch=supervisors.siblings_charged),
    Mutant(
        "death at the deadline charged",
        "L8",
        50,
        patch=supervisors.late_death_charged,
        where=only(Mode.DRAINS),
        aim=bent(strikes=("outage",), tasks=("deaf", "long")),
    ),
    Mutant("drain costs an attempt", "L7", 20, patch=workers.drain_costs),
    Mutant(
        "drain explains nothing",
        "L7",
        50,
        patch=supervisors.drain_unexplained,
        where=only(Mode.SAFETY),
        aim=bent(strikes=("drain", "drain", "kill_together"), tasks=("deaf", "silent", "long")),
    ),
    Mutant("interrupted code runs again", "S9", 50, patch=workers.interrupted_runs_again),
    Mutant("isolated attempt beside others", "S9", 50, stores.IsolatedBesideOthers),
    Mutant(
        "two isolated attempts in one worker",
        "S9",
        50,
        stores.IsolatedWithTwo,
        where=only(Mode.SAFETY),
        aim=under("exchange", Fault.TWICE, tasks=("poison", "crashing"), jobs=40),
    ),
    Mutant("no worker for isolated attempts", "L2", 20, patch=supervisors.no_isolation, aim=brief),
    Mutant("other supervisors judge as early as the owner", "S9", 50, stores.LimitJudgedEarly),
    Mutant("limit judged early by the owner", "S9", 50, patch=supervisors.hasty_owner),
    Mutant(
        "a job is judged before its worker's reports arrive",
        "S9",
        100,
        patch=supervisors.judged_before_reports_arrive,
        aim=bent(tasks=("process_creeping", "blocking"), jobs=60, concurrency=6, strikes=()),
    ),
    Mutant(
        "stalled while the store is silent",
        "L8",
        50,
        patch=supervisors.progress_clock_not_paused,
        where=only(Mode.OUTAGES),
        aim=bent(tasks=("steady",)),
    ),
    Mutant(
        "a paused progress clock is not reported",
        "S8",
        50,
        patch=supervisors.paused_clocks_not_reported,
        where=only(Mode.SAFETY),
        aim=bent(tasks=("stuck", "creeping", "steady", "numb"), concurrency=10),
    ),
    # claims
    Mutant("claim not atomic", "S1", 20, stores.ClaimFromStaleRead),
    Mutant(
        "claim for a lease that has run out",
        "S8",
        50,
        stores.ClaimForDeadLease,
        where=only(Mode.SAFETY),
        aim=under("exchange", Fault.LATE, strikes=("kill_worker",), tasks=HASTE, jobs=40),
    ),
    Mutant(
        "claim started past the deadline",
        "S8",
        50,
        patch=workers.late_starts,
        where=only(Mode.SAFETY),
        aim=under("exchange", Fault.SLOW, strikes=SILENCES, tasks=HASTE, jobs=40),
    ),
    Mutant(
        "claim started beside its last attempt",
        "S8",
        50,
        patch=workers.second_attempt_beside_first,
        where=only(Mode.FORGETFUL),
        aim=bent(tasks=("deaf", "long"), concurrency=3),
    ),
    Mutant("claims of one worker under one id", "S10", 50, patch=workers.one_claim_id, where=only(Mode.FORGETFUL)),
    Mutant(
        "audit after a lost claim answer missing",
        "L2",
        50,
        patch=workers.no_audit,
        where=only(Mode.SAFETY),
        aim=under("exchange", Fault.ANSWER_LOST, strikes=("cut_worker",), tasks=HASTE),
    ),
    Mutant("audit returns jobs of others", "S8", 20, stores.HeldWithoutLease),
    Mutant(
        "claim of an unknown task",
        "S16",
        50,
        stores.StrangersTaken,
        where=only(Mode.CROWD),
        aim=bent(has_strangers=True, jobs=4, chaos=5.0, patience=5.0),
    ),
    Mutant("delay ignored by the claim", "S1", 20, stores.DelayIgnored),
    Mutant(
        "expiry ignored by the claim",
        "S1",
        50,
        stores.ExpiryIgnored,
        where=lambda plan: plan.expires,
        aim=bent(tasks=("long", "silent"), concurrency=1, jobs=40),
    ),
    Mutant("paused queue claimed", "S1", 50, stores.PauseIgnored, where=operated),
    Mutant("claim by ids ignores their state", "S1", 50, stores.IdsTakenUnseen, where=queued),
    Mutant(
        "a claim reads only the first jobs",
        "L4",
        50,
        stores.FirstJobsOnly,
        where=only(Mode.CROWD),
        aim=bent(has_strangers=True, tasks=("quick", "long"), jobs=16, chaos=20.0),
    ),
    Mutant("hint as the only wake-up", "L6", 50, patch=workers.no_polling, where=only(Mode.CROWD)),
    Mutant("a worker with deliveries looks for no other jobs", "L2", 50, patch=workers.only_deliveries, where=queued, aim=brief),
    Mutant("no backing off", "L9", 100, patch=workers.no_backing_off),
    # enqueuing, keys, operators, retention
    Mutant("enqueue without a receipt", "S2", 50, keeping.EnqueueWithoutReceipt),
    Mutant(
        "enqueue with a receipt for each copy",
        "S7",
        50,
        patch=workers.call_per_copy,
        where=only(Mode.SAFETY),
        aim=under("enqueue", Fault.ANSWER_LOST, keys=3),
    ),
    Mutant(
        "enqueue whose receipt is forgotten at once",
        "S10",
        50,
        keeping.ReceiptForgotten,
        where=only(Mode.SAFETY),
        aim=under(
            "enqueue",
            Fault.TWICE,
            operations=("prune", "purge", "purge", "delete"),
            strikes=("kill_worker",),
            tasks=("silent",),
            jobs=40,
        ),
    ),
    Mutant("enqueue acknowledged before it is whole", "S6", 20, keeping.EnqueueLosesLast),
    Mutant("batch written in parts", "S7", 20, keeping.EnqueueInParts),
    Mutant(
        "child enqueue outside the settle",
        "S7",
        50,
        keeping.ChildUnfenced,
        where=only(Mode.BRINK),
        aim=bent(strikes=CUTS, tasks=("parent", "parting")),
    ),
    Mutant("key not freed", "S11", 50, keeping.KeyNotFreed, where=lambda plan: plan.keys > 0),
    Mutant("period of a key ignored", "S11", 50, keeping.PeriodIgnored, where=lambda plan: plan.keys > 1),
    Mutant("key freed before the claim", "S11", 50, keeping.KeyFreedBeforeClaim, where=lambda plan: plan.keys > 2),
    Mutant(
        "period of a key ignored by a statement",
        "S11",
        20,
        patch=statements.period_ignored,
        where=many_keys,
        aim=KEYED,
        brand=Brand.SQLITE,
    ),
    Mutant(
        "key freed by a statement before the claim",
        "S11",
        20,
        patch=statements.key_freed_before_claim,
        where=many_keys,
        aim=KEYED,
        brand=Brand.SQLITE,
    ),
    Mutant("key freed by the claim", "S11", 50, keeping.KeyFreedByClaim, where=lambda plan: plan.keys > 0),
    Mutant("key looked up before the write", "S11", 50, keeping.KeyLookedUpEarlier, where=lambda plan: plan.keys > 0),
    Mutant(
        "reopen ignores a taken key",
        "S11",
        50,
        keeping.ReopenIgnoresKey,
        where=only(Mode.SAFETY),
        aim=bent(operations=("retry",), keys=1),
    ),
    Mutant("claim number reset by an operator's retry", "S2", 50, keeping.ReopenResetsNumber, where=operated),
    Mutant("retry takes a running job", "S8", 50, keeping.ReopenOwned, where=operated),
    Mutant(
        "retry forgets the last answer",
        "S10",
        50,
        keeping.ReopenForgets,
        where=only(Mode.SAFETY),
        aim=under("exchange", Fault.ANSWER_LOST, operations=("retry",), tasks=HASTE),
    ),
    Mutant("reschedule wakes a finished job", "S4", 50, keeping.RescheduleFinished, where=operated),
    Mutant("cancel that misses a moving job", "S10", 50, keeping.CancelMissesMoving, where=operated),
    Mutant("cancel changes a finished job", "S4", 50, keeping.CancelFinished, where=operated),
    Mutant("cancel does not wait for the code", "S8", 50, keeping.CancelAtOnce, where=operated),
    Mutant("cancel forgotten by the move", "S10", 50, patch=workers.cancellation_ignored, where=operated),
    Mutant("delete of a running job", "S6", 50, keeping.DeleteOwned, where=operated),
    Mutant("failed as expired too early", "S6", 50, keeping.ExpireEarly, where=lambda plan: plan.expires),
    Mutant("pruned before the floor", "S6", 20, keeping.PruneEarly),
    # jobs claimed ahead
    Mutant(
        "started without voids",
        "S1",
        300,
        stores.StartWithoutVoids,
        where=ahead,
        aim=blocked_beside_others,
        prefetches=True,
    ),
    Mutant(
        "started during a lost claim",
        "S26",
        400,
        patch=workers.starts_during_a_lost_claim,
        where=ahead,
        aim=under("exchange", Fault.ANSWER_LOST, tasks=("quick", "long"), jobs=60),
        prefetches=True,
    ),
    Mutant(
        "a blocked worker keeps what it claimed",
        "L16",
        50,
        patch=supervisors.no_voids,
        where=only(Mode.LIVENESS),
        aim=stuck_with_others,
        prefetches=True,
    ),
    # hooks
    Mutant("rescue without its hook", "S7", 20, keeping.RescueWithoutHook, where=hooked),
    Mutant("hook ended before its rows", "S7", 20, keeping.HookEndsFirst, where=hooked),
    Mutant(
        "hook commits without a fence",
        "S3",
        50,
        keeping.HookUnfenced,
        where=hooked,
        aim=under("transaction", Fault.LATE, tasks=("crashing", "silent"), jobs=40),
    ),
    Mutant(
        "hook forgotten with its job",
        "S7",
        50,
        patch=workers.prune_owed_hooks,
        where=hooked,
        aim=bent(tasks=("silent", "raising"), strikes=("kill_worker",), operations=("prune", "cancel")),
    ),
    Mutant("no hook before the next attempt", "S7", 20, patch=workers.no_hook, where=hooked),
    Mutant("no hook for ended jobs", "L2", 50, patch=workers.no_hook_of_ended_jobs, where=hooked, aim=brief),
    # blocks on handlers' own connections
    Mutant(
        "own rows commit unchecked",
        "S3",
        40,
        patch=statements.block_unchecked,
        where=only(Mode.BRINK),
        aim=booked,
        brand=Brand.SQLITE,
    ),
    Mutant(
        "own rows checked in another transaction",
        "S3",
        120,
        patch=statements.block_checked_beside,
        where=only(Mode.BRINK),
        aim=booked,
        brand=Brand.SQLITE,
    ),
    # watched tables
    Mutant("a move without the fence", "S3", 50, patch=rows.moves_without_the_fence, where=watched, aim=frozen_beside_rows),
    Mutant("errors do not shrink batches", "L4", 50, patch=rows.errors_do_not_shrink_batches, where=raising, aim=brief),
    # schedules
    Mutant("tick keyed by worker", "S14", 50, schedules.AdvanceUncompared, schedules.ticks_keyed_by_worker, where=ticking),
    Mutant("next tick from now", "S14", 50, patch=schedules.next_tick_from_now, where=ticking),
    Mutant("tick and job in two writes", "S14", 50, patch=schedules.tick_and_job_apart, where=ticking),
    Mutant(
        "a supervisor sleeps until the tick it knows", "L15", 50, patch=schedules.sleeps_until_the_tick_it_knows, where=ticking
    ),
    # lanes and limits
    Mutant("limit read before the claim", "S12", 50, lanes.CountedEarlier, where=limited),
    Mutant("slot counter instead of rows", "L14", 50, lanes.SlotCounter, where=limited),
    Mutant("dead not counted", "S12", 50, lanes.DeadNotCounted, where=limited),
    Mutant("limited jobs taken by a plain claim", "S12", 50, lanes.LimitedTakenByPlain, where=limited),
    Mutant("seats numbered before full lanes are left out", "L14", 50, lanes.SeatsBeforeFullLanes, where=limited),
    Mutant("rate refunded on release", "S24", 50, lanes.RateRefunded, where=rated),
    Mutant("cursor forgotten", "L13", 50, patch=lanes.cursor_forgotten, where=laned),
    Mutant("turn counted per claim", "L13", 50, lanes.TurnsPerClaim, where=laned),
    Mutant("ring that never goes round", "L14", 50, lanes.RingWithoutReturn, where=laned),
    Mutant("limited lanes are never asked for", "L13", 50, patch=lanes.limited_lanes_forgotten, where=limited),
    Mutant("a job that snoozes keeps its position", "S25", 50, patch=lanes.snoozes_keep_their_position),
    # workflows
    Mutant("dependents released in a second write", "S19", 50, flows.ReleasedLater, where=flowing, aim=woven(), has_flows=True),
    Mutant("counters lowered by a settle sent again", "S19", 200, flows.LoweredAgain, where=flowing, aim=AGAIN, has_flows=True),
    Mutant("release ignores the pause", "S20", 50, patch=flows.release_ignores_pause, where=flowing, aim=woven(), has_flows=True),
    Mutant("a pause moves nothing", "S20", 50, patch=flows.pause_moves_nothing, where=flowing, aim=woven(), has_flows=True),
    Mutant("expire past the flow", "S19", 200, flows.ExpirePastTheFlow, where=flowing, aim=woven(), has_flows=True),
    Mutant("cancel past the flow", "S19", 50, flows.CancelPastTheFlow, where=flowing, aim=woven(), has_flows=True),
    Mutant("delete past the flow", "S27", 50, flows.DeletePastTheFlow, where=flowing, aim=DELETED, has_flows=True),
    Mutant("reopen without dependents", "S18", 50, flows.ReopenWithoutDependents, where=flowing, aim=woven(), has_flows=True),
    Mutant(
        "members forgotten before their root", "S27", 100, flows.MembersForgottenFirst, where=flowing, aim=PRUNED, has_flows=True
    ),
    Mutant("members left behind by their root", "S27", 100, flows.MembersLeftBehind, where=flowing, aim=PRUNED, has_flows=True),
    Mutant(
        "a root ends before its members", "S18", 50, patch=flows.gates_decide_early, where=flowing, aim=woven(), has_flows=True
    ),
    Mutant(
        "a failed parent counts as a success",
        "S18",
        50,
        patch=flows.failures_count_as_successes,
        where=flowing,
        aim=woven(),
        has_flows=True,
    ),
    Mutant("a join of some waits for all", "S19", 50, patch=flows.any_waits_for_all, where=flowing, aim=woven(), has_flows=True),
    Mutant(
        "parents that end together lower once",
        "S19",
        200,
        patch=flows.siblings_in_one_write_lower_once,
        where=flowing,
        aim=woven(),
        has_flows=True,
    ),
    Mutant(
        "a cancelled workflow starts what is available",
        "S20",
        50,
        patch=flows.cancel_leaves_the_available,
        where=flowing,
        aim=woven(),
        has_flows=True,
    ),
    Mutant("a move misses the deadline", "S20", 200, flows.DeadlinesUnseen, where=flowing, aim=woven(), has_flows=True),
    Mutant(
        "resume passes nothing on", "S19", 100, patch=flows.resume_passes_nothing_on, where=flowing, aim=woven(), has_flows=True
    ),
    Mutant(
        "a held failure is counted", "S19", 100, patch=flows.repairs_of_paused_flows, where=flowing, aim=woven(), has_flows=True
    ),
    Mutant("resume leaves the held", "L12", 50, patch=flows.resume_leaves_the_held, where=flowing, aim=woven(), has_flows=True),
    Mutant("damage is never repaired", "L17", 100, patch=flows.no_repairs, where=flowing, aim=woven(), has_flows=True),
    Mutant("results of earlier attempts", "S21", 200, flows.OldOutputs, where=flowing, aim=woven(), has_flows=True),
    Mutant("results are read once", "S21", 200, patch=flows.inputs_read_once, where=flowing, aim=woven(), has_flows=True),
    # steps and signals
    Mutant("step by position", "S22", 100, patch=flows.steps_by_position, where=flowing, aim=woven(), has_flows=True),
    Mutant("step by name only", "S22", 50, patch=flows.steps_by_name_only, where=flowing, aim=woven(), has_flows=True),
    Mutant("step written without a token", "S22", 200, flows.StepWithoutToken, where=flowing, aim=woven(), has_flows=True),
    Mutant("step written again", "S22", 100, flows.StepWrittenAgain, where=flowing, aim=woven(), has_flows=True),
    Mutant(
        "timeout of a wait not recorded", "S22", 50, patch=flows.timeouts_not_recorded, where=flowing, aim=woven(), has_flows=True
    ),
    Mutant("signal without the lock of the row", "S23", 200, flows.SignalWithoutLock, where=flowing, aim=woven(), has_flows=True),
    Mutant("signal kept after its use", "S23", 50, flows.SignalKeptAfterUse, where=flowing, aim=woven(), has_flows=True),
    Mutant("signal for each copy", "S23", 100, flows.SignalPerCopy, where=flowing, aim=woven(), has_flows=True),
    Mutant(
        "signal consumed without a token", "S23", 800, flows.SignalWithoutToken, where=flowing, aim=late_takes, has_flows=True
    ),
    Mutant("signal that wakes no job", "S23", 50, flows.WakesNoJob, where=flowing, aim=woven(), has_flows=True),
    # workflows that grow, and jobs that wait for existing ones
    Mutant(
        "child of a member not added to its root's counters",
        *("S19", 50),
        patch=growth.children_raise_no_counters,
        where=flowing,
        aim=GROWN,
        has_flows=True,
    ),
    Mutant(
        "child that its root does not wait for",
        "S18",
        50,
        patch=growth.roots_wait_for_no_children,
        where=flowing,
        aim=GROWN,
        has_flows=True,
    ),
    Mutant("children of a lost token", "S7", 200, growth.ChildrenOfLostTokens, where=flowing, aim=late_joins, has_flows=True),
    Mutant(
        "replayed gather adds its children again",
        "S22",
        50,
        patch=growth.gathers_are_not_remembered,
        where=flowing,
        aim=GROWN,
        has_flows=True,
    ),
    Mutant("empty map that never ends", "S19", 50, patch=growth.empty_maps_never_end, where=flowing, aim=GROWN, has_flows=True),
    Mutant("results of a map out of order", "S21", 50, growth.ItemsOutOfOrder, where=flowing, aim=GROWN, has_flows=True),
    Mutant(
        "parent released by its first child",
        "S18",
        50,
        patch=growth.first_child_releases,
        where=flowing,
        aim=GROWN,
        has_flows=True,
    ),
    Mutant(
        "dependent of another flow never released",
        "S19",
        50,
        patch=growth.ends_reach_no_other_flow,
        where=flowing,
        aim=AWAITED,
        has_flows=True,
    ),
    Mutant(
        "dependent of another flow released in a second write",
        "S19",
        50,
        patch=growth.dependents_released_later,
        where=flowing,
        aim=AWAITED,
        has_flows=True,
    ),
    Mutant(
        "cancel keeps failures that a pause held up",
        "S19",
        200,
        patch=growth.cancels_keep_failures,
        where=flowing,
        aim=lambda plan: HELD_UP(AWAITED(plan)),
        has_flows=True,
    ),
    # stores in a bucket
    Mutant("batch written again without a look for its nonce", "S10", 50, patch=buckets.nonces_ignored, where=in_bucket),
    Mutant("refused condition taken for a lost race", "S10", 50, patch=buckets.conditions_believed, where=in_bucket),
    Mutant("commit of another taken for one's own", "S6", 20, patch=buckets.commits_without_nonce, where=in_bucket),
    Mutant("answered before it is in the bucket", "S6", 20, patch=buckets.answered_before_written, where=in_bucket),
    Mutant("empty answer without a read", "L2", 20, patch=buckets.empty_answers_from_memory, where=in_bucket),
    Mutant("write that did not land is kept", "S1", 20, patch=buckets.nothing_undone, where=in_bucket, aim=brief),
    Mutant("deletions left out of a run that is not the oldest", "L2", 50, patch=buckets.deletions_dropped, where=in_bucket),
    Mutant("wall clock that is not corrected", "S6", 20, patch=buckets.walls_uncorrected, where=in_bucket),
    # brokers on a bucket
    Mutant("deposed leader that answers from memory", "S3", 20, patch=brokers.reigns_without_end, where=led, aim=led_idly),
    Mutant("leader deposed at once", "S3", 20, patch=brokers.leaders_deposed_at_once, where=led),
    Mutant(
        "registered again after a lost race", "S3", 50, patch=brokers.registered_again_after_a_lost_race, where=led, aim=LED_LONG
    ),
    Mutant("sent away after the write", "S10", 50, patch=brokers.misdirected_after_the_write, where=led, aim=LED_LONG),
    Mutant("claim sent again", "S10", 50, patch=brokers.every_call_repeated, where=led, aim=LOST_CLAIMS),
)
