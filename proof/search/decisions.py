"""The faults and operations of a world, as data: drawn from a seed, or given one by one, as a script.

Each decision contains all that it needs, so that one can be left out and the others keep their meaning.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct

from proof.simulator.call_outcomes import Fault, Luck


class Birth(Struct, frozen=True, tag=True):
    """The enqueuing of one job by a client. ``time``: when it happened, for the report only."""

    client: int
    job: int
    task: str = ""
    time: float = 0.0


class Mishap(Struct, frozen=True, tag=True):
    """A fault of the ``nth`` call of a verb by a process, counted from 1. An empty verb: the calls of all verbs are counted.

    ``luck``: how long the call takes; ``None``: as the process draws at that call.
    ``time``: when it happened, for the report only. If ``nth`` is 0, the fault meets the first such call from about that time on.
    """

    process: str
    verb: str
    nth: int
    fault: Fault
    luck: Luck | None = None
    time: float = 0.0


class Strike(Struct, frozen=True, tag=True):
    """A fault around processes, at a time in seconds since the start.

    ``slot``: the slot whose processes it hits. ``pick``: which of the processes that live then, from 0 to 1.
    ``is_refusing``: a process that is cut off gets its error at once, and a row is locked FOR UPDATE.
    ``is_for_ever``: that slot never comes back. ``whom``: the process that was hit, for the report only.
    """

    time: float
    name: str
    slot: int = 0
    pick: float = 0.0
    seconds: float = 0.0
    is_refusing: bool = False
    is_for_ever: bool = False
    whom: str = ""


class Operation(Struct, frozen=True, tag=True):
    """One action of an operator. ``pick``: on which of the jobs that exist then, from 0 to 1."""

    time: float
    name: str
    pick: float
    queue: str
    delay: float


Decision = Birth | Mishap | Strike | Operation
Births = dict[tuple[int, int], str]
ABOUT = 0.05  # seconds
ROLLED_BACK = 0.7
"""The share of the times without a majority that end with another primary, which never received their writes."""


class Lookup:
    """The fate of each call of one process, by a script."""

    def __init__(self, script: Iterable[Decision], process: str, now: Callable[[], float]) -> None:
        self._at: dict[tuple[str, int], Mishap] = {}
        self._from: list[Mishap] = []
        self._now = now
        for each in script:
            if isinstance(each, Mishap) and each.process == process:
                if each.nth:
                    self._at[each.verb, each.nth] = each
                else:
                    self._from.append(each)

    def __call__(self, verb: str, nth: int, call: int) -> tuple[Fault, Luck | None]:
        """Return the fault of the ``nth`` call of this verb. ``call``: its number among the calls of all verbs."""
        for each in self._from:
            if each.verb == verb and each.time - ABOUT <= self._now():
                self._from.remove(each)
                return each.fault, each.luck
        found = self._at.get((verb, nth)) or self._at.get(("", call))
        return (Fault.NONE, None) if found is None else (found.fault, found.luck)


def births_of(script: Iterable[Decision] | None) -> Births | None:
    """Return the task of each job that the clients of a script enqueue, by client and job."""
    if script is None:
        return None
    return {(each.client, each.job): each.task for each in script if isinstance(each, Birth)}


FATES = {
    Fault.NONE: "goes well",
    Fault.BEFORE: "fails, and nothing was applied",
    Fault.ANSWER_LOST: "is applied, and its answer gets lost",
    Fault.LATE: "fails, and is applied afterwards",
    Fault.TWICE: "is applied, and later once more",
    Fault.SLOW: "is slow there and back",
    Fault.IN_FLIGHT: "is slow to arrive, and arrives even if its sender dies",
    Fault.CRASH_BEFORE: "is not applied: its sender dies first",
    Fault.CRASH_AFTER: "is applied, and its sender dies before the answer",
    Fault.WRONG_BEFORE: "fails with an error that no store promises, and nothing was applied",
    Fault.WRONG_AFTER: "fails with an error that no store promises, and was applied",
}
DESCRIPTIONS = {
    "outage": "the store is unreachable for all processes",
    "brief_outage": "the store is unreachable for all processes for {seconds:.2f} s",
    "stand_still": "the store stands still for {seconds:.2f} s and then does all that was sent",
    "step_clock": "the store's clock steps by {seconds:+.2f} s",
    "step_machine": "machine {whom}: its clock steps by {seconds:+.2f} s",
    "fail_over": "the store fails over and forgets its newest writes",
    "lose_quorum": "the store's primary has no majority for {seconds:.2f} s, then {fate}",
    "freeze_writer": "{whom}: frozen in the middle of a write for {seconds:.2f} s",
    "deploy": "{whom}: asked to end, and followed by the other release",
    "lock_row": "a foreign session locks {whom} for {seconds:.2f} s",
    "lock_file": "a foreign session locks {whom} against writers for {seconds:.2f} s",
    "lose_power": "machine {whom} loses its power",
}
VERBS = {
    "kill": "killed",
    "freeze": "frozen",
    "cut": "cut off from the store",
    "lull": "cut off from the store",
    "drain": "asked to end",
}


def describe(decision: Decision) -> str:
    """Return one line that describes the decision to a reader of the report."""
    return f"{decision.time:8.2f} s  {_describe(decision)}"


def _describe(decision: Decision) -> str:
    match decision:
        case Birth(client, job, task):
            return f"client {client} enqueues its job {job} ({task})"
        case Mishap(process, verb, nth, fault):
            return f"{process}: its {verb or 'call'} number {nth} {FATES[fault]}"
        case Operation(_, name, _, queue):
            return f"an operator does: {name}" + (f" {queue}" if name in ("pause", "resume", "purge") else "")
        case Strike():
            return _describe_strike(decision)


def _describe_strike(strike: Strike) -> str:
    verb = "" if strike.name in ("freeze_writer", "lose_quorum", "lock_row", "lock_file") else strike.name.partition("_")[0]
    whom = " and ".join(strike.whom.rsplit(", ", 1)) or "nobody"
    fate = "all its writes in that time are undone" if strike.pick < ROLLED_BACK else "all its writes in that time count"
    what = DESCRIPTIONS.get(strike.name) or f"{{whom}}: {VERBS[verb]}"
    for_long = " for good" if strike.is_for_ever else f" for {strike.seconds:.2f} s"
    has_length = verb in ("freeze", "cut", "lull", "outage")
    at_once = ", and refused at once" if strike.is_refusing and verb in ("cut", "lull", "outage") else ""
    return what.format(whom=whom, seconds=strike.seconds, fate=fate) + (for_long if has_length else "") + at_once
