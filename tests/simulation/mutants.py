"""Protocols with one guard taken out. The simulation must notice each of them: tests of the tests."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from msgspec import Struct

from holdfast.stores.memory import MemoryStore
from holdfast.testing.hooks import HookedStore
from tests.simulation import broken_engines as engines
from tests.simulation import broken_stores as stores


class Mutant(Struct, frozen=True):
    """``caught_by``: the property that breaks; ``seed``: one that is known to show it; ``within``: so many from there on must.

    ``has_hooks``: in worlds whose tasks have an ``on_rescue``; ``has_queue``: in which a queue delivers the jobs.
    """

    name: str
    caught_by: str
    seed: int
    within: int
    kind: type[MemoryStore] = MemoryStore
    patch: Callable[[], Any] = nullcontext
    has_hooks: bool = False
    has_queue: bool = False


MUTANTS = (
    Mutant("settle by id only", "S3", 51, 100, stores.SettleById),
    Mutant("settle by worker", "S3", 140, 600, stores.SettleByWorker),
    Mutant("settle by claim number, which a fail-over gives twice", "S3", 220, 600, stores.SettleByNumber),
    Mutant("settle sent again is told that it is lost", "S10", 4, 20, stores.SettleOnlyOnce),
    Mutant("settle before the code has stopped", "S8", 3, 100, patch=engines.settle_before_stop),
    Mutant("progress unfenced", "S3", 19, 100, stores.ReportUnfenced),
    Mutant("late beat revives an ended lease", "S3", 8, 100, stores.BeatRevives),
    Mutant("late opening revives an ended lease", "S3", 7, 100, stores.OpenRevives),
    Mutant("lease ended without judging it again", "S5", 196, 600, stores.EndWithoutJudging),
    Mutant("claims moved before their lease ends", "S5", 0, 20, stores.MoveBeforeEnd),
    Mutant("rescue by id only", "S5", 26, 100, stores.RescueById),
    Mutant("crash not counted", "S9", 1, 20, stores.CrashNotCounted),
    Mutant("siblings charged for a culprit", "S9", 0, 20, patch=engines.siblings_pay),
    Mutant("nobody looks for expired leases", "L2", 3, 20, patch=engines.no_recovery),
    Mutant("claim not atomic", "S1", 2, 20, stores.ClaimFromStaleRead),
    Mutant("claim for a lease that has run out", "S8", 34, 100, stores.ClaimForDeadLease),
    Mutant("claim number reset by an operator's retry", "S2", 3, 100, stores.ReopenResetsNumber),
    Mutant("cancel changes what has finished", "S4", 3, 100, stores.CancelFinished),
    Mutant("enqueue without a receipt", "S2", 7, 100, stores.EnqueueWithoutReceipt),
    Mutant("enqueue acknowledged before it is whole", "S6", 0, 20, stores.EnqueueLosesLast),
    Mutant("no self-stop", "S8", 11, 100, patch=engines.no_self_stop),
    Mutant("no guard", "S8", 11, 100, patch=engines.no_guard),
    Mutant("a dead worker's jobs wait for its ttl", "L1", 11, 100, patch=engines.no_burial),
    Mutant("a blocked event loop is killed early", "L3", 250, 1000, patch=engines.impatient),
    Mutant("batch written in parts", "S7", 0, 20, stores.EnqueueInParts),
    Mutant("child of a former owner", "S7", 171, 600, stores.ChildUnfenced),
    Mutant("key not freed", "S11", 2, 100, stores.KeyNotFreed),
    Mutant("key looked up before the write", "S11", 2, 100, stores.KeyLookedUpEarlier),
    Mutant("reopen ignores a taken key", "S11", 94, 600, stores.ReopenIgnoresKey),
    Mutant("limit judged by others as early as by the owner", "S9", 12, 100, stores.LimitJudgedEarly),
    Mutant("limit judged early by the owner", "S9", 8, 100, patch=engines.hasty_owner),
    Mutant("stalled while the store is silent", "L8", 310, 1000, patch=engines.no_standing),
    Mutant("the owner's clock stood, and nobody was told", "S8", 11, 1000, patch=engines.no_word_for_others),
    Mutant("last try beside others", "S9", 4, 20, stores.LastTryBesideOthers),
    Mutant("expiry ignored by the claim", "S1", 5, 100, stores.ExpiryIgnored),
    Mutant("failed as expired too early", "S6", 0, 20, stores.ExpireEarly),
    Mutant("paused queue claimed", "S1", 3, 100, stores.PauseIgnored),
    Mutant("pruned before the floor", "S6", 1, 20, stores.PruneEarly),
    Mutant("result written apart from the state", "S13", 0, 20, stores.ResultApart),
    Mutant("only the first in line are looked at", "L4", 15, 100, stores.FirstInLineOnly),
    Mutant("hints are the only wake-up", "L6", 2, 200, patch=engines.no_polling),
    Mutant("a drain costs an attempt", "L7", 0, 20, patch=engines.drain_costs),
    Mutant("a zombie is not told", "L5", 51, 200, patch=engines.no_word_of_the_end),
    Mutant("a lost beat stops a worker", "L3", 145, 600, patch=engines.fragile),
    Mutant("a result that was not answered is dropped", "L8", 10, 100, patch=engines.dropped_results),
    Mutant("no backing off", "L9", 1, 20, patch=engines.no_backing_off),
    Mutant("no audit after an unknown claim", "L2", 7, 100, patch=engines.no_audit),
    Mutant("no amnesty after an outage", "L8", 58, 100, patch=engines.no_amnesty),
    Mutant("a rescue owes no hook", "S7", 0, 20, stores.RescueOwesNothing, has_hooks=True),
    Mutant("a hook's mark goes before its rows", "S7", 0, 20, stores.MarkGoesFirst, has_hooks=True),
    Mutant("a hook commits whoever has its job", "S3", 73, 300, stores.HealUnfenced, has_hooks=True),
    Mutant("a job that owes a hook is pruned like others", "S7", 65, 600, HookedStore, engines.prune_the_owed, has_hooks=True),
    Mutant("no hook before the next attempt", "S7", 0, 20, HookedStore, engines.no_hook, has_hooks=True),
    Mutant("no hook for what has ended", "L2", 0, 20, HookedStore, engines.no_hook_alone, has_hooks=True),
    Mutant("whoever is delivered jobs looks for no others", "L2", 0, 100, patch=engines.only_deliveries, has_queue=True),
    Mutant("a claim by ids takes them whatever their state", "S1", 3, 100, stores.IdsTakenUnseen, has_queue=True),
)
