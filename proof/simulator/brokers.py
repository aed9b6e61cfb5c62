"""Brokers in a world: processes that stand for election, and answer the calls of all others while they lead."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from holdfast._engine.environment import Environment
from holdfast.broker.broker import Broker
from holdfast.broker.serving import DRAIN
from holdfast.errors import HoldfastError
from holdfast.transports.polling import PollingTransport
from proof.simulator.event_listeners import Ears
from proof.simulator.hosts import Machine, SimChance
from proof.stores.broker_calls import Listener
from proof.stores.objects import BucketWorld

if TYPE_CHECKING:
    from proof.simulator.loop import Process
    from proof.simulator.world import World

_PAUSE = 0.05


class BrokerSlot:
    """One URL at which a broker listens: when its process ends, another one is started there, as a service manager does."""

    def __init__(self, world: World, number: int) -> None:
        self._world, self._number, self._lives = world, number, 0
        self.url = f"http://broker-{number}:7700"
        machines = world.machines[:1] if world.plan.is_live else world.machines
        self._machine: Machine = world.loop.stream(f"place of broker {number}").choice(machines)
        self._stopping = asyncio.Event()
        self._broker: Broker | None = None
        self.process: Process | None = None

    def start(self) -> None:
        """Start a process, and another one whenever it has ended."""
        self._lives += 1
        process = self._machine.process("broker", f"broker {self._number}.{self._lives}")
        self.process, self._broker, self._stopping = process, None, asyncio.Event()
        process.on_exit.append(lambda _: self._end(process.numbers.random()))
        self._world.loop.start(process, self._live(process))

    def start_again(self) -> None:
        """Start a process if none lives here."""
        if not self._world.is_over and (self.process is None or self.process.is_dead):
            self.start()

    def drain(self) -> list[str]:
        """Ask the process to end; return its title."""
        if self.process is None or self._broker is None:
            return []
        self._world.loop.call_soon(self._stop, self._broker, context=self._world.loop.context_of(self.process))
        return [self.process.title]

    def _stop(self, broker: Broker) -> None:
        self._bucket.listeners.pop(self.url, None)
        broker.stop()
        self._stopping.set()

    def _end(self, share: float) -> None:
        world = self._world
        self._bucket.listeners.pop(self.url, None)
        if not world.is_over:
            pause = 0.0 if world.is_calm else share**2 * world.plan.settings.timing.ttl
            world.loop.call_later(0.1 + pause, self.start_again, context=world.loop.outside)

    @property
    def _bucket(self) -> BucketWorld:
        return cast(BucketWorld, self._world.store)

    async def _live(self, process: Process) -> None:
        world, clock = self._world, self._machine.clock
        world.faults[process.name] = world.faults_of(process, is_healthy=world.plan.is_live)
        world.on_connect(process)
        chance, store = SimChance(process.numbers, clock), self._bucket.reached_by(process)
        environment = Environment(store, PollingTransport(), clock, chance, Ears(world, process))
        broker = Broker(environment, world.plan.settings, maintains=False)
        try:
            await broker.stand(self.url)
        except HoldfastError:
            return
        self._broker = broker
        self._bucket.listeners[self.url] = listener = Listener(world.loop, process, broker.application())
        await self._stopping.wait()
        until = clock.monotonic() + DRAIN
        while not listener.is_idle and clock.monotonic() < until:
            await clock.sleep(_PAUSE)
        await broker._leadership.end()
        await store.close()


class WorldBrokers:
    """All brokers of a world."""

    def __init__(self, world: World) -> None:
        plan = world.plan.brokers
        self.slots = [BrokerSlot(world, number) for number in range(0 if plan is None else plan.brokers)]

    def start(self) -> None:
        """Start those that do not live."""
        for each in self.slots:
            each.start_again()
