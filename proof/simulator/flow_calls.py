"""What the clients of a world share that send verbs of workflows: how they reach the store, and what a missing answer means to them."""

import random
from collections.abc import Awaitable
from typing import TypeVar
from uuid import UUID

from holdfast._engine.client.client import Client
from holdfast._ports.clock import Clock
from holdfast._ports.store import Store
from holdfast._system.clock import compose_uuid7
from holdfast.errors import StoreUnavailable
from proof.simulator.call_outcomes import ODD_ERRORS, is_odd

Answered = TypeVar("Answered")


def store_of(client: Client) -> Store:
    """Return the store as a client reaches it, for verbs that it has no method for."""
    return client._store


def new_id(clock: Clock, numbers: random.Random, first: int, number: int) -> UUID:
    """Return a new id; ``first`` and ``number`` keep it apart from the ids of other clients."""
    return compose_uuid7(int(clock.wall() * 1000), (first + number) << 32 | numbers.getrandbits(32))


async def attempt(call: Awaitable[Answered]) -> list[Answered]:
    """Return the answer in a list, which is empty if there was none."""
    try:
        return [await call]
    except StoreUnavailable:
        return []
    except ODD_ERRORS as error:
        if not is_odd(error):
            raise
        return []
