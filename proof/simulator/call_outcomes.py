"""The outcome of each call of a process, and how long it takes: drawn, or looked up in a script."""

import random
from asyncio import CancelledError
from collections import defaultdict
from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

ODD = "the driver says something odd"
ODD_ERRORS = (OSError, ValueError, RuntimeError, KeyError, CancelledError)
MOST = 0.7  # of the calls of one verb meet a fault


class Fault(StrEnum):
    """The kind of fault that one call meets."""

    NONE = "none"
    BEFORE = "before"  # an error; nothing was applied
    ANSWER_LOST = "answer_lost"  # applied, then an error
    LATE = "late"  # an error now, applied afterwards
    TWICE = "twice"  # applied and answered, then applied again
    SLOW = "slow"  # applied and answered, in the end
    IN_FLIGHT = "in_flight"  # on its way: it arrives even if its sender dies
    CRASH_BEFORE = "crash_before"  # the sender dies, nothing was applied
    CRASH_AFTER = "crash_after"  # applied, the sender dies before the answer
    WRONG_BEFORE = "wrong_before"  # an error that no store promises; nothing was applied
    WRONG_AFTER = "wrong_after"  # the same, and it was applied


class Mix(Struct, frozen=True, kw_only=True):
    """How often each fault happens, of all calls; five times as often to calls of ``focus``. Times in seconds."""

    rates: dict[Fault, float] = {}
    focus: str = ""
    latency: float = 0.005
    timeout: float = 1.0
    slowest: float = 2.0
    latest: float = 20.0


class Luck(Struct, frozen=True):
    """How long the parts of a call take, as numbers from 0 to 1. ``side``: whether the request or the answer takes the time."""

    side: float
    there: float
    back: float
    wait: float


class Fate(Struct, frozen=True):
    """The outcome of one call, and how long its parts take, in seconds."""

    fault: Fault
    luck: Luck
    mix: Mix
    is_refusing: bool = False

    @property
    def delay(self) -> float:
        """The seconds of an ordinary request or answer."""
        return self.luck.there * self.mix.latency

    @property
    def error_delay(self) -> float:
        """The seconds from a failed call to its error: at once, or a time-out."""
        if self.is_refusing or self.luck.wait < 0.2:
            return self.luck.back * self.mix.latency
        return (self.luck.wait - 0.2) / 0.8 * self.mix.timeout

    @property
    def slow_way_there(self) -> float:
        """When it is slow."""
        return self.luck.there * self.mix.slowest

    @property
    def slow_way_back(self) -> float:
        """When it is slow."""
        return self.luck.back * self.mix.slowest

    @property
    def lateness(self) -> float:
        """How long after its sending a late or doubled call is applied."""
        return self.luck.back**2 * self.mix.latest

    def odd(self) -> BaseException:
        """Return an error that no store promises: of a driver, of the machine, or a cancellation that leaks out of a driver."""
        return ODD_ERRORS[int(self.luck.side * len(ODD_ERRORS))](ODD)


Script = Callable[[str, int, int], tuple[Fault, Luck | None]]
Note = Callable[[str, int, Fault, Luck], None]


def is_odd(error: BaseException) -> bool:
    """Return whether the error was made by ``odd``."""
    return isinstance(error, ODD_ERRORS) and ODD in error.args


class Faults:
    """Draw the outcome of each call of one process.

    ``is_out``: no call reaches the store at the moment. ``is_refusing``: callers then get the error at once.
    ``calls``: the number of calls so far. ``standstill``: seconds for which the store still does nothing; calls wait there.

    ``script``: the outcome of the n-th call of a verb, the m-th of all, in place of ``mix``. ``note`` receives each fault.
    """

    def __init__(
        self,
        numbers: random.Random,
        mix: Mix,
        *,
        script: Script | None = None,
        note: Note = lambda *fate: None,
        standstill: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.mix = mix
        self.standstill = standstill
        self.is_out = False
        self.is_refusing = False
        self.calls = 0
        self._draw = numbers.random
        self._script = script
        self._note = note
        self._calls_of: defaultdict[str, int] = defaultdict(int)

    def draw(self, verb: str) -> Fate:
        """Draw the outcome of the next call; each draw takes the same count of numbers, so that no fault moves later ones."""
        draw = self._draw
        lot, luck, given = draw(), Luck(draw(), draw(), draw(), draw()), None
        self.calls += 1
        self._calls_of[verb] = nth = self._calls_of[verb] + 1
        fault = Fault.BEFORE
        if not self.is_out:
            fault, given = (self._choose(verb, lot), None) if self._script is None else self._script(verb, nth, self.calls)
            luck = given or luck
            if fault is not Fault.NONE:
                self._note(verb, nth, fault, luck)
        return Fate(fault, luck, self.mix, self.is_refusing)

    def _choose(self, verb: str, lot: float) -> Fault:
        rates = self.mix.rates
        if verb == self.mix.focus:
            lot *= max(0.2, sum(rates.values()) / MOST)  # no verb fails every time
        for fault, rate in rates.items():
            lot -= rate
            if lot < 0:
                return fault
        return Fault.NONE

    def stop(self) -> None:
        """Stop all faults: every call arrives from now on."""
        self.mix, self._script = Mix(latency=self.mix.latency), None
        self.is_out = self.is_refusing = False
